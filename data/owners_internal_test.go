package data

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave"
	"conclave/wire"
)

// A data node that was suspended received nothing, neither a session's sign of
// life nor the member list with it: the time does not count towards its grace.
func TestOwners_OwnLatenessIsNoAbsence(t *testing.T) {
	const grace, lease = 15 * time.Second, 3 * time.Second
	n, now := conclave.NodeID{Name: "session-1", Incarnation: "x"}, time.Now()
	o := &owners{view: wire.NewView(), grace: grace, lease: func() time.Duration { return lease }, known: map[conclave.NodeID]*presence{}}
	copies := map[conclave.NodeID]int{n: 1}
	assert.Empty(t, o.sweep(copies, false, now))
	o.attempt(n, false, false, now)

	const late = time.Hour
	now = now.Add(late)
	o.excuse(late, now)
	assert.Empty(t, o.sweep(copies, false, now))
	at := o.giveUpAt(n, time.Time{}, true, now)
	assert.Equal(t, now.Add(lease+grace), at, "attempts that it could not make have not failed")
	assert.Empty(t, o.sweep(copies, false, now.Add(grace-1)))
	assert.Equal(t, []conclave.NodeID{n}, o.sweep(copies, false, now.Add(grace)))
}

// What another goroutine has recorded after a suspension, before the sweep ran, is
// not put off into the future.
func TestOwners_WhatBeganWhileLateCountsFromNow(t *testing.T) {
	const grace, lease, late = 15 * time.Second, 3 * time.Second, time.Hour
	n, now := conclave.NodeID{Name: "session-1", Incarnation: "x"}, time.Now()
	o := &owners{view: wire.NewView(), grace: grace, lease: func() time.Duration { return lease }, known: map[conclave.NodeID]*presence{}}
	o.attempt(n, false, false, now.Add(-time.Second))
	o.excuse(late, now)
	assert.Equal(t, now.Add(lease+grace), o.giveUpAt(n, time.Time{}, true, now))
}
