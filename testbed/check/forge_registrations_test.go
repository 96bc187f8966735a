package check_test

import (
	"errors"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/testbed"
	"conclave/testbed/check"
)

// registrationsForgeries are for the checkers of what is published, stored and
// pushed.
var registrationsForgeries = map[string]forgery{
	"I6": {
		func(f *forger) {
			f.op(check.Op{Kind: check.OpRead, Name: "s", Values: []string{"a#1"}}).op(check.Op{Kind: check.OpWant, Name: "s", Values: []string{"a#1", "b#1"}})
		},
		func(f *forger) {
			f.op(check.Op{Kind: check.OpRead, Name: "s", Values: []string{"a#1"}}).op(check.Op{Kind: check.OpWant, Name: "s", Values: []string{"a#1"}})
		},
	},
	"I6 dead": { // alone, in a calm cluster
		func(f *forger) {
			guestsDie(f.pause(16*time.Second), 2).pause(2600 * time.Millisecond).op(stored("client-1/3"))
		},
		func(f *forger) {
			push(guestsDie(f.pause(16*time.Second), 2).pause(2*time.Second), "client-2", 6, "client-1/3#1").pause(time.Minute).op(stored("client-1/3"))
		},
	},
	"I6 dead and shown again": {
		func(f *forger) {
			push(push(guestsDie(f.pause(16*time.Second), 2), "client-2", 6, "client-1/3#1").pause(3*time.Second), "client-2", 7, "guest-1/1#1", "client-1/3#1").op(stored("client-1/3"))
		},
		func(f *forger) {
			push(guestsDie(f.pause(16*time.Second), 2), "client-2", 6, "client-1/3#1").pause(3 * time.Second).op(stored("client-1/3"))
		},
	},
	"I6 dead at the same time": { // two client leases, and the push guard
		func(f *forger) {
			guestsDie(died(f.pause(16*time.Second), "guest-2"), 2).pause(31 * time.Second).op(stored("client-1/3"))
		},
		func(f *forger) {
			guestsDie(died(f.pause(16*time.Second), "guest-2"), 2).pause(29 * time.Second).op(stored("client-1/3"))
		},
	},
	"I6 dead while a node fails": { // counted from the end of the last fault
		func(f *forger) { guestDiesInAnOutage(f).pause(42 * time.Second).op(stored("client-1/3")) },
		func(f *forger) { guestDiesInAnOutage(f).pause(40 * time.Second).op(stored("client-1/3")) },
	},
	"I6 dead in a list that is read no more": {
		func(f *forger) { guestsDie(f.pause(16*time.Second), 2).pause(3 * time.Second).op(stored("client-1/3")) },
		func(f *forger) {
			guestsDie(f.pause(16*time.Second), 2).fault(testbed.Action{Verb: testbed.Kill, Node: "client-2"}).pause(time.Minute).op(stored("client-1/3"))
		},
	},
	"I7": {
		func(f *forger) { push(push(f, "c", 5, "client-1/1#1", "client-2/2#1"), "c", 6, "client-1/1#1") },
		func(f *forger) {
			push(f, "c", 5, "client-1/1#1", "client-2/2#1").op(check.Op{Client: "client-2", Kind: check.OpWithdraw, Name: "s", ID: "client-2/2"})
			push(f, "c", 6, "client-1/1#1")
		},
	},
	"I6 after a linger": {
		func(f *forger) {
			departs(f.pause(16 * time.Second)).pause(22600 * time.Millisecond).op(stored("client-1/3"))
		},
		func(f *forger) { departs(f.pause(16 * time.Second)).pause(22 * time.Second).op(stored("client-1/3")) },
	},
	"I7 a lease of requests": { // which began before the first request that failed
		func(f *forger) { leaseLeft(f, 4*time.Second) },
		func(f *forger) { leaseLeft(f, time.Second) },
	},
	"I7 within a linger": {
		func(f *forger) { push(departs(f).pause(19*time.Second), "client-2", 6, "client-1/3#1") },
		func(f *forger) { push(departs(f).pause(21*time.Second), "client-2", 6, "client-1/3#1") },
	},
	"I7 within a linger while the session stops": {
		func(f *forger) { push(departs(f, testbed.Stop).pause(18*time.Second), "client-2", 6, "client-1/3#1") },
		func(f *forger) { push(departs(f, testbed.Kill).pause(18*time.Second), "client-2", 6, "client-1/3#1") },
	},
	"I7 within a linger and the grace of a lost session": {
		func(f *forger) { push(departs(f, testbed.Kill).pause(13*time.Second), "client-2", 6, "client-1/3#1") },
		func(f *forger) { push(departs(f, testbed.Kill).pause(15*time.Second), "client-2", 6, "client-1/3#1") },
	},
	"I7 within a linger after the loss of all copies": { // the session still has it, unless it was lost before
		func(f *forger) { push(servedWithout(departs(f)), "client-2", 6, "client-1/3#1") },
		func(f *forger) { push(servedWithout(departs(f, testbed.Kill)), "client-2", 6, "client-1/3#1") },
	},
	"I7 after a blip beside a paused session": { // with another fault its client may have been away
		func(f *forger) { blip(f.pause(16 * time.Second)) },
		func(f *forger) {
			blip(f.pause(16 * time.Second).fault(testbed.Action{Verb: testbed.Kill, Node: "data-1"}))
		},
	},
	"I10": {
		func(f *forger) {
			f.op(check.Op{Kind: check.OpProgress, Name: "leader", Err: errors.New("no node leads")})
		},
		func(f *forger) { f.op(check.Op{Kind: check.OpProgress, Name: "leader"}) },
	},
	"I10 held": { // by the push guard
		func(f *forger) { listIsShort(f, 0, 30*time.Second) },
		func(f *forger) { listIsShort(f, 2, 30*time.Second) },
	},
	"I10 held too long": { // removed after lease and grace, held for another grace and 5 s
		func(f *forger) { listIsShort(f, 2, 39*time.Second) },
		func(f *forger) { listIsShort(f, 2, 37*time.Second) },
	},
	"I10 held by half": {
		func(f *forger) { listIsShort(published(f, 1), 2, 30*time.Second) }, // two are published, the list has three
		func(f *forger) { listIsShort(f, 2, 30*time.Second) },
	},
	"I10 held without a lost session": { // removed after two client leases
		func(f *forger) { guestsDie(anotherDies(f), 2).pause(31 * time.Second).op(short) },
		func(f *forger) { guestsDie(anotherDies(f), 2).pause(20 * time.Second).op(short) },
	},
	"I10 held for one client that was killed": { // its session confirms that it is gone
		func(f *forger) { isKilled(f).pause(7 * time.Second).op(short) },
		func(f *forger) { isKilled(f).pause(5 * time.Second).op(short) },
	},
	"I10 held for one client soon after a fault": { // what has changed since may be compared again
		func(f *forger) {
			f.fault(testbed.Action{Verb: testbed.Reset, Node: "data-1", Peer: "data-2"}).pause(16 * time.Second)
			isKilled(f).pause(20 * time.Second).op(short)
		},
		func(f *forger) {
			f.fault(testbed.Action{Verb: testbed.Reset, Node: "data-1", Peer: "data-2"}).pause(14 * time.Second)
			isKilled(f).pause(20 * time.Second).op(short)
		},
	},
	"I10 held for one client, beside other faults": {
		func(f *forger) {
			f.fault(testbed.Action{Verb: testbed.Kill, Node: "client-9"}).pause(16 * time.Second)
			f.fault(testbed.Action{Verb: testbed.Cut, Node: "data-1"}).fault(testbed.Action{Verb: testbed.Forbid, Node: "session-1"})
			f.fault(testbed.Action{Verb: testbed.Slow, Node: "client-7", Peer: "session-1"})
			isKilled(f).pause(27 * time.Second).op(short)
		},
		func(f *forger) {
			f.fault(testbed.Action{Verb: testbed.Kill, Node: "client-9"}).pause(14 * time.Second)
			isKilled(f).pause(27 * time.Second).op(short)
		},
	},
	"I10 held and gone": { // the short list is not the one that may be held
		func(f *forger) {
			o := short
			o.Values = []string{"client-2 s", "client-3 s"}
			guestsDie(anotherDies(f), 2).pause(20 * time.Second).op(o)
		},
		func(f *forger) {
			push(guestsDie(anotherDies(f), 2), "client-3", 5, "guest-1/1#1", "guest-1/2#1", "client-1/3#1").pause(20 * time.Second)
			o := short
			o.Values = []string{"client-2 s", "client-3 s"}
			f.op(o)
		},
	},
	"I10 incomplete": { // less than half is gone, and the slot was served without a copy
		func(f *forger) { guestDiesWhileSlotIsLost(f, 16*time.Second, false) },
		func(f *forger) { guestDiesWhileSlotIsLost(f, 14*time.Second, false) },
	},
	"I10 held by small steps": { // the last change was acknowledged after the mark of the first loss
		func(f *forger) { listShrinks(f, 0, 16*time.Second) },
		func(f *forger) { listShrinks(f, 0, 14*time.Second) },
	},
	"I10 held by withdrawals": { // the first step was no loss
		func(f *forger) { listShrinks(f, 2, 14*time.Second) },
		func(f *forger) { listShrinks(f, 0, 14*time.Second) },
	},
	"I10 complete": { // the source's copy was taken
		func(f *forger) { guestDiesWhileSlotIsLost(f, 14*time.Second, true) },
		func(f *forger) { guestDiesWhileSlotIsLost(f, 14*time.Second, false) },
	},
	"I10 partial": { // a session that was given up keeps the mark until it can be dialled again
		func(f *forger) { guestDiesWhileSessionIsUndialled(f, 19*time.Second) },
		func(f *forger) { guestDiesWhileSessionIsUndialled(f, 17*time.Second) },
	},
	"I7 its session saw the end": {
		func(f *forger) { resetAndLost(f.ofSofa("client-1"), 11*time.Second) },
		func(f *forger) { resetAndLost(f.ofSofa("client-1"), time.Second) }, // and the client sleeps
	},
	"I11": {
		func(f *forger) { push(push(f, "c", 6, "a#1"), "c", 6, "a#2") },
		func(f *forger) { push(push(f, "c", 6, "a#1"), "c", 7, "a#2") },
	},
	"I11 given": {
		func(f *forger) {
			f.claim("session-1", trace.Claim{Kind: trace.Pushed, Key: "sub", Version: 6}).claim("session-1", trace.Claim{Kind: trace.Pushed, Key: "sub", Version: 5})
		},
		func(f *forger) {
			f.claim("session-1", trace.Claim{Kind: trace.Pushed, Key: "sub", Version: 6}).claim("session-1'", trace.Claim{Kind: trace.Pushed, Key: "sub", Version: 5})
		},
	},
	"I11 given again": {
		func(f *forger) { // long after the link broke
			f.fault(testbed.Action{Verb: testbed.HalfOpen, Node: "session-1"}).pause(20 * time.Second)
			f.claim("session-1", trace.Claim{Kind: trace.Pushed, Key: "sub", Version: 6}).claim("session-1", trace.Claim{Kind: trace.Pushed, Key: "sub", Version: 6})
		},
		func(f *forger) {
			f.fault(testbed.Action{Verb: testbed.HalfOpen, Node: "session-1"})
			f.claim("session-1", trace.Claim{Kind: trace.Pushed, Key: "sub", Version: 6}).pause(3 * time.Second)
			f.claim("session-1", trace.Claim{Kind: trace.Pushed, Key: "sub", Version: 6})
		},
	},
	"I11 connected again": {
		func(f *forger) { // long after the client connected again
			f.connected("client-1").pause(time.Second).connected("client-1", "session-1@1").pause(20 * time.Second)
			f.claim("session-1", trace.Claim{Kind: trace.Pushed, Key: "sub", Version: 6}).claim("session-1", trace.Claim{Kind: trace.Pushed, Key: "sub", Version: 6})
		},
		func(f *forger) { // its connection broke, although nothing was done to it: the machine is overloaded
			f.claim("session-1", trace.Claim{Kind: trace.Pushed, Key: "sub", Version: 6}).connected("client-1").pause(time.Second)
			f.connected("client-1", "session-1@1").claim("session-1", trace.Claim{Kind: trace.Pushed, Key: "sub", Version: 6})
		},
	},
	"I11 connected again at once": {
		func(f *forger) {
			f.ofSofa("client-1").claim("session-1", trace.Claim{Kind: trace.Pushed, Key: "client-1-2", Version: 6}).claim("session-1", trace.Claim{Kind: trace.Pushed, Key: "client-1-2", Version: 5})
		},
		func(f *forger) { // its session has asked it to move, and it has come back
			f.ofSofa("client-1").claim("session-1", trace.Claim{Kind: trace.Pushed, Key: "client-1-2", Version: 6}).claim("session-1", trace.Claim{Kind: trace.Pushed, Key: "client-1-2", Version: 6})
		},
	},
	"I13": {
		func(f *forger) { f.counted("session-1", epoch(7, 2), 9).counted("session-1", epoch(7, 2), 8) },
		func(f *forger) { // another incarnation of the session does not know the first one's versions
			f.counted("session-1", epoch(7, 2), 9).counted("session-1'", epoch(7, 2), 8)
		},
	},
	"I13 epochs": {
		func(f *forger) { f.counted("session-1", epoch(7, 3), 9).counted("session-1", epoch(7, 2), 10) },
		func(f *forger) { f.counted("session-1", epoch(7, 2), 9).counted("session-1", epoch(7, 3), 10) },
	},
	"L1": {
		func(f *forger) {
			f.claim("data-1", trace.Claim{Kind: trace.Stored, Peer: id("session-1"), Subject: "r", Version: 1})
		},
		func(f *forger) {
			f.claim("session-1", trace.Claim{Kind: trace.Accepted, Subject: "r", Version: 1})
			f.claim("data-1", trace.Claim{Kind: trace.Stored, Peer: id("session-1"), Subject: "r", Version: 1})
		},
	},
	"L7": {
		func(f *forger) { published(f, 1, 2); push(push(f, "c", 5, "client-1/1#2"), "c", 6, "client-1/1#1") },
		func(f *forger) { published(f, 1, 2); push(push(f, "c", 5, "client-1/1#1"), "c", 6, "client-1/1#2") },
	},
	"L8": {
		func(f *forger) {
			f.claim("session-1", trace.Claim{Kind: trace.Accepted, Subject: "r", Version: 1})
			f.claim("data-1", trace.Claim{Kind: trace.Removed, Peer: id("session-2"), Subject: "r", Version: 1})
		},
		func(f *forger) {
			f.claim("session-1", trace.Claim{Kind: trace.Accepted, Subject: "r", Version: 1})
			f.claim("data-1", trace.Claim{Kind: trace.Removed, Peer: id("session-1"), Subject: "r", Version: 1})
		},
	},
	"L9": {
		func(f *forger) {
			f.counted("session-1", epoch(7, 2), 1).counted("session-1'", epoch(7, 2), 1).counted("session-1", epoch(7, 2), 2)
		},
		func(f *forger) {
			f.counted("session-1", epoch(7, 2), 1).counted("session-1'", epoch(7, 2), 1).counted("session-1'", epoch(7, 2), 2)
		},
	},
	"L10": {
		func(f *forger) {
			f.fault(testbed.Action{Verb: testbed.Pause, Node: "session-1"}).pause(10*time.Second).claim("data-1", trace.Claim{Kind: trace.OwnerGone, Peer: id("session-1"), Count: 3})
		},
		func(f *forger) {
			f.fault(testbed.Action{Verb: testbed.Pause, Node: "session-1"}).pause(16*time.Second).claim("data-1", trace.Claim{Kind: trace.OwnerGone, Peer: id("session-1"), Count: 3})
		},
	},
	"L11": {
		func(f *forger) { f.settledAt("session-1", "r").readEmpty() },
		func(f *forger) {
			f.settledAt("session-1", "r").claim("session-1", trace.Claim{Kind: trace.Dropped, Subject: "r", Key: "s"}).readEmpty()
		},
	},
	"L11 a killed session": {
		func(f *forger) {
			f.fault(testbed.Action{Verb: testbed.Kill, Node: "session-1"}).settledAt("session-2", "r").readEmpty()
		},
		func(f *forger) {
			f.settledAt("session-1", "r").fault(testbed.Action{Verb: testbed.Kill, Node: "session-1"}).readEmpty()
		},
	},
	"L11 withdrawn elsewhere": { // a tombstone hides older copies only
		func(f *forger) {
			f.accepted("session-2", 1).withdrawn("session-1", 2).settled("session-2", 2).readEmpty()
		},
		func(f *forger) {
			f.accepted("session-2", 1).withdrawn("session-1", 2).settled("session-2", 1).readEmpty()
		},
	},
	"L11 removed with its client": { // a removal does not show what is older, but a session alone removes nothing
		func(f *forger) {
			f.accepted("session-2", 1).claim("session-1", trace.Claim{Kind: trace.Dropped, Subject: "r", Key: "s", Version: 2}).settled("session-2", 1).readEmpty()
		},
		func(f *forger) {
			f.accepted("session-2", 1).removed("data-1", epoch(7, 1), 2).settled("session-2", 1).readEmpty()
		},
	},
	"L11 registered again": {
		func(f *forger) {
			f.withdrawn("session-1", 2).accepted("session-2", 3).settled("session-2", 3).readEmpty()
		},
		func(f *forger) {
			f.withdrawn("session-1", 2).accepted("session-2", 3).withdrawn("session-1", 4).settled("session-2", 3).readEmpty()
		},
	},
	"L11 beside one withdrawn": { // the old copy hides no other registration
		func(f *forger) {
			f.withdrawn("session-1", 2).settledAt("session-1", "other").settled("session-2", 1).readEmpty()
		},
		func(f *forger) {
			f.withdrawn("session-1", 2).settledAt("session-1", "other").settled("session-2", 1)
			f.claim("session-1", trace.Claim{Kind: trace.Dropped, Subject: "other", Key: "s"}).readEmpty()
		},
	},
	"L11 at an older epoch": { // what was settled with the successor only
		func(f *forger) {
			f.settledIn("session-1", epoch(7, 2)).settledIn("session-1", epoch(7, 3)).readEmptyIn(epoch(7, 2))
		},
		func(f *forger) {
			f.settledIn("session-1", epoch(7, 3)).readEmptyIn(epoch(7, 2))
		},
	},
	"L16": {
		func(f *forger) {
			f.fault(testbed.Action{Verb: testbed.Kill, Node: "meta-1"}).op(check.Op{Client: "client-1", Kind: check.OpUnheard, ID: "client-1/1"})
		},
		func(f *forger) {
			f.fault(testbed.Action{Verb: testbed.Kill, Node: "meta-1"}).op(stored("client-1/1"))
		},
	},
	"P2": {
		func(f *forger) { push(published(f, 1), "c", 5, "client-1/1#2"); published(f, 2) },
		func(f *forger) {
			push(published(f, 1), "c", 5, "client-1/1#1")
			push(published(f, 2, 3), "c", 6, "client-1/1#3")
		},
	},
	"L1 comes back": {
		func(f *forger) {
			f.accepted("session-1", 1).stored("data-1", epoch(7, 2), 1).gone("session-1").removed("data-1", epoch(7, 2), 1).stored("data-1", epoch(7, 2), 1)
		},
		func(f *forger) {
			f.accepted("session-1", 1).stored("data-1", epoch(7, 2), 1).gone("session-1").removed("data-1", epoch(7, 2), 1)
			f.accepted("session-1", 1).stored("data-1", epoch(7, 2), 1)
		},
	},
	"L1 comes back twice": {
		func(f *forger) {
			f.accepted("session-1", 1).stored("data-1", epoch(7, 2), 1).gone("session-1").removed("data-1", epoch(7, 2), 1)
			f.accepted("session-1", 1).stored("data-1", epoch(7, 2), 1).gone("session-1").removed("data-1", epoch(7, 2), 1)
			f.stored("data-1", epoch(7, 2), 1)
		},
		func(f *forger) { // both lives have ended before the removal of the first is executed, and the write of the second after it
			f.accepted("session-1", 1).stored("data-1", epoch(7, 2), 1).gone("session-1")
			f.accepted("session-1", 1).gone("session-1").removed("data-1", epoch(7, 2), 1).stored("data-1", epoch(7, 2), 1)
		},
	},
	"L7 withdrawn": {
		func(f *forger) {
			push(published(f, 1), "c", 5, "client-1/1#1").op(check.Op{Client: "client-1", Kind: check.OpWithdraw, Name: "s", ID: "client-1/1", Version: 2})
			push(push(f, "c", 6), "c", 7, "client-1/1#1")
		},
		func(f *forger) {
			push(published(f, 1), "c", 5, "client-1/1#1").op(check.Op{Client: "client-1", Kind: check.OpWithdraw, Name: "s", ID: "client-1/1", Version: 2})
			push(push(f, "c", 6, "client-1/1#1"), "c", 7)
		},
	},
	"L7 stored": {
		func(f *forger) { f.stored("data-1", epoch(7, 2), 2).stored("data-1", epoch(7, 2), 1) },
		func(f *forger) { f.stored("data-1", epoch(7, 2), 1).stored("data-1", epoch(7, 2), 2) },
	},
	"L9 answers": {
		func(f *forger) { f.claim("session-1", trace.Claim{Kind: trace.Answered, Epoch: epoch(7, 2), Key: "b"}) },
		func(f *forger) { f.claim("session-1", trace.Claim{Kind: trace.Answered, Epoch: epoch(7, 2), Key: "a"}) },
	},
	"L9 accepts": {
		func(f *forger) { f.claim("data-1", trace.Claim{Kind: trace.Merged, Peer: id("session-1"), Key: "b"}) },
		func(f *forger) { f.claim("data-1", trace.Claim{Kind: trace.Merged, Peer: id("session-1"), Key: "a"}) },
	},
}

