package check_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave"
	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
)

// operatorForgeries are for the checks across subscribers, of copies, and of an
// operator's commands.
var operatorForgeries = map[string]forgery{
	"I7 first list": {
		func(f *forger) {
			push(f, "c", 5, "client-1/1#1", "client-2/2#1")
			push(f, "reader-1", 6, "client-1/1#1")
		},
		func(f *forger) { // the new subscriber receives an earlier state
			push(f, "c", 5, "client-1/1#1", "client-2/2#1")
			push(f, "reader-1", 4, "client-1/1#1")
		},
	},
	"I7 empty first list": {
		func(f *forger) { push(push(f, "c", 5, "client-1/1#1"), "reader-1", 6) },
		func(f *forger) {
			push(f, "c", 5, "client-1/1#1").op(check.Op{Client: "client-1", Kind: check.OpWithdraw, Name: "s", ID: "client-1/1", Version: 2})
			push(f, "reader-1", 6)
		},
	},
	"I7 all sessions are away": {
		func(f *forger) { f.awayFor("session-1", "session-2"); push(f, "c", 6) },
		func(f *forger) { // one session runs, and could have known the client
			f.awayFor("session-1")
			push(f, "c", 6)
		},
	},
	"I7 a session cannot be dialled": { // and no copy is left: a first list may lack what its clients registered
		func(f *forger) { // the client is at another session
			f.servedUndialled("session-2")
			push(f, "reader-1", 6, "client-1/1#1")
		},
		func(f *forger) {
			f.servedUndialled("session-1")
			push(f, "reader-1", 6, "client-1/1#1")
		},
	},
	"I7 a session that cannot be dialled had answered": {
		func(f *forger) {
			f.mergedFrom("session-1").servedUndialled("session-1")
			push(f, "reader-1", 6, "client-1/1#1")
		},
		func(f *forger) {
			f.mergedFrom("session-2").servedUndialled("session-1")
			push(f, "reader-1", 6, "client-1/1#1")
		},
	},
	"I7 a subscriber has a list when a session cannot be dialled": { // which may not shrink
		func(f *forger) {
			f.servedUndialled("session-1")
			push(f, "c", 6, "client-1/1#1")
		},
		func(f *forger) {
			f.servedUndialled("session-1")
			push(f, "c", 6, "client-1/1#1", "client-2/2#1")
		},
	},
	"I7 at a frozen session": { // only a client of SOFARegistry stays there
		func(f *forger) {
			f.connected("client-2", "session-1@1").servedFrozen()
			push(f, "reader-1", 6, "client-1/1#1")
		},
		func(f *forger) {
			f.ofSofa("client-2").servedFrozen()
			push(push(f, "reader-1", 6, "client-1/1#1"), "reader-1", 7, "client-1/1#2")
		},
	},
	"I7 seen, at a frozen session": {
		func(f *forger) { push(f.ofSofa("client-2").servedFrozen(), "c", 6, "client-1/1#1") },
		func(f *forger) { push(f.ofSofa("client-2").servedFrozen(), "c", 6, "client-1/1#1", "client-2/2#1") },
	},
	"I7 at a session that was frozen": {
		func(f *forger) { f.ofSofa("client-2").servedFrozen().thawed(11 * time.Second) },
		func(f *forger) { f.ofSofa("client-2").servedFrozen().thawed(9 * time.Second) },
	},
	"I7 no node has it": { // only the subscribers have the registrations
		func(f *forger) {
			f.allAwayFor()
			push(f, "c", 6, "client-1/1#1")
		},
		func(f *forger) {
			f.allAwayFor()
			push(f, "d", 6, "client-1/1#1") // d had received no list
			push(f, "c", 7, "client-1/1#1", "client-2/2#1")
		},
	},
	"I7 no node had it": { // a session grace later
		func(f *forger) {
			f.allAwayFor()
			push(f.pause(16*time.Second), "c", 6, "client-1/1#1")
		},
		func(f *forger) {
			f.allAwayFor()
			push(f.pause(16*time.Second), "c", 6, "client-1/1#1", "client-2/2#1")
		},
	},
	"L7 no copy of the last epoch": {
		func(f *forger) { f.handedOverAndLost(epoch(7, 2)).fallsBack() },
		func(f *forger) { f.handedOverAndLost(epoch(7, 1)).fallsBack() },
	},
	"L7 a lost follower": { // changes that only the leader had are lost if a session is lost, too
		func(f *forger) {
			f.aheadAndLost("data-1")
			f.fallsBack()
		},
		func(f *forger) {
			f.aheadAndLost("session-1")
			f.fallsBack()
		},
	},
	"L7 a session lost later": { // before the slot is served again, or after it
		func(f *forger) {
			f.aheadAndLost("data-1")
			f.pause(3 * time.Second).served()
			f.pause(time.Second).fault(testbed.Action{Verb: testbed.Kill, Node: "session-1"})
			f.fallsBack()
		},
		func(f *forger) {
			f.aheadAndLost("data-1")
			f.pause(3 * time.Second).fault(testbed.Action{Verb: testbed.Kill, Node: "session-1"})
			f.pause(time.Second).served()
			f.fallsBack()
		},
	},
	"L7 a suspended leader hands over": { // it lost nothing; or its slots were served without it
		func(f *forger) {
			f.aheadAndPaused()
			f.servedBy("data-3", true)
			f.fallsBack()
		},
		func(f *forger) {
			f.aheadAndPaused()
			f.servedBy("data-3", false)
			f.fallsBack()
		},
	},
	"L7 before a session is lost": { // a value falls back between the two losses
		func(f *forger) {
			f.aheadAndLost("data-1")
			f.pause(time.Second).fallsBack()
			f.pause(time.Second).fault(testbed.Action{Verb: testbed.Kill, Node: "session-1"}).pause(time.Second).served()
		},
		func(f *forger) {
			f.aheadAndLost("data-1")
			f.pause(time.Second).fault(testbed.Action{Verb: testbed.Kill, Node: "session-1"}).pause(time.Second).served()
			f.pause(time.Second).fallsBack()
		},
	},
	"L7 all copies lost": { // and a session: what its clients registered last is lost, too
		func(f *forger) {
			f.servedWithoutCopy("session-1", 4*time.Second, false)
			f.fallsBack()
		},
		func(f *forger) {
			f.servedWithoutCopy("session-1", 2*time.Second, false)
			f.fallsBack()
		},
	},
	"L7 all copies lost but the source's": {
		func(f *forger) {
			f.servedWithoutCopy("session-1", 2*time.Second, true)
			f.fallsBack()
		},
		func(f *forger) {
			f.servedWithoutCopy("session-1", 2*time.Second, false)
			f.fallsBack()
		},
	},
	"L7 a copy is left": { // which is marked as incomplete
		func(f *forger) {
			f.servedFrom(epoch(7, 2), "session-1", 2*time.Second, false)
			f.fallsBack()
		},
		func(f *forger) {
			f.servedWithoutCopy("session-1", 2*time.Second, false)
			f.fallsBack()
		},
	},
	"L7 the lost session had answered": { // so its registrations were taken over
		func(f *forger) {
			f.mergedFrom("session-1").servedWithoutCopy("session-1", 2*time.Second, false)
			f.fallsBack()
		},
		func(f *forger) {
			f.mergedFrom("session-2").servedWithoutCopy("session-1", 2*time.Second, false)
			f.fallsBack()
		},
	},
	"L7 all copies lost and no session": {
		func(f *forger) {
			f.servedWithoutCopy("data-1", 2*time.Second, false)
			f.fallsBack()
		},
		func(f *forger) {
			f.servedWithoutCopy("session-1", 2*time.Second, false)
			f.fallsBack()
		},
	},
	"L7 another subscriber": {
		func(f *forger) { f.withdrawnAt5(); push(push(f, "c", 6), "reader-1", 7, "client-1/1#1") },
		func(f *forger) { f.withdrawnAt5(); push(push(f, "c", 6), "reader-1", 5, "client-1/1#1") },
	},
	"L18": {
		func(f *forger) {
			f.op(check.Op{Kind: check.OpCompared, Version: 9, Values: []string{"slot 1"}})
		},
		func(f *forger) { f.op(check.Op{Kind: check.OpCompared, Version: 9}) },
	},
	"L18 a follower's own comparison": {
		func(f *forger) {
			f.claim("data-1", trace.Claim{Kind: trace.Differed, Slot: 3, Epoch: epoch(7, 3), Peer: id("data-2")})
		},
		func(f *forger) { f.op(check.Op{Kind: check.OpCompared, Version: 9}) },
	},
	"L19": {
		func(f *forger) {
			f.fault(testbed.Action{Verb: testbed.Forbid, Node: "session-1"}).fault(testbed.Action{Verb: testbed.Forbid, Node: "session-2"})
			f.op(check.Op{Client: "client-1", Kind: check.OpUnheard, ID: "client-1/1"})
		},
		func(f *forger) { // a command that was refused
			f.fault(testbed.Action{Verb: testbed.Forbid, Node: "session-1"}).op(stored("client-1/1"))
			f.fault(testbed.Action{Verb: testbed.Kill, Node: "session-2"}).op(check.Op{Client: "client-1", Kind: check.OpUnheard, ID: "client-1/2"})
		},
	},
	"L19 slots are frozen": {
		func(f *forger) { // and nothing has failed for long
			f.dataNodeGoneAndBack().pause(30 * time.Second).fault(testbed.Action{Verb: testbed.Freeze}).pause(30 * time.Second)
			f.op(check.Op{Client: "client-1", Kind: check.OpUnheard, ID: "client-1/1"})
		},
		func(f *forger) { // when a data node failed, whose slots nobody has taken over
			f.op(stored("client-1/2")).fault(testbed.Action{Verb: testbed.Freeze}).dataNodeGoneAndBack().pause(30 * time.Second)
			f.op(check.Op{Client: "client-1", Kind: check.OpUnheard, ID: "client-1/1"})
		},
	},
	"L19 no leader": {
		func(f *forger) {
			f.fault(testbed.Action{Verb: testbed.Quit, Node: "meta-1"}).leader("").pause(9 * time.Second).leader("meta-2")
		},
		func(f *forger) {
			f.fault(testbed.Action{Verb: testbed.Quit, Node: "meta-1"}).leader("").pause(4 * time.Second).leader("meta-2")
		},
	},
	"L20": {
		func(f *forger) { f.grantedBesideAClosedPort().pause(40 * time.Second).leader("meta-1") },
		func(f *forger) {
			f.grantedBesideAClosedPort().pause(20 * time.Second).servesGranted().pause(20 * time.Second).leader("meta-1")
		},
	},
	"L20 too late": {
		func(f *forger) { f.grantedBesideAClosedPort().pause(25 * time.Second).servesGranted() },
		func(f *forger) { // granted to another node meanwhile
			f.grantedBesideAClosedPort().pause(15*time.Second).claim("data-3", trace.Claim{Kind: trace.Migrating, Slot: 3, Epoch: epoch(7, 4)})
			f.pause(20*time.Second).claim("data-3", trace.Claim{Kind: trace.Serving, Slot: 3, Epoch: epoch(7, 4)}).pause(9 * time.Second).leader("meta-1")
		},
	},
	"L21": {
		func(f *forger) {
			f.copied(epoch(7, 5), "data-2", "following", epoch(7, 2), 0, true).copied(epoch(7, 5), "data-3", "caughtUp", epoch(7, 2), 2000, false)
		},
		func(f *forger) { // no copy is complete; the write is repeated, and then one is
			f.copied(epoch(7, 5), "data-2", "none", epoch(0, 0), 0, true).copied(epoch(7, 5), "data-3", "following", epoch(7, 2), 0, false)
			f.copied(epoch(7, 5), "data-3", "caughtUp", epoch(7, 2), 0, true).copied(epoch(7, 5), "data-2", "none", epoch(0, 0), 0, false)
		},
	},
	"L21 whose first claim is lost": {
		func(f *forger) {
			f.copied(epoch(7, 5), "data-1", "none", epoch(0, 0), 0, true).copied(epoch(7, 5), "data-2", "none", epoch(0, 0), 0, false)
			f.copied(epoch(7, 5), "data-3", "caughtUp", epoch(7, 2), 0, false)
		},
		func(f *forger) { // which node was chosen is not known: a line that could not be written
			f.copied(epoch(7, 5), "data-2", "none", epoch(0, 0), 0, false).copied(epoch(7, 5), "data-3", "caughtUp", epoch(7, 2), 0, false)
			f.copied(epoch(7, 6), "data-3", "caughtUp", epoch(7, 2), 0, true)
		},
	},
	"L21 behind": {
		func(f *forger) {
			f.copied(epoch(7, 5), "data-2", "caughtUp", epoch(7, 2), 1001, true).copied(epoch(7, 5), "data-3", "caughtUp", epoch(7, 2), 0, false)
		},
		func(f *forger) {
			f.copied(epoch(7, 5), "data-2", "caughtUp", epoch(7, 2), 1000, true).copied(epoch(7, 5), "data-3", "caughtUp", epoch(7, 2), 0, false)
			f.copied(epoch(7, 5), "data-1", "caughtUp", epoch(7, 1), 0, false)
		},
	},
	"L21 older": {
		func(f *forger) {
			f.copied(epoch(7, 5), "data-2", "caughtUp", epoch(7, 1), 0, true).copied(epoch(7, 5), "data-3", "caughtUp", epoch(7, 2), 0, false)
		},
		func(f *forger) {
			f.copied(epoch(7, 5), "data-2", "caughtUp", epoch(7, 2), 0, true).copied(epoch(7, 5), "data-3", "following", epoch(7, 2), 0, false)
		},
	},
	"L22": {
		func(f *forger) {
			f.oneSessionLeft().pause(34 * time.Second).op(unheard("client-1/1")).pause(time.Second).leader("meta-1")
		},
		func(f *forger) {
			f.oneSessionLeft().pause(34 * time.Second).op(stored("client-1/1")).pause(time.Second).leader("meta-1")
		},
	},
	"L22 data lost, protected": {
		func(f *forger) {
			f.oneSessionLeft().pause(34 * time.Second).op(unheard("client-1/1")).pause(time.Second).leader("meta-1")
		},
		func(f *forger) {
			f.oneSessionLeft().fault(testbed.Action{Verb: testbed.Kill, Node: "data-1"}).pause(34 * time.Second).op(unheard("client-1/1"))
			f.fault(testbed.Action{Verb: testbed.Start, Node: "data-1"}).add(check.Entry{Observed: &check.Observation{Leader: "meta-1", Frozen: true}})
			f.pause(34 * time.Second).op(unheard("client-1/2")).leader("meta-1").pause(40 * time.Second).op(stored("client-1/3")).pause(time.Second).leader("meta-1")
		},
	},
	"L22 refused": {
		func(f *forger) {
			f.op(check.Op{Client: "client-1", Kind: check.OpUnheard, ID: "client-1/1", Refused: true, Err: errors.New("a panic")})
		},
		func(f *forger) {
			f.op(check.Op{Client: "client-1", Kind: check.OpUnheard, ID: "client-1/1", Err: context.DeadlineExceeded})
		},
	},
	"L22 too soon, none left": {
		func(f *forger) {
			f.oneSessionLeft().pause(34 * time.Second).op(unheard("client-1/1")).pause(time.Second).leader("meta-1")
		},
		func(f *forger) {
			f.oneSessionLeft().pause(25 * time.Second).op(unheard("client-1/1")).pause(9 * time.Second).op(stored("client-1/1"))
			f.pause(time.Second).fault(testbed.Action{Verb: testbed.Kill, Node: "session-1"})
			f.pause(40 * time.Second).op(unheard("client-1/2")).pause(time.Second).leader("meta-1")
		},
	},
	"L22 not listed": { // while session-1 drains; a client of SOFARegistry asks every half a minute
		func(f *forger) { f.pause(time.Second).losesSession(34 * time.Second) },
		func(f *forger) { f.drains().losesSession(34 * time.Second) },
	},
	"L22 listed again": {
		func(f *forger) { f.drains().losesSession(46 * time.Second) },
		func(f *forger) { f.drains().losesSession(44 * time.Second) },
	},
	"L22 has found it": {
		func(f *forger) { f.drains().losesSession(30*time.Second, 6*time.Second) },
		func(f *forger) { f.drains().losesSession(30*time.Second, 4*time.Second) },
	},
}

