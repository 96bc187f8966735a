package registry

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"conclave"
	"conclave/wire"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// claiming is a client whose subscriptions claim versions, at a session that reads a datum.
type claiming struct {
	*testing.T
	r     *Registry
	now   time.Time
	owner *Owner
}

func newClaiming(t *testing.T) *claiming {
	c := &claiming{t, New(testGrace, 10*time.Millisecond, nil), time.Now(), &Owner{}}
	c.r.Resize(1, c.now)
	c.r.Adopt(0, conclave.Epoch{Term: 1}, "data-1", c.now)
	return c
}

func (c *claiming) subscribe(id string, version int64) {
	_, err := c.r.Subscribe(c.owner, &wirev1.Subscription{Id: id, DataInfoId: keyOf("x"), Version: version, Hash: 7}, c.now)
	require.NoError(c, err)
}

// read answers the next read with a version.
func (c *claiming) read(version int64) []Push {
	c.now = c.now.Add(time.Second)
	reads, _ := c.r.TakeReads(0, "data-1", 10, c.now)
	require.Len(c, reads.Wants, 1)
	pushes, _ := c.r.Fetched(reads, []*wirev1.Fetched{{Datum: &wirev1.Datum{DataInfoId: keyOf("x"), Version: version, Values: []string{"v"}}}}, c.now)
	return pushes
}

// A subscription that claims a version which was never pushed ends when the leader
// does not rise above it; others of the topic are pushed what is there.
func TestFetched_ClaimThatCannotBeTrueEndsTheSubscription(t *testing.T) {
	c := newClaiming(t)
	c.subscribe("honest", 90)
	c.subscribe("liar", 1<<52)
	assert.Empty(t, c.read(60), "the leader is asked to rise")
	pushes := c.read(101)
	require.Len(t, pushes, 2)
	for _, p := range pushes {
		if p.ID == "liar" {
			assert.Equal(t, string(wire.CodeBadRequest), p.refusal.GetCode())
		} else {
			assert.EqualValues(t, 101, p.datum.version())
		}
	}
	var o Outbox
	for _, p := range pushes {
		o.Push(p)
	}
	m := o.Next()
	assert.Len(t, m.GetRefused(), 1)
	assert.Len(t, m.GetPushes(), 1)
	reads, _ := c.r.TakeReads(0, "data-1", 10, c.now.Add(time.Hour))
	assert.Empty(t, reads.Wants, "nothing is left to be settled")
}

// While nothing is pushed, nobody's version is asked for beyond what was before: who comes
// meanwhile with a true one from another session stays.
func TestFetched_ClaimThatWasNotAskedForStays(t *testing.T) {
	c := newClaiming(t)
	c.subscribe("first", 1)
	assert.Empty(t, c.read(1), "the leader is asked to rise above 1")
	c.r.Configure(10*time.Millisecond, true, false, c.now)
	c.subscribe("second", 3)
	assert.Empty(t, c.read(2))
	assert.Len(t, c.r.Subscribed(c.owner), 2)
}

