package registry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

func TestOutboxKeepsTheNewestOnly(t *testing.T) {
	var o Outbox
	at := func(v int64) *datum {
		return &datum{message: &wirev1.Datum{DataInfoId: "x", Version: v, Values: []string{"a"}}, hash: uint64(v)}
	}
	for v := range int64(10_000) {
		o.Push(Push{ID: "slow", datum: at(v)})
	}
	assert.Len(t, o.pushes, 1, "one entry for each subscription")
	both := at(10_000)
	o.Push(Push{ID: "slow", datum: both})
	o.Push(Push{ID: "other", datum: both})
	m := o.Next()
	if assert.Len(t, m.GetPushes(), 1, "one datum is sent once") {
		assert.Equal(t, []string{"slow", "other"}, m.GetPushes()[0].GetSubscriptions())
		assert.EqualValues(t, 10_000, m.GetPushes()[0].GetDatum().GetVersion())
	}
	assert.Nil(t, o.Next())
	o.Push(Push{ID: "slow", datum: at(10_001)})
	assert.Len(t, o.Next().GetPushes(), 1)
}

func TestOutboxMessagesAreBounded(t *testing.T) {
	var o Outbox
	large := make([]byte, 300<<10)
	for i := range 10 {
		o.Push(Push{ID: string(rune('a' + i)), datum: newDatum(&wirev1.Datum{Version: 1, Values: []string{string(large)}}, uint64(i+1))})
	}
	for i := range 3 * messageAcks {
		o.Answer([]Ack{{ID: fmt.Sprint(i), Version: 1}}, nil, nil)
	}
	messages, pushes, acks := 0, 0, 0
	for m := o.Next(); m != nil; m = o.Next() {
		messages++
		pushes, acks = pushes+len(m.GetPushes()), acks+len(m.GetAccepted())
		assert.LessOrEqual(t, len(m.GetPushes()), 4)
	}
	assert.Equal(t, 10, pushes)
	assert.Equal(t, 3*messageAcks, acks)
	assert.Equal(t, 3, messages)
}

// A client that registers again and again and reads nothing has one pending
// acknowledgement for each id, and its stream ends before refusals fill the
// memory.
func TestOutboxOfAClientThatReadsNothing(t *testing.T) {
	var o Outbox
	for v := range int64(10_000) {
		o.Answer([]Ack{{ID: "a", Version: v}, {ID: "b", Version: 1}}, nil, nil)
	}
	m := o.Next()
	if assert.Len(t, m.GetAccepted(), 2) {
		assert.EqualValues(t, 9_999, m.GetAccepted()[0].GetVersion())
	}
	assert.Nil(t, o.Next())
	for !o.Overflows() {
		o.Answer(nil, nil, []*wirev1.Refusal{{}})
	}
	assert.Len(t, o.refused, maxRefusals+1)
}

// A client that watches other values all the time, and reads none, makes a
// session keep no more than what it watches.
func TestOutbox_ForgetsWhatIsWatchedNoMore(t *testing.T) {
	var o Outbox
	for i := range 100 {
		id := fmt.Sprint(i)
		o.Configure(wire.EpochOut(conclave.Epoch{Term: 1, Seq: 7}), &wirev1.WatchedValue{Id: id})
		if i > 0 {
			o.Unconfigure(id)
		}
	}
	o.Configure(wire.EpochOut(conclave.Epoch{Term: 1, Seq: 8}), &wirev1.WatchedValue{Id: "0", Set: true})
	got := o.Next().GetConfig()
	assert.Len(t, got.GetValues(), 1)
	assert.True(t, got.GetValues()[0].GetSet(), "the newest replaces the others")
	assert.EqualValues(t, 8, got.GetEpoch().GetSeq())
	o.Configure(wire.EpochOut(conclave.Epoch{Term: 1, Seq: 8}), &wirev1.WatchedValue{Id: "0"})
	o.Unconfigure("0")
	assert.Nil(t, o.Next())
}