func (f *forger) drains() *forger {
	return f.pause(time.Second).fault(testbed.Action{Verb: testbed.Forbid, Node: "session-1"})
}

// losesSession kills the session of a client of SOFARegistry, which may then find the
// other one, and hears of no change.
func (f *forger) losesSession(later ...time.Duration) {
	at := check.Op{Client: "client-1", Kind: check.OpConnected, Values: []string{"session-2@"}, Linger: 10 * time.Second}
	f.op(at).fault(testbed.Action{Verb: testbed.Kill, Node: "session-2"})
	for i, d := range later {
		at.Values = []string{"session-1@"}[:i]
		f.op(at).pause(d)
	}
	f.op(unheard("client-1/1")).pause(time.Second).leader("meta-1")
}

// oneSessionLeft drains a session and kills the other one.
func (f *forger) oneSessionLeft() *forger {
	return f.drains().fault(testbed.Action{Verb: testbed.Kill, Node: "session-2"})
}

func unheard(id string) check.Op { return check.Op{Client: "client-1", Kind: check.OpUnheard, ID: id} }

// grantedBesideAClosedPort grants a slot after a crash, while no data node can
// dial a session.
func (f *forger) grantedBesideAClosedPort() *forger {
	f.fault(testbed.Action{Verb: testbed.ClosePort, Node: "session-1"}).fault(testbed.Action{Verb: testbed.Kill, Node: "data-2"})
	return f.pause(4*time.Second).claim("data-1", trace.Claim{Kind: trace.Migrating, Slot: 3, Epoch: epoch(7, 3)})
}

