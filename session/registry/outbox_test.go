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
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// datumOf returns the datum of a message, with this hash; 0: that of the content.
func datumOf(m *wirev1.Datum, hash uint64) *datum {
	return newDatum(m.GetDataInfoId(), m.GetVersion(), list.New(m.GetValues(), m.GetPublishers(), hash))
}

func TestOutboxKeepsTheNewestOnly(t *testing.T) {
	var o Outbox
	at := func(v int64) *datum {
		return datumOf(&wirev1.Datum{DataInfoId: "x", Version: v, Values: []string{"a"}}, uint64(v))
	}
	for v := range int64(10_000) {
		o.Push(Push{ID: "slow", unsent: unsent{datum: at(v)}})
	}
	assert.Len(t, o.pushes, 1, "one entry for each subscription")
	both := at(10_000)
	o.Push(Push{ID: "slow", unsent: unsent{datum: both}})
	o.Push(Push{ID: "other", unsent: unsent{datum: both}})
	m := o.Next()
	if assert.Len(t, m.GetPushes(), 1, "one datum is sent once") {
		assert.Equal(t, []string{"slow", "other"}, m.GetPushes()[0].GetSubscriptions())
		assert.EqualValues(t, 10_000, m.GetPushes()[0].GetDatum().GetVersion())
	}
	assert.Nil(t, o.Next())
	o.Push(Push{ID: "slow", unsent: unsent{datum: at(10_001)}})
	assert.Len(t, o.Next().GetPushes(), 1)
}