// short is what the player records when client-2's list of s is not full in
// time.
var short = check.Op{Kind: check.OpProgress, Name: "full", Values: []string{"client-2 s"}, Err: errors.New("client-2 sees s as [], published are [client-1/3#2]")}

// anotherDies kills a client of which no list shows anything.
func anotherDies(f *forger) *forger {
	return f.fault(testbed.Action{Verb: testbed.Kill, Node: "client-9"})
}

// guestsDie: client-2 is pushed two registrations of a guest and one of
// client-1. Then the guest dies with some of its registrations and withdraws
// the others.
func guestsDie(f *forger, dead int) *forger { return clientDies(f, "guest-1", dead) }

// clientDies is guestsDie for any client.
func clientDies(f *forger, client string, dead int) *forger {
	for _, tag := range []string{client + "/1", client + "/2", "client-1/3"} {
		f.op(check.Op{Client: tag[:len(tag)-2], Kind: check.OpPublish, Name: "s", ID: tag, Version: 1})
	}
	push(f, "client-2", 5, client+"/1#1", client+"/2#1", "client-1/3#1")
	for i, tag := range []string{client + "/1", client + "/2"} {
		o := check.Op{Client: client, Kind: check.OpWithdraw, Name: "s", ID: tag}
		if i >= dead {
			o.Version = 2
		}
		f.op(o)
	}
	return f
}

