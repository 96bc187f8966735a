package check_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave/internal/trace"
	"conclave/slot"
	"conclave/testbed"
	"conclave/testbed/check"
)

// burstForgeries are for the checker of what a burst of load leaves behind.
var burstForgeries = map[string]forgery{
	"L23": { // more than a tenth slower, later than five seconds after the burst
		func(f *forger) {
			f.changes(200, 10*time.Second).burst(nil).pause(5*time.Second).changes(170, 10*time.Second)
		},
		func(f *forger) {
			f.changes(200, 10*time.Second).burst(nil).pause(5*time.Second).changes(190, 10*time.Second)
		},
	},
	"L23 against twenty seconds before it": { // the changes of ten seconds happen to be many
		func(f *forger) {
			f.changes(195, 10*time.Second).changes(225, 10*time.Second).burst(nil).pause(5*time.Second).changes(180, 10*time.Second)
		},
		func(f *forger) {
			f.changes(195, 10*time.Second).changes(225, 10*time.Second).burst(nil).pause(5*time.Second).changes(200, 10*time.Second)
		},
	},
	"L23 fast again within five seconds": {
		func(f *forger) {
			f.changes(200, 10*time.Second).burst(nil).pause(7*time.Second).changes(200, 10*time.Second)
		},
		func(f *forger) {
			f.changes(200, 10*time.Second).burst(nil).pause(5*time.Second).changes(200, 10*time.Second)
		},
	},
	"L23 of clients that stay": { // what guests change is no throughput
		func(f *forger) {
			f.changes(200, 10*time.Second).burst(nil).pause(5*time.Second).changes(170, 8*time.Second).guestChanges(60, 2*time.Second)
		},
		func(f *forger) {
			f.guestChanges(60, 2*time.Second).changes(200, 8*time.Second).burst(nil).pause(5*time.Second).changes(190, 10*time.Second)
		},
	},
	"L23 until the healing": { // after it the clients end, and the rate says nothing
		func(f *forger) {
			f.changes(200, 10*time.Second).burst(nil).pause(10 * time.Second).op(check.Op{Kind: check.OpHealed}).pause(20 * time.Second).leader("meta-1")
		},
		func(f *forger) {
			f.changes(200, 10*time.Second).burst(nil).pause(5*time.Second).changes(100, 5*time.Second).op(check.Op{Kind: check.OpHealed})
			f.pause(20 * time.Second).leader("meta-1")
		},
	},
	"L24": {
		func(f *forger) {
			f.connected("client-1", "session-1@a").burst(func() { f.connected("client-1", "session-2@a") }).pause(9 * time.Second).leader("meta-1")
		},
		func(f *forger) { // before it
			f.connected("client-1", "session-1@a").connected("client-1", "session-2@a")
			f.burst(func() { f.connected("client-1", "session-2@a", "session-1@a") }).pause(9 * time.Second).leader("meta-1")
		},
	},
	"L24 client gone": {
		func(f *forger) { f.burst(func() { f.gone("session-1") }).pause(9 * time.Second).leader("meta-1") },
		func(f *forger) { // the client has left
			f.burst(func() {
				f.op(check.Op{Client: "guest-1", Kind: check.OpWithdraw, ID: "guest-1/1", Name: "s"}).pause(5 * time.Second).gone("session-1")
			}).pause(9 * time.Second).leader("meta-1")
		},
	},
	"L24 election": {
		func(f *forger) {
			f.burst(func() { f.claim("meta-2", led(8, time.Second)) }).pause(9 * time.Second).leader("meta-1")
		},
		func(f *forger) {
			f.claim("meta-2", led(8, time.Second)).burst(nil).pause(9 * time.Second).leader("meta-1")
		},
	},
	"L24 node removed": {
		func(f *forger) { f.burst(nil).evicted("data-1").pause(9 * time.Second).leader("meta-1") },
		func(f *forger) { // long after it
			f.burst(nil).pause(20 * time.Second).evicted("data-1").pause(9 * time.Second).leader("meta-1")
		},
	},
	"L24 session removed": {
		func(f *forger) {
			f.burst(nil).claim("data-1", trace.Claim{Kind: trace.OwnerGone, Peer: id("session-1"), Count: 3}).pause(9 * time.Second).leader("meta-1")
		},
		func(f *forger) { // it had nothing there
			f.burst(nil).claim("data-1", trace.Claim{Kind: trace.OwnerGone, Peer: id("session-1")}).pause(9 * time.Second).leader("meta-1")
		},
	},
	"L24 session of before": { // it was restarted before the burst, and what it had had may go
		func(f *forger) {
			f.took("session-1'", 1).burst(nil).claim("data-1", trace.Claim{Kind: trace.OwnerGone, Peer: id("session-1'"), Count: 3}).pause(9 * time.Second).leader("meta-1")
		},
		func(f *forger) {
			f.took("session-1'", 1).burst(nil).claim("data-1", trace.Claim{Kind: trace.OwnerGone, Peer: id("session-1"), Count: 3}).pause(9 * time.Second).leader("meta-1")
		},
	},
	"L24 late event of a session of before": { // which does not make it the newest
		func(f *forger) {
			f.took("session-1", 1).took("session-1'", 1).took("session-1", 1)
			f.burst(nil).claim("data-1", trace.Claim{Kind: trace.OwnerGone, Peer: id("session-1'"), Count: 3}).pause(9 * time.Second).leader("meta-1")
		},
		func(f *forger) {
			f.took("session-1", 1).took("session-1'", 1)
			f.burst(nil).claim("data-1", trace.Claim{Kind: trace.OwnerGone, Peer: id("session-1"), Count: 3}).pause(9 * time.Second).leader("meta-1")
		},
	},
	"L24 slot granted": {
		func(f *forger) {
			f.burst(nil).claim("meta-1", trace.Claim{Kind: trace.Granted, Peer: id("data-2"), Key: string(slot.Crash)}).pause(9 * time.Second).leader("meta-1")
		},
		func(f *forger) { // moved as planned
			f.burst(nil).claim("meta-1", trace.Claim{Kind: trace.Granted, Peer: id("data-2"), Key: string(slot.Switching)}).pause(9 * time.Second).leader("meta-1")
		},
	},
}