func TestOutboxMessagesAreBounded(t *testing.T) {
	var o Outbox
	large := make([]byte, 300<<10)
	for i := range 10 {
		o.Push(Push{ID: string(rune('a' + i)), unsent: unsent{datum: datumOf(&wirev1.Datum{Version: 1, Values: []string{string(large)}}, uint64(i+1))}})
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

// Answers that wait are counted in bytes; the lists, which their topics hold, are not.
func TestOutbox_AnswersAreBounded(t *testing.T) {
	o := Outbox{Limit: 10_000}
	list := func(version int64, size int) *datum {
		return datumOf(&wirev1.Datum{DataInfoId: "x", Version: version, Values: []string{strings.Repeat("v", size)}}, uint64(version))
	}
	for i := range int64(20) {
		o.Push(Push{ID: fmt.Sprint(i), unsent: unsent{datum: list(i, 50_000)}})
	}
	assert.False(t, o.Exceeds(), "any number of lists may wait")
	o.Push(Push{ID: "3", unsent: unsent{datum: list(99, 50_000)}})
	o.Push(Push{ID: "4", refusal: &wirev1.Refusal{Id: "4"}})
	assert.NotContains(t, o.newest, "4", "what a refused subscription waited for is gone")
	var ids []string
	for m := o.Next(); m != nil; m = o.Next() {
		for _, p := range m.GetPushes() {
			ids = append(ids, p.GetSubscriptions()...)
		}
	}
	assert.Len(t, ids, 19)

	// A client that subscribes and unsubscribes in turn keeps nothing but its entries.
	for i := range 200 {
		id := fmt.Sprint(i)
		o.Push(Push{ID: id, unsent: unsent{datum: list(int64(i), 1000)}})
		o.Unsubscribe(id)
	}
	assert.Empty(t, o.newest)
	assert.True(t, o.Exceeds(), "and these are bounded")
	assert.Nil(t, o.Next())

	for i := range 200 {
		o.Answer([]Ack{{ID: fmt.Sprint("accepted", i)}}, []Ack{{ID: fmt.Sprint("stored", i)}}, []*wirev1.Refusal{{Id: "r", Message: "no"}})
		o.Configure(nil, &wirev1.WatchedValue{Id: fmt.Sprint(i % 10), Value: "v"})
		o.Push(Push{ID: fmt.Sprint(i), unsent: unsent{datum: list(int64(i), 10)}})
	}
	assert.True(t, o.Exceeds())
	o.Unconfigure("0")
	o.Unsubscribe("7")
	for o.Next() != nil {
	}
	assert.Zero(t, o.bytes, "everything is taken off again")
	assert.False(t, o.Exceeds())
}

// The old lists that deltas are from are what an outbox alone keeps: beyond its limit
// the whole list is sent instead. A single one may have any size.
func TestOutbox_BasesAreBounded(t *testing.T) {
	o := Outbox{Limit: 200_000}
	list := func(dataID string, version int64) *datum {
		values, publishers := make([]string, 100), make([]uint32, 100)
		for i := range values {
			values[i], publishers[i] = fmt.Sprint(dataID, i, strings.Repeat("v", 1000)), uint32(i)
		}
		values[0] = fmt.Sprint(version)
		return datumOf(&wirev1.Datum{DataInfoId: dataID, Version: version, Values: values, Publishers: publishers}, uint64(version))
	}
	for i := range int64(5) {
		id := fmt.Sprint("svc-", i)
		o.Push(Push{ID: id, unsent: unsent{datum: list(id, 2), base: list(id, 1)}})
	}
	assert.False(t, o.Exceeds())
	assert.Less(t, o.baseBytes, o.Limit)
	deltas, whole := 0, 0
	for m := o.Next(); m != nil; m = o.Next() {
		for _, p := range m.GetPushes() {
			if p.GetDelta() != nil {
				deltas++
			} else {
				whole++
			}
		}
	}
	assert.Equal(t, []int{1, 4}, []int{deltas, whole})
	assert.Zero(t, o.baseBytes)

	o.Limit = 1000
	o.Push(Push{ID: "a", unsent: unsent{datum: list("a", 2), base: list("a", 1)}})
	o.Push(Push{ID: "a", unsent: unsent{datum: list("a", 3), base: list("a", 2)}})
	assert.EqualValues(t, 1, o.Next().GetPushes()[0].GetDelta().GetBaseVersion())
	assert.Zero(t, o.baseBytes)
	assert.Empty(t, o.bases)
	o.Push(Push{ID: "a", unsent: unsent{datum: list("a", 5), base: list("a", 4)}})
	o.Unsubscribe("a")
	assert.Empty(t, o.bases)
}

// A client that is given lists of many times the limit at once, and reads them, gets all
// of them, also while one that is larger is being sent in parts and changes meanwhile.
func TestOutbox_ReaderIsSentAnyNumberOfLists(t *testing.T) {
	o := Outbox{Limit: 1 << 20}
	list := func(version int64) *datum {
		values := make([]string, 6<<10)
		for i := range values {
			values[i] = strings.Repeat("v", 1<<10)
		}
		return datumOf(&wirev1.Datum{DataInfoId: "x", Version: version, Values: values}, uint64(version))
	}
	first := list(1)
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		o.Push(Push{ID: id, unsent: unsent{datum: list(1), parts: true}})
	}
	o.Push(Push{ID: "large", unsent: unsent{datum: first, parts: true}})
	sent, deltas := map[string]int{}, 0
	for m := o.Next(); m != nil; m = o.Next() {
		for _, p := range m.GetPushes() {
			if p.GetDelta() != nil {
				deltas++
			}
			for _, id := range p.GetSubscriptions() {
				sent[id] += len(p.GetDatum().GetValues())
			}
		}
		if sent["large"] > 0 && first != nil {
			o.Push(Push{ID: "large", unsent: unsent{datum: list(2), base: first, parts: true}})
			first = nil
		}
		require.False(t, o.Exceeds())
	}
	assert.Equal(t, map[string]int{"a": 6 << 10, "b": 6 << 10, "c": 6 << 10, "d": 6 << 10, "e": 6 << 10, "large": 6 << 10}, sent)
	assert.Equal(t, 1, deltas)
}

// What waits for a subscription that is asked for again is dropped: it may be for
// another dataId now, and then no topic holds that list any more.
func TestOutbox_DropsWhatWaitedForTheSubscriptionBefore(t *testing.T) {
	now := time.Unix(0, 0)
	r := New(testGrace, 0, nil)
	r.Resize(1, now)
	r.Adopt(0, conclave.Epoch{Term: 1}, "data-1", now)
	to, out := &Owner{Client: "a"}, &Outbox{}
	subscribe := func(dataID string) {
		pushes, err := r.Subscribe(to, &wirev1.Subscription{Id: "s", DataInfoId: keyOf(dataID)}, now)
		require.NoError(t, err)
		reads, _ := r.TakeReads(0, "data-1", 10, now)
		for i := range reads.Wants {
			more, _ := r.Fetched(reads, []*wirev1.Fetched{{Datum: &wirev1.Datum{DataInfoId: reads.Wants[i].GetDataInfoId(), Version: 1, Values: []string{dataID}}}}, now)
			if dataID != "other" { // the client has that
				pushes = append(pushes, more...)
			}
		}
		for _, p := range pushes {
			out.Push(p)
		}
	}
	subscribe("x")
	subscribe("x")
	require.Len(t, out.newest, 1)
	subscribe("other")
	assert.Empty(t, out.newest)
	assert.Nil(t, out.Next())
}

// That a list is withheld is reported after earlier lists, and not after a later one: the
// client's error ends with a push.
func TestOutbox_WithheldIsOfTheLatestList(t *testing.T) {
	var o Outbox
	list := func(id string, version int64, bytes int) Push {
		return Push{ID: id, unsent: unsent{datum: datumOf(&wirev1.Datum{DataInfoId: id, Version: version, Values: []string{strings.Repeat("x", bytes)}}, uint64(version))}}
	}
	withheld := func(id string) Push {
		return Push{ID: id, withheld: true, refusal: &wirev1.Refusal{Id: id, Code: string(wire.CodeTooLarge)}}
	}
	o.Push(withheld("grown"))
	o.Push(list("shrunk", 1, 1))
	o.Push(withheld("shrunk"))
	o.Push(list("shrunk", 2, 1))
	m := o.Next()
	assert.Len(t, m.GetPushes(), 1)
	require.Len(t, m.GetWithheld(), 1)
	assert.Equal(t, "grown", m.Withheld[0].GetId())

	o.Push(list("other", 1, messageBytes+1))
	o.Push(list("grown", 3, 1))
	o.Push(withheld("grown"))
	m = o.Next()
	assert.Len(t, m.GetPushes(), 1, "that of the other")
	assert.Empty(t, m.GetWithheld(), "an earlier list waits")
	m = o.Next()
	assert.Len(t, m.GetPushes(), 1)
	assert.Len(t, m.GetWithheld(), 1)
	assert.Nil(t, o.Next())
	assert.Zero(t, o.bytes)
}