// died records that a client without a list has died.
func died(f *forger, client string) *forger {
	return f.op(check.Op{Client: client, Kind: check.OpWithdraw, Name: "s", ID: client + "/9"})
}

// guestDiesInAnOutage: a guest dies while the database is away, which is back a
// while later.
func guestDiesInAnOutage(f *forger) *forger {
	f.fault(testbed.Action{Verb: testbed.Kill, Node: testbed.Database})
	return guestsDie(f, 2).pause(50 * time.Second).fault(testbed.Action{Verb: testbed.Start, Node: testbed.Database})
}

// departs: client-2 is pushed a registration of a release, which leaves with a linger of
// 20 s, and one of client-1. A second later something happens to session-1.
func departs(f *forger, verbs ...testbed.Verb) *forger {
	for _, tag := range []string{"release-1/1", "client-1/3"} {
		f.op(check.Op{Client: tag[:len(tag)-2], Kind: check.OpPublish, Name: "s", ID: tag, Version: 1})
	}
	push(f, "client-2", 5, "release-1/1#1", "client-1/3#1")
	f.op(check.Op{Client: "release-1", Kind: check.OpWithdraw, Name: "s", ID: "release-1/1", Linger: 20 * time.Second})
	for _, verb := range verbs {
		f.pause(time.Second).fault(testbed.Action{Verb: verb, Node: "session-1"})
	}
	return f
}

