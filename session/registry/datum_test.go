package registry

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"conclave"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// deltaMachine is a slot's leader with one large list, a registry, and two
// subscribers that apply what is taken from their outboxes.
type deltaMachine struct {
	r       *Registry
	now     time.Time
	ids     []int
	version int64
	of      map[int64]*list.List // every content that was read, by version
	kept    []*list.List         // what the leader can send deltas to
	subs    []*deltaSub
	deltas  int // applied by subscribers
}

// deltaSub is a subscriber, as the SDK is.
type deltaSub struct {
	owner     *Owner
	out       Outbox
	version   int64
	list      *list.List
	hash      uint64
	unfit     bool
	forgetful bool // its next delta finds another list than the session assumes
}

func newDeltaMachine(now time.Time) *deltaMachine {
	m := &deltaMachine{r: New(testGrace, 0, nil), now: now, version: 1, of: map[int64]*list.List{}}
	m.r.Resize(1, now)
	m.r.Adopt(0, conclave.Epoch{Term: 1}, "data-1", now)
	for i := range 40 {
		m.ids = append(m.ids, i)
	}
	for range 2 {
		s := &deltaSub{owner: &Owner{Deltas: true}, list: &list.List{}}
		m.subs = append(m.subs, s)
		m.subscribe(s)
	}
	return m
}

func (m *deltaMachine) list() *list.List {
	var values []string
	var publishers []uint32
	for _, id := range m.ids {
		values = append(values, fmt.Sprintf("%d:%s", id, strings.Repeat("x", 1000)))
		publishers = append(publishers, uint32(id))
	}
	return list.New(values, publishers, 0)
}

func (m *deltaMachine) subscribe(s *deltaSub) {
	pushes, err := m.r.Subscribe(s.owner, &wirev1.Subscription{
		Id: "s", DataInfoId: keyOf("x"), Version: s.version, Hash: s.hash, Count: uint32(len(s.list.Values)), Publishers: s.list.Publishers,
	}, m.now)
	if err != nil {
		panic(err)
	}
	m.push(pushes)
}

func (m *deltaMachine) push(pushes []Push) {
	for _, p := range pushes {
		for _, s := range m.subs {
			if s.owner == p.To {
				s.out.Push(p)
			}
		}
	}
}

// read lets the session read what is due; the leader answers with a delta if it can.
func (m *deltaMachine) read() {
	m.now = m.now.Add(2 * time.Second)
	reads, _ := m.r.TakeReads(0, "data-1", 10, m.now)
	var answers []*wirev1.Fetched
	for _, w := range reads.Wants {
		now := m.list()
		m.version = max(m.version, w.GetVersion()+1)
		f := &wirev1.Fetched{Datum: &wirev1.Datum{DataInfoId: w.GetDataInfoId(), Version: m.version}, Hash: now.Hash()}
		f.Same = f.Hash == w.GetHash()
		for _, base := range m.kept {
			if !f.Same && w.GetDeltas() && base.Hash() == w.GetHash() {
				f.Delta = base.DeltaTo(now)
			}
		}
		if f.Delta == nil && !f.Same {
			f.Datum.Values, f.Datum.Publishers = now.Values, now.Publishers
		}
		m.kept = append(m.kept[max(0, len(m.kept)-1):], now)
		m.of[m.version] = now
		answers = append(answers, f)
	}
	pushes, _ := m.r.Fetched(reads, answers, m.now)
	m.push(pushes)
}

// asRead returns a message as its receiver reads it: a list that was encoded once
// for several receivers is decoded.
func asRead(t assert.TestingT, m *wirev1.ServerMessage) *wirev1.ServerMessage {
	if m == nil {
		return nil
	}
	b, err := proto.Marshal(m)
	assert.NoError(t, err)
	read := &wirev1.ServerMessage{}
	assert.NoError(t, proto.Unmarshal(b, read))
	return read
}

// receive gives a subscriber one message. What it then has is exactly the content of
// its version.
func (m *deltaMachine) receive(t assert.TestingT, s *deltaSub) bool {
	message := asRead(t, s.out.Next())
	for _, p := range message.GetPushes() {
		d := p.GetDelta()
		version := max(p.GetDatum().GetVersion(), d.GetVersion())
		base := s.list
		if d.GetBaseVersion() != s.version || s.forgetful {
			base = nil
		}
		whole, err := new(list.Assembly).Add(p, base)
		if d != nil {
			assert.True(t, s.owner.Deltas, "only to clients that can apply it")
			assert.True(t, err == nil || s.forgetful || s.unfit, "the session knows what the subscriber has: %v", err)
			s.forgetful = false
			if err != nil {
				if !s.unfit {
					s.unfit = true
					m.subscribe(s)
				}
				continue
			}
			m.deltas++
		} else {
			s.unfit = false
		}
		assert.Greater(t, version, s.version)
		assert.True(t, slices.Equal(m.of[version].Values, whole.Values), "version %d", version)
		assert.True(t, slices.Equal(m.of[version].Publishers, whole.Publishers), "version %d", version)
		s.version, s.list, s.hash = version, whole, p.GetHash()
	}
	return message != nil
}