// changes adds n acknowledged changes of a client that stays, spread over a time.
func (f *forger) changes(n int, over time.Duration) *forger {
	return f.acknowledged("client-1", n, over)
}

func (f *forger) guestChanges(n int, over time.Duration) *forger {
	return f.acknowledged("guest-1", n, over)
}

func (f *forger) acknowledged(client string, n int, over time.Duration) *forger {
	for range n {
		f.pause(over/time.Duration(n) - time.Millisecond).op(check.Op{Client: client, Kind: check.OpStored, Name: "s", ID: client + "/1"})
	}
	return f
}

// burst adds four seconds of load, and what happens after the first one.
func (f *forger) burst(meanwhile func()) *forger {
	f.fault(testbed.Action{Verb: testbed.Burst, Factor: 20}).pause(time.Second)
	if meanwhile != nil {
		meanwhile()
	}
	return f.pause(3 * time.Second).fault(testbed.Action{Verb: testbed.EndBurst})
}

func (f *forger) evicted(node string) *forger {
	return f.op(check.Op{Client: node, Kind: check.OpEvicted})
}

// Without events, elections are those that were observed.
func TestBurst_ElectionIsObserved(t *testing.T) {
	for term, bad := range map[uint64]bool{7: false, 8: true} {
		f := forge()
		f.h.HasEvents = false
		f.add(check.Entry{Observed: &check.Observation{Leader: "meta-1", Term: 7}})
		f.burst(nil).add(check.Entry{Observed: &check.Observation{Leader: "meta-2", Term: term}})
		assert.Equal(t, bad, len(verdict(t, "L24", f).Violations) > 0)
	}
}

// Only load may have happened; and too few changes are no rate.
func TestBurst_IsNotCheckedBesideOtherFaults(t *testing.T) {
	for name, f := range map[string]*forger{
		"before": forge().fault(testbed.Action{Verb: testbed.Kill, Node: "data-1"}).changes(200, 10*time.Second).burst(nil),
		"during": forge().changes(200, 10*time.Second).burst(nil).fault(testbed.Action{Verb: testbed.Resign, Node: "meta-1"}),
		"lasts":  forge().changes(200, 10*time.Second).fault(testbed.Action{Verb: testbed.Burst}),
	} {
		f.claim("meta-2", led(8, time.Second)).pause(20 * time.Second).leader("meta-1")
		for _, id := range []string{"L23", "L24"} {
			v := verdict(t, id, f)
			assert.Zero(t, v.Checks, name)
			assert.Empty(t, v.Violations, name)
		}
	}
	slow := forge().changes(90, 10*time.Second).burst(nil).pause(20 * time.Second).leader("meta-1")
	rate := verdict(t, "L23", slow)
	assert.Empty(t, rate.Violations)
	assert.Zero(t, rate.Checks, "it does not count as checked")
	assert.Equal(t, "bursts without a rate to compare: 1", rate.Shown)
	assert.NotZero(t, verdict(t, "L24", slow).Checks)
}
