package data

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/data/store"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// reader returns the feed of a session that has read a datum.
func reader(id string) *watcher { return &watcher{given: map[string]given{id: {}}} }

// named returns a message that names a datum.
func named(epoch conclave.Epoch, id string) *wirev1.SlotChange {
	return &wirev1.SlotChange{LeaderEpoch: wire.EpochOut(epoch), DataInfoIds: []string{id}}
}

// When a message is made, the slot may have been left since the change, or be served at
// another epoch: then the message is as before.
func TestCarry_OnlyAtTheEpochOfTheChange(t *testing.T) {
	epoch, next, now := conclave.Epoch{Term: 2, Seq: 5}, conclave.Epoch{Term: 3, Seq: 1}, time.Now()
	for name, r := range map[string]*replica{
		"served": {state: slot.Serving, epoch: epoch}, "served again": {state: slot.Serving, epoch: next},
		"finished": {state: slot.Finished, epoch: epoch}, "followed": {epoch: epoch}, "granted again": {state: slot.Migrating, epoch: next},
	} {
		r.store, r.watchers = store.New(time.Minute), &watchers{}
		r.store.Serve(1, time.Time{}, now)
		c := named(epoch, "x")
		r.carry(reader("x"), c, now)
		assert.Equal(t, name == "served", len(c.GetAnswers()) == 1 && len(c.GetDataInfoIds()) == 0, name)
		assert.Equal(t, name != "served", len(c.GetAnswers()) == 0 && len(c.GetDataInfoIds()) == 1, name)
	}
}

// A feed that remembers as many data as it may forgets them for another one only.
func TestNoteGiven_IsBounded(t *testing.T) {
	ws, now := &watchers{}, time.Now()
	w := ws.open(conclave.NodeID{Name: "session-1", Incarnation: "i"}, true)
	note := func(i int) {
		ws.noteGiven(w.session, []*wirev1.Want{{}}, []*wirev1.Fetched{{Datum: &wirev1.Datum{DataInfoId: fmt.Sprint(i)}}}, now)
	}
	for i := range givenMost {
		note(i)
	}
	note(7)
	require.Len(t, w.given, givenMost)
	note(givenMost)
	assert.Len(t, w.given, 1)
}

// A session that fetches what it was carried, because its window is longer, is carried no
// more of it for a while: that would replace the contents from which its delta is made.
func TestNoteGiven_WhatIsFetchedAllTheSameIsNotCarried(t *testing.T) {
	ws, now := &watchers{}, time.Now()
	w := ws.open(conclave.NodeID{Name: "session-1", Incarnation: "i"}, true)
	content := func(hash uint64) []*wirev1.Fetched {
		return []*wirev1.Fetched{{Datum: &wirev1.Datum{DataInfoId: "x"}, Hash: hash}}
	}
	carried := func(after time.Duration) bool {
		_, ok := ws.mayCarry(w, "x", now.Add(after))
		return ok
	}
	ws.noteGiven(w.session, []*wirev1.Want{{}}, content(1), now)
	assert.True(t, carried(time.Second))
	ws.noteGiven(w.session, nil, content(2), now)
	ws.noteGiven(w.session, []*wirev1.Want{{Hash: 2}}, content(3), now)
	assert.True(t, carried(time.Second), "it has counted what it was carried")
	ws.noteGiven(w.session, nil, content(4), now)
	ws.noteGiven(w.session, []*wirev1.Want{{Hash: 3}}, content(5), now)
	assert.False(t, carried(carryAgain))
	assert.True(t, carried(carryAgain+carryPause))
}

// What is not small is named, and not made again for each message until it is fetched.
func TestCarry_WhatIsNotCarriedIsForgotten(t *testing.T) {
	r, now := &replica{state: slot.Serving, epoch: conclave.Epoch{Term: 2, Seq: 5}}, time.Now()
	r.store, r.watchers = store.New(time.Minute), &watchers{}
	r.store.Serve(1, time.Time{}, now)
	d := conclave.DataInfoID{DataID: "x", Instance: conclave.DefaultInstance, Group: conclave.DefaultGroup}.String()
	large := &wirev1.Publisher{Id: "r", DataInfoId: d, Version: 1, Values: []string{strings.Repeat("x", 5<<10)}}
	r.store.Write(store.CopyOf(conclave.NodeID{Name: "session-1", Incarnation: "i"}, large), now)
	w := reader(d)
	c := named(r.epoch, d)
	r.carry(w, c, now)
	assert.Equal(t, []string{d}, c.GetDataInfoIds())
	assert.Empty(t, w.given)
}