// Whatever changes, is lost, or waits unsent: what a subscriber makes of its
// deltas is the datum of that version, and in the end the newest one.
func TestDeltas_RebuiltListIsTheDatum(t *testing.T) {
	applied := 0
	rapid.Check(t, func(t *rapid.T) {
		m := newDeltaMachine(time.Now())
		defer func() { applied += m.deltas }()
		t.Repeat(map[string]func(*rapid.T){
			"change": func(t *rapid.T) {
				at := rapid.IntRange(0, len(m.ids)-1).Draw(t, "at")
				if rapid.Bool().Draw(t, "removed") && len(m.ids) > 20 {
					m.ids = slices.Delete(slices.Clone(m.ids), at, at+1)
				} else {
					m.ids = slices.Insert(slices.Clone(m.ids), at, rapid.IntRange(0, 99).Draw(t, "id"))
				}
				m.version++
				m.r.Changed([]string{keyOf("x")})
			},
			"read": func(*rapid.T) { m.read() },
			"settle": func(t *rapid.T) {
				m.read()
				for _, s := range m.subs {
					m.receive(t, s)
				}
			},
			"receive": func(t *rapid.T) { m.receive(t, rapid.SampledFrom(m.subs).Draw(t, "sub")) },
			"forget":  func(t *rapid.T) { rapid.SampledFrom(m.subs).Draw(t, "sub").forgetful = true },
			"leader":  func(*rapid.T) { m.kept = nil },
			"reconnect": func(t *rapid.T) {
				s := rapid.SampledFrom(m.subs).Draw(t, "sub")
				m.r.Unsubscribe(s.owner, "s")
				s.owner, s.out, s.unfit = &Owner{Deltas: rapid.IntRange(0, 3).Draw(t, "deltas") > 0}, Outbox{}, false
				m.subscribe(s)
			},
		})
		for range 10 {
			m.read()
			for _, s := range m.subs {
				for m.receive(t, s) {
				}
			}
		}
		for _, s := range m.subs {
			assert.True(t, slices.Equal(m.list().Values, s.list.Values), "the newest in the end")
		}
	})
	assert.NotZero(t, applied, "deltas were used")
}

func TestDeltas_UsedOnceTheListIsKnown(t *testing.T) {
	m := newDeltaMachine(time.Now())
	m.read()
	for _, s := range m.subs {
		require.True(t, m.receive(t, s))
	}
	assert.Zero(t, m.deltas, "the first list is whole")
	whole := m.r.topics[keyOf("x")].pace()
	m.ids = append(m.ids, 40)
	m.version++
	m.r.Changed([]string{keyOf("x")})
	m.read()
	for _, s := range m.subs {
		require.True(t, m.receive(t, s))
	}
	assert.Equal(t, 2, m.deltas)
	assert.Less(t, m.r.topics[keyOf("x")].pace()*10, whole, "and the topic is paced by what is sent")
}

// A topic of which some subscribers are sent deltas and others whole lists is paced
// by both.
func TestPace_CountsWhatEachSubscriberIsSent(t *testing.T) {
	m := newDeltaMachine(time.Now())
	old := &deltaSub{owner: &Owner{}, list: &list.List{}} // a client that cannot apply deltas
	m.subs = append(m.subs, old)
	m.subscribe(old)
	m.read()
	for range 3 {
		m.ids = append(m.ids, len(m.ids))
		m.version++
		m.r.Changed([]string{keyOf("x")})
		for _, s := range m.subs {
			require.True(t, m.receive(t, s))
		}
		m.read()
		tp := m.r.topics[keyOf("x")]
		size := time.Duration(tp.held.size())
		assert.Greater(t, tp.pace(), size*pacePerByte)
		assert.Less(t, tp.pace(), 2*size*pacePerByte, "one whole list, and deltas")
	}
	assert.NotZero(t, m.deltas)

	// What is read again unchanged costs nothing.
	m.r.Changed([]string{keyOf("x")})
	m.read()
	assert.Zero(t, m.r.topics[keyOf("x")].pace())
}