func (f *forger) servesGranted() *forger {
	return f.claim("data-1", trace.Claim{Kind: trace.Serving, Slot: 3, Epoch: epoch(7, 3)})
}

// awayFor kills sessions for eight seconds. The client of a registration that
// was seen connects again right after.
func (f *forger) awayFor(sessions ...string) {
	push(f, "c", 5, "client-1/1#1")
	for _, s := range sessions {
		f.fault(testbed.Action{Verb: testbed.Kill, Node: s})
	}
	f.connected("client-1").pause(8 * time.Second)
	for _, s := range sessions {
		f.fault(testbed.Action{Verb: testbed.Start, Node: s})
	}
	f.pause(time.Second).connected("client-1", "session-1@b")
}

// allAwayFor kills sessions and data nodes for two seconds; a subscriber has
// seen two registrations.
func (f *forger) allAwayFor() {
	push(f, "c", 5, "client-1/1#1", "client-2/2#1")
	all := []string{"data-1", "data-2", "session-1", "session-2"}
	for _, verb := range []testbed.Verb{testbed.Kill, testbed.Start} {
		for _, n := range all {
			f.fault(testbed.Action{Verb: verb, Node: n})
		}
		f.pause(2 * time.Second)
	}
}

// fallsBack pushes a value of a registration, and then an older one.
func (f *forger) fallsBack() { push(push(f, "c", 5, "client-1/1#2"), "c", 6, "client-1/1#1") }