// A large list that is sent to many subscribers of several clients is encoded once:
// each message has the same bytes, not only equal ones. That of one subscriber is
// encoded when it is sent.
func TestOutbox_ListIsEncodedOnceForAllSubscribers(t *testing.T) {
	const clients = 50
	now := time.Unix(0, 0)
	r := New(testGrace, 0, nil)
	r.Resize(1, now)
	r.Adopt(0, conclave.Epoch{Term: 1}, "data-1", now)
	outboxes := map[*Owner]*Outbox{}
	push := func(pushes []Push, err error) {
		require.NoError(t, err)
		for _, p := range pushes {
			outboxes[p.To].Push(p)
		}
	}
	list := func(dataID string) {
		reads, _ := r.TakeReads(0, "data-1", 10, now)
		require.Len(t, reads.Wants, 1)
		d := &wirev1.Datum{DataInfoId: keyOf(dataID), Version: 1, Values: make([]string, 100), Publishers: make([]uint32, 100)}
		for i := range d.Values {
			d.Values[i] = strings.Repeat(dataID, 100)
		}
		pushes, counted := r.Fetched(reads, []*wirev1.Fetched{{Datum: d}}, now)
		require.True(t, counted)
		push(pushes, nil)
	}
	for i := range clients {
		o := &Owner{Client: fmt.Sprint(i)}
		outboxes[o] = &Outbox{}
		push(r.Subscribe(o, &wirev1.Subscription{Id: "s", DataInfoId: keyOf("x")}, now))
	}
	list("x")
	var once *byte
	for _, out := range outboxes {
		m := out.Next()
		require.Len(t, m.GetPushes(), 1)
		encoded := m.Pushes[0].ProtoReflect().GetUnknown()
		require.NotEmpty(t, encoded)
		if once == nil {
			once = &encoded[0]
		}
		assert.Same(t, once, &encoded[0])
		assert.Len(t, asRead(t, m).GetPushes()[0].GetDatum().GetValues(), 100)
	}

	alone := &Owner{Client: "alone"}
	outboxes[alone] = &Outbox{}
	push(r.Subscribe(alone, &wirev1.Subscription{Id: "s", DataInfoId: keyOf("y")}, now))
	list("y")
	m := outboxes[alone].Next()
	require.Len(t, m.GetPushes(), 1)
	assert.NotNil(t, m.Pushes[0].GetDatum())
}

// What waits is counted in bytes: entries, and each list once. Only a single list may
// exceed the limit.
func TestOutbox_BytesAreBounded(t *testing.T) {
	var o Outbox
	list := func(version int64, size int) *datum {
		return newDatum(&wirev1.Datum{DataInfoId: "x", Version: version, Values: []string{strings.Repeat("v", size)}}, uint64(version))
	}
	const limit = 10_000
	one := list(1, 50_000)
	o.Push(Push{ID: "a", datum: one})
	o.Push(Push{ID: "b", datum: one})
	assert.False(t, o.Exceeds(limit), "a single list, for two subscriptions")
	for v := range int64(100) {
		o.Push(Push{ID: "b", datum: list(v+2, 50_000)})
	}
	assert.Less(t, o.bytes, 101_000, "newer lists take the place of older ones")
	assert.True(t, o.Exceeds(limit), "two lists")
	o.Unsubscribe("a")
	assert.False(t, o.Exceeds(limit), "what an ended subscription waited for is gone")
	assert.Len(t, o.Next().GetPushes(), 1)
	assert.Greater(t, o.Taken(), 50_000)
	assert.Nil(t, o.Next())

	// A client that subscribes and unsubscribes in turn keeps nothing but its entries.
	for i := range 200 {
		id := fmt.Sprint(i)
		o.Push(Push{ID: id, datum: list(int64(i), 1000)})
		o.Unsubscribe(id)
	}
	assert.Empty(t, o.contents)
	assert.True(t, o.Exceeds(limit), "and these are bounded")
	assert.Nil(t, o.Next())

	for i := range 200 {
		o.Answer([]Ack{{ID: fmt.Sprint("accepted", i)}}, []Ack{{ID: fmt.Sprint("stored", i)}}, []*wirev1.Refusal{{Id: "r", Message: "no"}})
		o.Want([]Ack{{ID: fmt.Sprint("wanted", i)}})
		o.Configure(nil, &wirev1.WatchedValue{Id: fmt.Sprint(i % 10), Value: "v"})
		o.Push(Push{ID: fmt.Sprint(i), datum: list(int64(i), 10)})
	}
	assert.True(t, o.Exceeds(limit))
	o.Unconfigure("0")
	o.Unsubscribe("7")
	for o.Next() != nil {
	}
	assert.Zero(t, o.bytes, "everything is taken off again")
	assert.False(t, o.Exceeds(limit))
}