// servedWithout: a data node serves the slot without a copy five seconds later.
func servedWithout(f *forger) *forger {
	id, _ := conclave.NewDataInfoID("s", "", "")
	return f.pause(5*time.Second).claim("data-3", trace.Claim{Kind: trace.Serving, Slot: slot.Of(id.String(), f.h.Cluster.Slots), Key: trace.Incomplete})
}

// blip: session-2 is paused, and client-1, whose connection is reset, has no session for
// so long that a list lacks it.
func blip(f *forger) {
	push(f.connected("client-1", "session-1@1"), "client-2", 5, "client-1/1#1", "client-2/2#1")
	f.fault(testbed.Action{Verb: testbed.Pause, Node: "session-2"}).pause(10 * time.Second)
	f.fault(testbed.Action{Verb: testbed.Reset, Node: "client-1", Peer: "session-1"}).connected("client-1").pause(6 * time.Second)
	push(f, "client-2", 6, "client-2/2#1").pause(2*time.Second).connected("client-1", "session-1@1")
}

// isKilled is clientDies by a fault that the history names.
func isKilled(f *forger) *forger {
	return clientDies(f.fault(testbed.Action{Verb: testbed.Kill, Node: "client-7"}), "client-7", 2)
}

// guestDiesWhileSlotIsLost: a guest dies, whose registration is one of three that
// client-2 has; the slot is served without a copy, or with that of its source, and
// a while later the list still shows what the guest had.
func guestDiesWhileSlotIsLost(f *forger, later time.Duration, copied bool) {
	guestsDie(published(f, 1), 1)
	f.pause(6 * time.Second)
	f.claim("data-1", trace.Claim{Kind: trace.Serving, Key: trace.Incomplete, Flag: copied})
	f.pause(later).op(short)
}

