package registry

import (
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// topic is one DataInfoID that a client of this session subscribes to.
type topic struct {
	data conclave.DataInfoID
	key  string
	slot *slotState
	subs []*subscription

	held     *datum    // the last answer that was counted at the slot's epoch; nil before the first
	mark     mark      // the unconfirmed removals that the leader reported
	raise    int64     // a subscriber has other content at this version: the leader must rise above it
	due      bool      // to be read again, not before from
	from     time.Time // the end of the push window, of a hold, or of a pause after a failure
	lastRead time.Time
	bytes    int  // of the last answer, and of what was given to subscribers since
	whole    bool // a delta did not fit: the next read is of the whole list

	asked []*subscription // for which the read of what is held next has asked the leader to rise; see refuse
	parts *parts          // of a large list that is being read; nil: none
	large uint64          // bytes of the list, which are too many to be sent; 0: it is sent
}

// mark marks a datum: removals below a version are unconfirmed until a time.
type mark struct {
	below      int64
	until      time.Time
	incomplete time.Time // the end of the slot's mark: registrations may be missing that this leader never had
	withdrawn  []uint32  // publishers that are not missing then
}

// parts is a list that is being read.
type parts struct {
	epoch   conclave.Epoch // of the slot, at which all parts are read
	list    wire.Assembly
	version int64
	again   bool // the datum may have changed since the first part

	// What the leader said of the datum with any of the parts.
	below      int64
	until      time.Time
	incomplete time.Time
	withdrawn  []uint32
}

// read marks a topic to be read, not before from. A topic that is due already
// keeps the earlier time.
func (tp *topic) read(from time.Time) {
	if tp.parts != nil {
		tp.parts.again = true // what is being read may be older
	}
	tp.plan(from)
}

// ask records for which subscriptions a read asks the leader to rise. Those that are
// added while a list is read in parts are not among them: its version was chosen with
// the first part.
func (tp *topic) ask() {
	if tp.asked = nil; tp.raise != 0 {
		tp.asked = slices.Clone(tp.subs)
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
func (s *subscription) has(d *datum) bool { return s.hash == d.hash && !s.withheld }

// share replaces the publishers of the subscription by those of d, which all receivers
// share. What its client has brought is not kept, nor charged, any longer.
func (s *subscription) share(d *datum) {
	s.publishers = d.message.Publishers
	s.to.charge(-s.own)
	s.bytes -= s.own
	s.own = 0
}

// datum is the content of a topic at a version. What is sent of it is never
// changed once made, and is shared by all its receivers.
type datum struct {
	message *wirev1.Datum
	list    *wire.List // of the message
	hash    uint64
	size    int // estimated bytes on the wire
	bytes   int // in memory; see wire.List.Bytes

	once       **encoding                   // set by share; copies of the datum have the same
	deltas     map[contentKey]*wirev1.Delta // from earlier contents; see since
	publishers map[uint32]bool              // of the message; made by set

	unconfirmed time.Duration // how much longer it is marked
}

func newDatum(m *wirev1.Datum, hash uint64) *datum {
	if hash == 0 {
		hash = wire.ContentHash(m.Values)
	}
	size := 64 + len(m.DataInfoId) + sizeOf(m.Values)
	list := wire.ListOf(m)
	bytes := list.Bytes()
	if bytes > wire.PartsFrom {
		list.PublishersHash() // now, since outboxes use the list at the same time
	}
	return &datum{message: m, list: list, hash: hash, size: size, bytes: bytes, once: new(*encoding)}
}

// encoding is a large list as it is sent, which is made once for all its receivers.
type encoding struct {
	field []byte // of a Push: the datum with its tag; never changed
}

// pushDatum is the number of the field datum of a Push.
var pushDatum = (&wirev1.Push{}).ProtoReflect().Descriptor().Fields().ByName("datum").Number()

// share returns the encoding of a datum of which several receivers are sent the whole
// list. A small list has none: to keep it costs more than to encode it for each.
func (d *datum) share() *encoding {
	if d.size < wire.DeltaLeast {
		return nil
	}
	if *d.once == nil {
		b, err := proto.Marshal(d.message)
		if err != nil {
			return nil // it is encoded for each receiver, and the error is that of its stream
		}
		field := protowire.AppendTag(make([]byte, 0, len(b)+16), pushDatum, protowire.BytesType)
		*d.once = &encoding{protowire.AppendBytes(field, b)}
	}
	return *d.once
}

// push returns a push of the datum, without its list.
func (d *datum) push(subscriptions []string) *wirev1.Push {
	return &wirev1.Push{Subscriptions: subscriptions, Hash: d.hash, UnconfirmedMs: wire.Ms(d.unconfirmed)}
}

// put sets the datum of a push: the message, or its encoding, which is sent as it
// is, as fields are that a message does not know.
func (d *datum) put(push *wirev1.Push, e *encoding) {
	if e == nil {
		push.Datum = d.message
		return
	}
	push.ProtoReflect().SetUnknown(e.field)
}

// set returns the publishers of the message.
func (d *datum) set() map[uint32]bool {
	if d.publishers == nil {
		d.publishers = make(map[uint32]bool, len(d.message.Publishers))
		for _, p := range d.message.Publishers {
			d.publishers[p] = true
		}
	}
	return d.publishers
}

func (d *datum) count() int { return len(d.message.Values) }
