package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	wirev1 "conclave/wire/v1"
)

// While many new publications wait, a withdrawal and an update are in the next
// message, and new ones still have their share of it.
func TestLink_WithdrawalsAndUpdatesGoFirst(t *testing.T) {
	c, err := New(Config{Sessions: []string{"a:1"}})
	require.NoError(t, err)
	l := &link{client: c, windows: newWindows(time.Second), owed: map[*Publication]bool{}, unfit: map[*Subscription]bool{}}
	publish := func(n int) (out []*Publication) {
		for range n {
			p, err := c.Publish(t.Context(), "a", []string{string(make([]byte, 100))})
			require.NoError(t, err)
			out = append(out, p)
		}
		return out
	}
	old := publish(2)
	for _, p := range old {
		p.acknowledge(1, 1, nil)
	}
	c.links = append(c.links, l)
	publish(1000)
	require.NoError(t, old[0].Update([]string{"new"}))
	require.NoError(t, old[1].Withdraw())
	m := l.next()
	require.NotNil(t, m)
	assert.Equal(t, old[1].id, m.Publishers[0].GetId())
	assert.True(t, m.Publishers[0].GetWithdrawn())
	assert.Equal(t, old[0].id, m.Publishers[1].GetId())
	assert.Greater(t, len(m.Publishers), 100, "the rest of the message is for new ones")

	// However much is updated, a quarter of each message is for new ones.
	l.windows = newWindows(time.Second)
	l.windows[0].size, l.windows[1].size = windowMost, windowMost
	for p := range c.pubs {
		if c.pubs[p].accepted.version == 0 {
			c.pubs[p].accepted.version = 1
			require.NoError(t, c.pubs[p].Update([]string{string(make([]byte, 100))}))
		}
	}
	fresh := publish(1000)
	m = l.next()
	require.NotNil(t, m)
	news := 0
	for _, p := range m.Publishers {
		if p.GetVersion() == 1 {
			news++
		}
	}
	assert.Greater(t, 5*news, len(m.Publishers))
	assert.Less(t, 3*news, len(m.Publishers))
	assert.Equal(t, fresh[0].id, m.Publishers[len(m.Publishers)-news].GetId(), "the oldest of them first")
}

// While new publications are not accepted, because the session has no room for them,
// an update and a withdrawal are sent all the same, and as many messages of new ones
// as before.
func TestLink_WhatIsUrgentDoesNotWaitForRoom(t *testing.T) {
	c, err := New(Config{Sessions: []string{"a:1"}})
	require.NoError(t, err)
	l := &link{client: c, windows: newWindows(time.Second), owed: map[*Publication]bool{}, unfit: map[*Subscription]bool{}}
	old, err := c.Publish(t.Context(), "a", []string{"old"})
	require.NoError(t, err)
	old.acknowledge(1, 1, nil)
	c.links = append(c.links, l)
	for range 2000 {
		_, err := c.Publish(t.Context(), "a", []string{string(make([]byte, 100))})
		require.NoError(t, err)
	}
	sent := 0
	for m := l.next(); m != nil; m = l.next() {
		sent++
	}
	require.Positive(t, sent)
	require.LessOrEqual(t, sent, windowMessages)
	require.NoError(t, old.Update([]string{"new"}))
	m := l.next()
	require.NotNil(t, m)
	require.Len(t, m.Publishers, 1)
	assert.Equal(t, old.id, m.Publishers[0].GetId())
	require.NoError(t, old.Withdraw())
	m = l.next()
	require.NotNil(t, m)
	require.Len(t, m.Publishers, 1)
	assert.True(t, m.Publishers[0].GetWithdrawn())
	assert.Nil(t, l.next())
}

// A session that the client has come to holds nothing of it: an update of what the last
// session had accepted is new there and may wait for room. It goes before other
// publications, and leaves the window of what is urgent to withdrawals.
func TestLink_UpdateAtAnotherSessionIsNew(t *testing.T) {
	c, err := New(Config{Sessions: []string{"a:1"}})
	require.NoError(t, err)
	newLink := func(seq uint64) *link {
		return &link{client: c, seq: seq, windows: newWindows(time.Second), owed: map[*Publication]bool{}, unfit: map[*Subscription]bool{}}
	}
	one, two := newLink(1), newLink(2)
	accepted := func(l *link, p *Publication) {
		require.NoError(t, l.handle(&wirev1.ServerMessage{Accepted: []*wirev1.Ack{{Id: p.id, Version: p.version}}}))
	}
	var pubs []*Publication
	for range 2000 {
		p, err := c.Publish(t.Context(), "a", []string{string(make([]byte, 100))})
		require.NoError(t, err)
		accepted(one, p)
		pubs = append(pubs, p)
	}
	c.links = append(c.links, two)
	for _, p := range pubs[1:] {
		require.NoError(t, p.Update([]string{string(make([]byte, 100))}))
	}
	_, err = c.Publish(t.Context(), "a", []string{"new"})
	require.NoError(t, err)
	var first *wirev1.ClientMessage
	for m := two.next(); m != nil; m = two.next() { // as many as are sent before any is accepted
		if first == nil {
			first = m
		}
	}
	require.NotNil(t, first)
	assert.EqualValues(t, 2, first.Publishers[0].GetVersion(), "changes go before what is new to all")
	require.NoError(t, pubs[0].Withdraw())
	m := two.next()
	require.NotNil(t, m, "a withdrawal does not wait for room")
	require.Len(t, m.Publishers, 1)
	assert.True(t, m.Publishers[0].GetWithdrawn())

	accepted(two, pubs[1])
	require.NoError(t, pubs[1].Update([]string{"again"}))
	m = two.next()
	require.NotNil(t, m)
	assert.Equal(t, pubs[1].id, m.Publishers[0].GetId(), "its session holds this one")
}

// What waits is taken once, in the newest class that it had when it was added.
func TestWaiting_AgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w waiting
		all := make([]*Publication, 4)
		for i := range all {
			all[i] = &Publication{}
		}
		model := map[*Publication]int{}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				p := rapid.SampledFrom(all).Draw(t, "p")
				p.version, p.accepted.version = 2, int64(rapid.IntRange(0, 2).Draw(t, "accepted"))
				p.withdrawn, p.acceptedBy = rapid.Bool().Draw(t, "withdrawn"), rapid.Uint64Max(1).Draw(t, "accepted by")
				class := classOf(p, 0)
				w.add(p, class)
				if was, waits := model[p]; !waits || class < was {
					model[p] = class
				}
			},
			"take": func(t *rapid.T) {
				class := rapid.IntRange(0, classes-1).Draw(t, "class")
				p := w.first(class)
				if p == nil {
					for _, of := range model {
						assert.NotEqual(t, class, of)
					}
					return
				}
				assert.Equal(t, class, model[p])
				w.remove(p)
				delete(model, p)
			},
			"": func(t *rapid.T) {
				assert.Equal(t, len(model) == 0, w.empty())
				behind := false
				for _, of := range model {
					behind = behind || of > withdrawals
				}
				assert.Equal(t, behind, w.behind(withdrawals))
			},
		})
	})
}