// guestDiesWhileSessionIsUndialled is guestDiesWhileSlotIsLost while no data node
// can dial session-1; "later" begins when its port opens.
func guestDiesWhileSessionIsUndialled(f *forger, later time.Duration) {
	guestsDie(published(f, 1).fault(testbed.Action{Verb: testbed.ClosePort, Node: "session-1"}), 1)
	f.pause(6 * time.Second)
	f.claim("data-1", trace.Claim{Kind: trace.Serving, Key: trace.Incomplete})
	f.pause(10 * time.Second).fault(testbed.Action{Verb: testbed.OpenPort, Node: "session-1"})
	f.pause(later).op(short)
}

// listShrinks: client-2 has three values. It is pushed a list without that of
// guest-1, which died, or withdrew it as version, and then guest-2 dies; a while
// later a change is acknowledged, and the list still shows what guest-2 had.
func listShrinks(f *forger, version int64, later time.Duration) {
	for _, tag := range []string{"guest-1/1", "guest-2/2", "client-1/3"} {
		f.op(check.Op{Client: tag[:len(tag)-2], Kind: check.OpPublish, Name: "s", ID: tag, Version: 1})
	}
	push(f, "client-2", 5, "guest-1/1#1", "guest-2/2#1", "client-1/3#1")
	f.fault(testbed.Action{Verb: testbed.Stop, Node: "session-1"}).fault(testbed.Action{Verb: testbed.Start, Node: "session-1"})
	f.op(check.Op{Client: "guest-1", Kind: check.OpWithdraw, Name: "s", ID: "guest-1/1", Version: version})
	push(f, "client-2", 6, "guest-2/2#1", "client-1/3#1")
	f.op(check.Op{Client: "guest-2", Kind: check.OpWithdraw, Name: "s", ID: "guest-2/2"})
	f.pause(later).op(check.Op{Client: "client-1", Kind: check.OpStored, Name: "s", ID: "client-1/3", Version: 2}).op(short)
}