// aheadAndLost kills a leader that is ahead of its followers, and another node.
func (f *forger) aheadAndLost(other string) {
	published(f, 1, 2).op(check.Op{Kind: check.OpAhead, Client: "data-2", Values: []string{"0", "1", "2", "3"}})
	f.fault(testbed.Action{Verb: testbed.Kill, Node: "data-2"}).fault(testbed.Action{Verb: testbed.Kill, Node: other})
}

// handedOverAndLost kills the leader of every slot, which was handed over to it, and a
// session; the next leader has a copy of an epoch.
func (f *forger) handedOverAndLost(copyEpoch conclave.Epoch) *forger {
	published(f, 1, 2)
	serving := func(node string, c trace.Claim) {
		for n := range 4 {
			c.Kind, c.Slot = trace.Serving, n
			f.claim(node, c)
		}
	}
	serving("data-1", trace.Claim{Epoch: epoch(7, 2), Flag: true})
	f.fault(testbed.Action{Verb: testbed.Kill, Node: "data-1"}).fault(testbed.Action{Verb: testbed.Kill, Node: "session-1"})
	serving("data-2", trace.Claim{Epoch: epoch(7, 3), Base: copyEpoch})
	return f
}

// aheadAndPaused suspends a leader that is ahead of its followers, for a moment,
// and kills a session later.
func (f *forger) aheadAndPaused() {
	published(f, 1, 2).op(check.Op{Kind: check.OpAhead, Client: "data-2", Values: []string{"0", "1", "2", "3"}})
	f.fault(testbed.Action{Verb: testbed.Pause, Node: "data-2"}).pause(time.Second / 2).fault(testbed.Action{Verb: testbed.Resume, Node: "data-2"})
	f.pause(5 * time.Second).fault(testbed.Action{Verb: testbed.Kill, Node: "session-1"}).pause(time.Second)
}

