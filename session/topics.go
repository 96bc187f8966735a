package session

import (
	"slices"
	"sync"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// topics holds the subscriptions of this session's clients: one topic for each
// DataInfoID with a subscriber, with what was last read of it, and whether it
// must be read again.
type topics struct {
	guard guard
	wake  func()     // called without any lock held when a topic is to be read
	trace trace.Sink // events are reported with the lock held

	mu      sync.Mutex // guards the rest
	window  time.Duration
	stopped bool // the switch stop-push: nothing is pushed
	byKey   map[string]*topic
	slots   map[int]*topicSlot
	subs    int
	pushes  uint64 // number of pushes given to outboxes since the start
}

// topicSlot holds the topics of one slot.
type topicSlot struct {
	topics map[string]*topic
	due    []*topic // those with due set, in the order in which it was set
}

// topic is one DataInfoID that a client of this session subscribes to.
type topic struct {
	data conclave.DataInfoID
	key  string
	slot int
	subs []*subscription

	held     *datum    // the last answer that was counted at the slot's epoch; nil before the first
	mark     mark      // the unconfirmed removals that the leader reported
	top      int64     // the highest version that any subscriber was sent, or came with
	raise    int64     // a subscriber has other content at this version: the leader must rise above it
	due      bool      // to be read again, not before from
	from     time.Time // the end of the push window, of a hold, or of a pause after a failure
	lastRead time.Time
}

// datum is the content of a topic at a version. What is sent of it is never
// changed once made, and is shared by all its receivers.
type datum struct {
	message *wirev1.Datum
	hash    uint64
	size    int // estimated bytes on the wire

	publishers map[uint32]bool // of the message; made by set

	unconfirmed time.Duration // how much longer the push guard would have held it back without the subscription's limit
}

func newDatum(m *wirev1.Datum, hash uint64) *datum {
	if hash == 0 {
		hash = wire.ContentHash(m.Values)
	}
	size := 64 + len(m.DataInfoId)
	for _, v := range m.Values {
		size += 4 + len(v)
	}
	return &datum{message: m, hash: hash, size: size}
}

// set returns the publishers of the message. The topics' mutex guards it.
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

// subscription is one client's subscription to a topic, with the last push that
// it was sent.
type subscription struct {
	id    string
	to    *connection
	topic *topic
	at    int // its index in topic.subs

	version    int64
	hash       uint64 // 0: it has nothing
	count      int
	publishers []uint32      // of its content; shared, never changed
	sure       int64         // the highest version at which the slot's leader had the same content
	limit      time.Duration // how long a push may be held back while it has no list; 0: no limit of its own
	full       int           // like count, but with what was lost in small steps until doubted; see guard.pushed
	doubted    time.Time     // the end of the mark that was valid at the last push
	held       time.Time     // since when the guard holds a push back; zero: none is held back
}

func newTopics(window time.Duration, g guard, wake func()) *topics {
	return &topics{guard: g, wake: wake, window: window, byKey: map[string]*topic{}, slots: map[int]*topicSlot{}}
}

// subscribe adds a subscription, which may come with what its client has from
// another session. The caller holds the slot's fence.
func (t *topics) subscribe(to *connection, data conclave.DataInfoID, slot int, in *wirev1.Subscription, now time.Time) *subscription {
	key := data.String()
	t.mu.Lock()
	defer t.mu.Unlock()
	tp := t.byKey[key]
	if tp == nil {
		tp = &topic{data: data, key: key, slot: slot}
		t.byKey[key] = tp
		t.slot(slot).topics[key] = tp
		t.read(tp, now)
	}
	s := &subscription{id: in.GetId(), to: to, topic: tp, at: len(tp.subs), version: in.GetVersion(), hash: in.GetHash(), count: int(in.GetCount()), publishers: in.GetPublishers(), limit: wire.FromMs(in.GetHoldMs())}
	tp.subs = append(tp.subs, s)
	tp.top = max(tp.top, s.version)
	t.subs++
	// What this session holds for other subscribers may be pushed at once. What
	// this client has may be newer: the next read settles that.
	if tp.held != nil {
		t.offer(tp, s, now)
	}
	return s
}

// unsubscribe ends a subscription. The topic is removed with its last one.
func (t *topics) unsubscribe(s *subscription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tp := s.topic
	last := len(tp.subs) - 1
	if s.at > last || tp.subs[s.at] != s {
		return
	}
	tp.subs[s.at] = tp.subs[last]
	tp.subs[s.at].at = s.at
	tp.subs[last] = nil
	tp.subs = tp.subs[:last]
	t.subs--
	if last == 0 {
		delete(t.byKey, tp.key)
		delete(t.slots[tp.slot].topics, tp.key)
		tp.due = false
	}
}

func (t *topics) slot(n int) *topicSlot {
	s := t.slots[n]
	if s == nil {
		s = &topicSlot{topics: map[string]*topic{}}
		t.slots[n] = s
	}
	return s
}

// read marks a topic to be read, not before from. A topic that is due already
// keeps the earlier time.
func (t *topics) read(tp *topic, from time.Time) {
	if tp.due {
		if from.Before(tp.from) {
			tp.from = from
		}
		return
	}
	tp.due, tp.from = true, from
	s := t.slot(tp.slot)
	s.due = append(s.due, tp)
}

// Large lists with many readers are paced beyond the push window, so that one
// dataId that changes all the time takes at most about 50 MB/s of a session.
const (
	pacePerByte = 20 * time.Nanosecond
	paceAtMost  = time.Second
)

func (tp *topic) pace() time.Duration {
	if tp.held == nil {
		return 0
	}
	return min(time.Duration(tp.held.size*(1+len(tp.subs)))*pacePerByte, paceAtMost)
}

// changed records that the leader's datum of each key has changed: it is read
// at once, or when the window of its last read ends.
func (t *topics) changed(keys []string) {
	t.mu.Lock()
	found := false
	for _, k := range keys {
		if tp := t.byKey[k]; tp != nil {
			t.read(tp, tp.lastRead.Add(t.window+tp.pace()))
			found = true
		}
	}
	t.mu.Unlock()
	if found {
		t.wake()
	}
}

// refresh marks every topic of the slots to be read now, because the slots'
// feed starts again.
func (t *topics) refresh(now time.Time, slots ...int) {
	t.mu.Lock()
	found := false
	for _, n := range slots {
		s := t.slots[n]
		if s == nil {
			continue
		}
		for _, k := range sortedKeys(s.topics) {
			t.read(s.topics[k], now)
			found = true
		}
	}
	t.mu.Unlock()
	if found {
		t.wake()
	}
}

// resize moves every topic to its slot in a table with another number of slots.
func (t *topics) resize(slotOf func(key string) (int, bool), now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.slots = map[int]*topicSlot{}
	for _, k := range sortedKeys(t.byKey) {
		tp := t.byKey[k]
		if n, ok := slotOf(k); ok {
			tp.slot, tp.due = n, false
			t.slot(n).topics[k] = tp
			t.read(tp, now)
		}
	}
}

// want is one topic that is about to be read, with what is held of it.
type want struct {
	key     string
	version int64
	hash    uint64
	size    int // of the last answer, to estimate that of the next one
}

// waiting returns the slots with topics to be read, in order.
func (t *topics) waiting() []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []int
	for n, s := range t.slots {
		if len(s.due) > 0 {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// take returns up to limit topics of the slot that may be read now, and the
// earliest time at which another may. A topic that changes while it is read
// becomes due again.
func (t *topics) take(slot, limit int, now time.Time) (wants []want, next time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.slots[slot]
	if s == nil {
		return nil, next
	}
	kept := s.due[:0]
	for _, tp := range s.due {
		switch {
		case !tp.due: // it has no subscribers left
		case len(wants) >= limit || tp.from.After(now):
			kept = append(kept, tp)
			if next.IsZero() || tp.from.Before(next) {
				next = tp.from
			}
		default:
			tp.due, tp.lastRead = false, now
			w := want{key: tp.key, version: tp.raise, size: 128}
			if tp.held != nil {
				w.size += tp.held.size
				if tp.raise == 0 {
					w.hash = tp.held.hash
				}
			}
			wants = append(wants, w)
		}
	}
	clear(s.due[len(kept):])
	s.due = kept
	return wants, next
}

// retry marks topics that could not be read to be read again, not before from.
// It wakes all readers, since the slot may have moved to another node.
func (t *topics) retry(wants []want, from time.Time) {
	if len(wants) == 0 {
		return
	}
	t.mu.Lock()
	for _, w := range wants {
		if tp := t.byKey[w.key]; tp != nil {
			t.read(tp, from)
		}
	}
	t.mu.Unlock()
	t.wake()
}