// listIsShort: the guest's session is stopped just before it dies, and a while
// later client-2's list still shows what the guest had.
func listIsShort(f *forger, dead int, later time.Duration) {
	f.fault(testbed.Action{Verb: testbed.Stop, Node: "session-1"}).fault(testbed.Action{Verb: testbed.Start, Node: "session-1"})
	guestsDie(f, dead).pause(later).op(short)
}

// ofSofa connects a client of SOFARegistry.
func (f *forger) ofSofa(client string) *forger {
	return f.op(check.Op{Client: client, Kind: check.OpConnected, Values: []string{"session-1@"}, Linger: 10 * time.Second})
}

// resetAndLost resets the connection of a client to its session. After a while its
// registration is shown, and two seconds later not.
func resetAndLost(f *forger, later time.Duration) {
	f.fault(testbed.Action{Verb: testbed.Reset, Node: "client-1", Peer: "session-1"}).pause(later)
	push(f, "c", 5, "client-1/1#1").pause(2 * time.Second)
	push(f, "c", 6)
}

// leaseLeft has a client without the SDK away for two seconds, at the beginning of which
// so much of its lease is left. Then a list lacks its registration.
func leaseLeft(f *forger, left time.Duration) {
	push(f, "c", 5, "client-1/1#1")
	f.pause(10 * time.Second).op(check.Op{Client: "client-1", Kind: check.OpConnected, Lease: left}).pause(2 * time.Second)
	f.op(check.Op{Client: "client-1", Kind: check.OpConnected, Values: []string{"session-1@b"}, Lease: 5 * time.Second})
	push(f, "c", 6)
}