// FuzzFetched reads a subscription, and what data nodes answer, from arbitrary
// bytes. Whatever arrives, versions rise per subscription, equal content is not
// pushed again, and what is pushed is what the subscription is recorded to have.
func FuzzFetched(f *testing.F) {
	datum := func(version int64, values ...string) *wirev1.Datum {
		return &wirev1.Datum{DataInfoId: keyOf("x"), Version: version, Values: values, Publishers: make([]uint32, len(values))}
	}
	part, _, _ := list.New(nil, make([]uint32, 2), 0).Part(&wirev1.Datum{}, list.Position{}, 1)
	hash := part.GetPublishersHash()
	var answers bytes.Buffer
	for _, a := range []*wirev1.FetchedSlot{
		{Datums: []*wirev1.Fetched{{Datum: datum(3, "a", "b")}}},
		{Datums: []*wirev1.Fetched{{Same: true, Datum: datum(4)}, {Same: true, Hash: 5, Datum: datum(5)}}},
		{Datums: []*wirev1.Fetched{{Datum: datum(6), UnconfirmedMs: 5000, UnexplainedVersion: 6, IncompleteMs: 1000}}},
		{Datums: []*wirev1.Fetched{{Datum: datum(7, "a"), Hash: list.ContentHash([]string{"a", "b"}), Part: &wirev1.Part{Values: 2, Publishers: 2, PublishersHash: hash}}}},
		{Datums: []*wirev1.Fetched{{Datum: datum(7, "b"), Hash: list.ContentHash([]string{"a", "b"}), Part: &wirev1.Part{Values: 2, Publishers: 2, PublishersHash: hash, ValuesAt: 1, PublishersAt: 1}}}},
		{Datums: []*wirev1.Fetched{{Datum: datum(8), TooLarge: 1 << 60}}},
		{Datums: []*wirev1.Fetched{{}}},
	} {
		_, err := protodelim.MarshalTo(&answers, a)
		require.NoError(f, err)
	}
	for _, s := range []*wirev1.Subscription{
		{Id: "s", DataInfoId: keyOf("x")},
		{Id: "s", DataInfoId: keyOf("x"), Version: 9, Hash: 7, Count: 1, HoldMs: 100, Publishers: []uint32{1}},
		{Id: "s", DataInfoId: "x", Version: -1},
	} {
		body, err := proto.Marshal(s)
		require.NoError(f, err)
		f.Add(body, answers.Bytes(), uint16(700))
	}
	f.Fuzz(func(t *testing.T, subscription, answers []byte, ms uint16) {
		var in wirev1.Subscription
		if proto.Unmarshal(subscription, &in) != nil {
			return
		}
		r, now := New(testGrace, 10*time.Millisecond, nil), time.Now()
		r.Resize(1, now)
		r.Adopt(0, conclave.Epoch{Term: 1}, "data-1", now)
		of, withheld, owner := map[string]*modelSub{}, map[string]bool{}, &Owner{Parts: true}
		receive := func(pushes []Push) {
			for _, p := range pushes {
				s := of[p.ID]
				if p.withheld {
					withheld[p.ID] = true
					continue
				}
				if p.refusal != nil {
					assert.NotContains(t, owner.subs, p.ID)
					delete(of, p.ID)
					continue
				}
				assert.Greater(t, p.datum.version(), s.version)
				assert.True(t, withheld[p.ID] || s.hash != p.datum.Hash(), "equal content")
				delete(withheld, p.ID)
				s.version, s.hash = p.datum.version(), p.datum.Hash()
			}
		}
		for _, s := range []*wirev1.Subscription{&in, {Id: "other", DataInfoId: keyOf("x")}} {
			pushes, err := r.Subscribe(owner, s, now)
			if err == nil {
				of[s.GetId()] = &modelSub{version: s.GetVersion(), hash: s.GetHash()}
			}
			receive(pushes)
		}
		for body := bytes.NewReader(answers); ; now = now.Add(time.Duration(ms) * time.Millisecond) {
			var a wirev1.FetchedSlot
			if protodelim.UnmarshalFrom(body, &a) != nil {
				break
			}
			reads, _ := r.TakeReads(0, "data-1", 10, now)
			pushes, counted := r.Fetched(reads, a.GetDatums(), now)
			assert.True(t, counted)
			receive(pushes)
			r.Retry(reads, len(a.GetDatums()), now)
			consistent(t, r)
			for id, s := range of {
				assert.Equal(t, s.version, owner.subs[id].version)
			}
		}
		r.Release(owner)
		assert.Empty(t, r.topics)
	})
}

// What the feed carries counts if it follows what is held. Otherwise it is ignored or read.
func TestCarried_CountsWhatFollows(t *testing.T) {
	now, first, second := time.Now(), conclave.Epoch{Term: 1}, conclave.Epoch{Term: 2}
	r := New(testGrace, 10*time.Millisecond, nil)
	r.Resize(1, now)
	r.Adopt(0, first, "data-1", now)
	_, err := r.Subscribe(&Owner{}, &wirev1.Subscription{Id: "s", DataInfoId: keyOf("x")}, now)
	require.NoError(t, err)
	answer := func(version int64) []*wirev1.Fetched {
		return []*wirev1.Fetched{{Datum: &wirev1.Datum{DataInfoId: keyOf("x"), Version: version, Values: []string{fmt.Sprint(version)}}}}
	}
	read := func(version int64) {
		reads, _ := r.TakeReads(0, "data-1", 10, now)
		require.Len(t, reads.Wants, 1)
		r.Fetched(reads, answer(version), now)
	}
	read(5)
	for _, c := range []struct {
		what         string
		epoch        conclave.Epoch
		version      int64
		counts, read bool
	}{
		{"within the push window", first, 6, false, true},
		{"older", first, 5, false, false},
		{"newer", first, 7, true, false},
		{"of an epoch of which nothing is held", second, 8, false, true},
	} {
		r.Adopt(0, c.epoch, "data-1", now)
		pushes, due := r.Carried(0, c.epoch, answer(c.version), now)
		assert.Equal(t, c.counts, len(pushes) == 1, c.what)
		assert.Equal(t, c.read, due, c.what)
		now = now.Add(time.Second)
		if due {
			read(c.version)
		}
		now = now.Add(time.Second)
	}
}