// Slow clients keep few old lists, however many contents were pushed since they
// read: a list is kept only as the base of a delta. A client that reads in time is sent
// deltas all the same.
func TestDeltas_SlowClientsKeepFewOldLists(t *testing.T) {
	m := newDeltaMachine(time.Now())
	quick := m.subs[0]
	m.subs = m.subs[:1]
	pinned := func() map[*datum]bool {
		bases := map[*datum]bool{}
		for _, s := range m.subs {
			if waits, ok := s.out.newest["s"]; ok && waits.base != nil {
				bases[waits.base] = true
			}
		}
		return bases
	}
	m.read()
	require.True(t, m.receive(t, quick))
	for range 4 * deltasKept { // each is slow from another content on
		slow := &deltaSub{owner: &Owner{Deltas: true}, list: &list.List{}}
		m.subs = append(m.subs, slow)
		m.subscribe(slow)
		m.read()
		m.receive(t, slow)
		m.ids = append(m.ids, len(m.ids))
		m.version++
		m.r.Changed([]string{keyOf("x")})
		m.read()
		before := m.deltas
		require.True(t, m.receive(t, quick))
		assert.Equal(t, before+1, m.deltas, "it reads in time")
		assert.LessOrEqual(t, len(pinned()), deltasKept+1)
	}
	assert.NotEmpty(t, pinned())
	last := &deltaSub{owner: &Owner{Deltas: true}, list: &list.List{}} // pushed to behind all slow ones
	m.subs = append(m.subs, last)
	m.subscribe(last)
	m.receive(t, last)
	for range 2 {
		m.ids = append(m.ids, len(m.ids))
		m.version++
		m.r.Changed([]string{keyOf("x")})
		m.read()
		before := m.deltas
		require.True(t, m.receive(t, last))
		assert.Equal(t, before+1, m.deltas)
	}
	for _, s := range m.subs {
		m.receive(t, s)
		assert.Equal(t, m.version, s.version)
	}
}

// A leader's delta that does not fit is dropped, and the whole list read.
func TestDeltas_UnfitAnswerIsReadAgainAsAWhole(t *testing.T) {
	m := newDeltaMachine(time.Now())
	m.read()
	tp := m.r.topics[keyOf("x")]
	held := tp.held
	want := func() *wirev1.Want {
		m.now = m.now.Add(time.Minute)
		reads, _ := m.r.TakeReads(0, "data-1", 10, m.now)
		require.Len(t, reads.Wants, 1)
		return reads.Wants[0]
	}
	answer := func(d *wirev1.Delta) {
		f := &wirev1.Fetched{Datum: &wirev1.Datum{DataInfoId: tp.key, Version: 9}, Hash: 9, Delta: d}
		pushes, _ := m.r.Fetched(Reads{Epoch: conclave.Epoch{Term: 1}}, []*wirev1.Fetched{f}, m.now)
		assert.Empty(t, pushes)
		assert.Same(t, held, tp.held)
	}
	for name, d := range map[string]*wirev1.Delta{
		"another base": {BaseHash: 1}, "another result": {BaseHash: held.Hash(), Values: 40, Publishers: 40}, "no list": {BaseHash: held.Hash(), Values: 1 << 31},
	} {
		m.r.Changed([]string{tp.key})
		assert.True(t, want().GetDeltas(), name)
		answer(d)
		assert.False(t, want().GetDeltas(), name)
		tp.whole = false
	}
}

// The delta by which the leader has sent a list is what the subscribers are sent, too.
func TestDeltas_LeadersDeltaIsSentOn(t *testing.T) {
	m := newDeltaMachine(time.Now())
	m.read()
	tp := m.r.topics[keyOf("x")]
	before := tp.held
	m.now = m.now.Add(time.Minute)
	next, delta := before.Next(append([]string{"new"}, before.Values[1:]...), before.Publishers)
	require.NotNil(t, delta)
	pushes, due := m.r.Carried(0, conclave.Epoch{Term: 1}, []*wirev1.Fetched{{Datum: &wirev1.Datum{DataInfoId: tp.key, Version: before.version() + 1}, Hash: next.Hash(), Delta: delta}}, m.now)
	assert.False(t, due)
	require.NotEmpty(t, pushes)
	assert.Same(t, delta, tp.held.since(before, false))
	assert.Equal(t, before.version(), delta.GetBaseVersion())
	assert.Equal(t, tp.held.version(), delta.GetVersion())
}