// servedUndialled closes the port of client-2's session; then every slot is served
// from what the other sessions have.
func (f *forger) servedUndialled(of string) {
	f.connected("client-2", of+"@1")
	push(f, "c", 5, "client-1/1#1", "client-2/2#1").fault(testbed.Action{Verb: testbed.ClosePort, Node: "session-1"}).pause(18 * time.Second)
	for n := range 4 {
		f.claim("data-2", trace.Claim{Kind: trace.Serving, Slot: n, Key: trace.Incomplete})
	}
	f.pause(time.Second)
}

// servedFrozen freezes session-1, which client-2 does not leave; then every slot is
// served from what the other sessions have.
func (f *forger) servedFrozen() *forger {
	push(f, "c", 5, "client-1/1#1", "client-2/2#1").fault(testbed.Action{Verb: testbed.Pause, Node: "session-1"}).pause(5 * time.Second)
	for n := range 4 {
		f.claim("data-2", trace.Claim{Kind: trace.Serving, Slot: n, Key: trace.Incomplete})
	}
	return f.pause(time.Second)
}

// thawed ends that; after a while a list still lacks what client-2 has registered.
func (f *forger) thawed(later time.Duration) {
	f.fault(testbed.Action{Verb: testbed.Resume, Node: "session-1"}).pause(later)
	push(f, "reader-1", 6, "client-1/1#1")
}

