package registry

import (
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"conclave"
	"conclave/wire"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// topic is one DataInfoID that a client of this session subscribes to.
type topic struct {
	data conclave.DataInfoID
	key  string
	slot *slotState
	subs []*subscription

	held     *datum         // the last answer that was counted at the slot's epoch; nil before the first
	epoch    conclave.Epoch // at which held was read
	mark     mark           // the unconfirmed removals that the leader reported
	raise    int64          // a subscriber has other content at this version: the leader must rise above it
	due      bool           // to be read again, not before from
	reading  bool           // a read of it was begun, and nothing was received since
	from     time.Time      // the end of the push window, of a hold, or of a pause after a failure
	lastRead time.Time
	bytes    int  // of the last answer, and of what was given to subscribers since
	whole    bool // a delta did not fit: the next read is of the whole list

	asked  []*subscription // for which the read of what is held next has asked the leader to rise; see refuse
	answer *answer         // of which some parts have come; nil: none
	large  uint64          // bytes of the list, which are too many to be sent; 0: it is sent
	pushes []Pushed        // the last ones, pushesKept at most
}

// Pushed is one version of a list that a session has pushed.
type Pushed struct {
	AtMs        int64 `json:"atMs"` // when the first subscriber was given it, in milliseconds of the wall clock
	Version     int64 `json:"version"`
	Values      int   `json:"values"`
	Subscribers int   `json:"subscribers"` // to how many it was given
}

// pushesKept is how many versions are remembered for operators.
const pushesKept = 8

// pushed remembers that a subscriber is given d.
func (tp *topic) pushed(d *datum, now time.Time) {
	if n := len(tp.pushes); n == 0 || tp.pushes[n-1].Version != d.version() {
		if n == pushesKept {
			tp.pushes = slices.Delete(tp.pushes, 0, 1)
		}
		tp.pushes = append(tp.pushes, Pushed{AtMs: now.UnixMilli(), Version: d.version(), Values: d.count()})
	}
	tp.pushes[len(tp.pushes)-1].Subscribers++
}

// answer is the answer to a read of a topic, which may come in parts.
type answer struct {
	epoch   conclave.Epoch // of the slot, at which all parts are read
	list    list.Assembly
	version int64
	mark    mark // what the leader said with any of the parts
	again   bool // the datum may have changed since the first part
}

// mark marks a datum: removals below a version are unconfirmed until a time.
type mark struct {
	below      int64
	until      time.Time
	incomplete time.Time // the end of the slot's mark: registrations may be missing that this leader never had
	withdrawn  []uint32  // publishers that are not missing then
}

// add adds what the leader says of the datum with an answer, or with a part of one.
func (m *mark) add(f *wirev1.Fetched, now time.Time) {
	if f.GetUnconfirmedMs() == 0 {
		return
	}
	m.below = max(m.below, f.GetUnexplainedVersion())
	if until := now.Add(wire.FromMs(f.GetUnconfirmedMs())); until.After(m.until) {
		m.until = until
	}
	if until := now.Add(wire.FromMs(f.GetIncompleteMs())); f.GetIncompleteMs() > 0 && !until.Before(m.incomplete) {
		m.incomplete, m.withdrawn = until, f.GetWithdrawn()
	}
}

// read marks a topic to be read, not before from. A topic that is due already
// keeps the earlier time.
func (tp *topic) read(from time.Time) {
	if tp.answer != nil {
		tp.answer.again = true // what is being read may be older
	}
	tp.plan(from)
}

// ask records for which subscriptions a read asks the leader to rise. Those that are
// added while a list is read in parts are not among them: its version was chosen with
// the first part. Nor are those that have come with a higher version while nothing was pushed.
func (tp *topic) ask() {
	if tp.asked = nil; tp.raise != 0 {
		tp.asked = slices.DeleteFunc(slices.Clone(tp.subs), func(s *subscription) bool { return s.version > tp.raise })
	}
}

// plan makes the topic due.
func (tp *topic) plan(from time.Time) {
	if tp.due {
		if from.Before(tp.from) {
			tp.from = from
		}
		return
	}
	tp.due, tp.from = true, from
	tp.slot.due = append(tp.slot.due, tp)
}

// Large lists with many readers are paced beyond the push window, by the bytes of
// the last read and its pushes, so that one dataId that changes all the time takes
// at most about 50 MB/s of a session.
const (
	pacePerByte = 20 * time.Nanosecond
	paceAtMost  = time.Second
)

func (tp *topic) pace() time.Duration {
	return min(time.Duration(tp.bytes)*pacePerByte, paceAtMost)
}

// subscription is one client's subscription to a topic, with the last push that
// it was sent.
type subscription struct {
	id    string
	to    *Owner
	topic *topic
	at    int // its index in topic.subs
	bytes int // that it is charged with
	own   int // of these: the publishers that its client has brought

	version    int64
	hash       uint64 // 0: it has nothing
	count      int
	publishers []uint32      // of its content; shared, never changed
	sent       *datum        // what it was sent last, the base of a delta; nil if none can be
	sure       int64         // the highest version at which the slot's leader had the same content
	limit      time.Duration // how long a push may be held back while it has no list; 0: no limit of its own
	full       int           // like count, but with what was lost in small steps until doubted; see guard.pushed
	doubted    time.Time     // the end of the mark that was valid at the last push
	held       time.Time     // since when the guard holds a push back; zero: none is held back
	withheld   bool          // it was sent the error that the list is too large
}

// has reports whether the subscriber has the content of d. One that was sent the error that the
// list is too large is pushed it again, by which it learns that this has ended.
func (s *subscription) has(d *datum) bool { return s.hash == d.Hash() && !s.withheld }

// share replaces the publishers of the subscription by those of d, which all receivers
// share. What its client has brought is not kept, nor charged, any longer.
func (s *subscription) share(d *datum) {
	s.publishers = d.Publishers
	s.to.charge(-s.own)
	s.bytes -= s.own
	s.own = 0
}

// received records that the subscriber has the content of d, and returns what it
// had before: the base of a delta, or nil if that is not known exactly. Nothing is
// kept for clients that cannot apply deltas.
func (s *subscription) received(d *datum) (base *datum) {
	base, s.sent = s.sent, nil
	if s.to.Deltas && d.Size() >= list.DeltaFrom {
		s.sent = d
	}
	return base
}

// datum is the content of a topic at a version. What is sent of it is never
// changed once made, and is shared by all its receivers.
type datum struct {
	*list.List
	message *wirev1.Datum // with the list

	encoded    []byte                       // the field of a Push with the message; see encode
	deltas     map[contentKey]*wirev1.Delta // from earlier contents; see since
	publishers map[uint32]bool              // of the list; made by set
}

func newDatum(key string, version int64, l *list.List) *datum {
	return &datum{List: l, message: &wirev1.Datum{DataInfoId: key, Version: version, Values: l.Values, Publishers: l.Publishers}}
}

// content returns the list, nil if d is.
func (d *datum) content() *list.List {
	if d == nil {
		return nil
	}
	return d.List
}

func (d *datum) version() int64 { return d.message.Version }

func (d *datum) count() int { return len(d.Values) }

// size estimates the bytes of the message on the wire.
func (d *datum) size() int { return 64 + len(d.message.DataInfoId) + d.Size() }

// set returns the publishers of the list.
func (d *datum) set() map[uint32]bool {
	if d.publishers == nil {
		d.publishers = make(map[uint32]bool, len(d.Publishers))
		for _, p := range d.Publishers {
			d.publishers[p] = true
		}
	}
	return d.publishers
}

// contentKey identifies what a subscriber has.
type contentKey struct {
	version int64
	hash    uint64
}

// deltasKept is from how many earlier contents a datum has deltas for clients that
// read slowly. One that has another content is sent the whole list.
const deltasKept = 8

// since returns the delta from base to d, or nil if the whole list is to be sent.
// It is made once for all subscribers that have that base. The contents of slow
// clients, for whom an earlier push waits, are limited; the others all have the one
// before d.
func (d *datum) since(base *datum, slow bool) *wirev1.Delta {
	if base == nil || d.Size() < list.DeltaFrom {
		return nil
	}
	key := contentKey{base.version(), base.Hash()}
	delta, made := d.deltas[key]
	if made || slow && len(d.deltas) >= deltasKept {
		return delta
	}
	if delta = base.DeltaTo(d.List); delta != nil {
		delta.DataInfoId, delta.Version, delta.BaseVersion = d.message.DataInfoId, d.version(), key.version
	}
	if d.deltas == nil {
		d.deltas = map[contentKey]*wirev1.Delta{}
	}
	d.deltas[key] = delta
	return delta
}

// sentBy keeps the delta from base with which the leader has sent d: the subscribers
// that have base are sent the same.
func (d *datum) sentBy(delta *wirev1.Delta, base *datum) {
	delta.DataInfoId, delta.Version, delta.BaseVersion = d.message.DataInfoId, d.version(), base.version()
	d.deltas = map[contentKey]*wirev1.Delta{{base.version(), base.Hash()}: delta}
}

// pushDatum is the number of the field datum of a Push.
var pushDatum = (&wirev1.Push{}).ProtoReflect().Descriptor().Fields().ByName("datum").Number()

// encode encodes the whole list once for several receivers, and reports whether it has.
// To keep the encoding of a small list costs more than to encode it for each.
func (d *datum) encode() bool {
	if d.encoded == nil && d.Size() >= list.DeltaFrom {
		b, err := proto.Marshal(d.message)
		if err != nil {
			return false // it is encoded for each receiver, and the error is that of its stream
		}
		field := protowire.AppendTag(make([]byte, 0, len(b)+16), pushDatum, protowire.BytesType)
		d.encoded = protowire.AppendBytes(field, b)
	}
	return d.encoded != nil
}