// servedWithoutCopy kills a node; a while later every slot is served incomplete,
// with the copy of its source or with what the sessions have.
func (f *forger) servedWithoutCopy(lost string, later time.Duration, copied bool) {
	f.servedFrom(conclave.Epoch{}, lost, later, copied)
}

// servedFrom is the same with a copy of its own.
func (f *forger) servedFrom(copyEpoch conclave.Epoch, lost string, later time.Duration, copied bool) {
	published(f, 1, 2).fault(testbed.Action{Verb: testbed.Kill, Node: lost}).pause(later)
	for n := range 4 {
		f.claim("data-2", trace.Claim{Kind: trace.Serving, Slot: n, Base: copyEpoch, Key: trace.Incomplete, Flag: copied})
	}
}

// mergedFrom lets a session answer the node that will serve every slot.
func (f *forger) mergedFrom(session string) *forger {
	for n := range 4 {
		f.claim("data-2", trace.Claim{Kind: trace.Merged, Slot: n, Peer: conclave.NodeID{Name: session}})
	}
	return f
}

// served lets another node serve every slot.
func (f *forger) served() { f.servedBy("data-3", false) }

func (f *forger) servedBy(node string, handedOver bool) {
	for n := range 4 {
		f.claim(node, trace.Claim{Kind: trace.Serving, Slot: n, Flag: handedOver})
	}
}

func (f *forger) connected(client string, sessions ...string) *forger {
	return f.op(check.Op{Client: client, Kind: check.OpConnected, Values: sessions})
}

// withdrawnAt5 adds a registration that version 5 shows and that is withdrawn
// afterwards.
func (f *forger) withdrawnAt5() {
	push(published(f, 1), "c", 5, "client-1/1#1")
	f.op(check.Op{Client: "client-1", Kind: check.OpWithdraw, Name: "s", ID: "client-1/1", Version: 2})
}

func (f *forger) leader(name string) *forger {
	return f.observed(name, 0)
}

// A grant that cannot be checked is shown.
func TestCopies_WithoutTheChosenOneAreShown(t *testing.T) {
	f := forge().copied(epoch(7, 5), "data-2", "none", epoch(0, 0), 0, false).copied(epoch(7, 5), "data-3", "caughtUp", epoch(7, 2), 0, false)
	v := verdict(t, "L21", f)
	assert.Zero(t, v.Checks)
	assert.Equal(t, "grants not checked, because the claim about the chosen copy is lost: 1", v.Shown)
}

// dataNodeGoneAndBack adds a data node that is killed and started again.
func (f *forger) dataNodeGoneAndBack() *forger {
	return f.fault(testbed.Action{Verb: testbed.Kill, Node: "data-1"}).pause(time.Second).fault(testbed.Action{Verb: testbed.Start, Node: "data-1"})
}
