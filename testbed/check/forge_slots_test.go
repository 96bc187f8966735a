package check_test

import (
	"errors"
	"time"

	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
)

// slotsForgeries are for the checkers of slots, tables and epochs.
var slotsForgeries = map[string]forgery{
	"I5": {
		func(f *forger) {
			f.claim("data-1", trace.Claim{Kind: trace.Serving, Slot: 3, Epoch: epoch(7, 2)}).claim("data-2", trace.Claim{Kind: trace.Serving, Slot: 3, Epoch: epoch(7, 2)})
		},
		func(f *forger) {
			f.claim("data-1", trace.Claim{Kind: trace.Serving, Slot: 3, Epoch: epoch(7, 2)}).claim("data-2", trace.Claim{Kind: trace.Serving, Slot: 3, Epoch: epoch(7, 3)})
		},
	},
	"I5 grants": {
		func(f *forger) { // written later, with a lower leader epoch
			f.claim("meta-1", trace.Claim{Kind: trace.Granted, Slot: 3, Base: epoch(7, 4), Epoch: epoch(7, 4), Peer: id("data-1")})
			f.claim("meta-2", trace.Claim{Kind: trace.Granted, Slot: 3, Base: epoch(8, 2), Epoch: epoch(7, 3), Peer: id("data-2")})
		},
		func(f *forger) { // recorded in the other order
			f.claim("meta-2", trace.Claim{Kind: trace.Granted, Slot: 3, Base: epoch(8, 2), Epoch: epoch(8, 2), Peer: id("data-2")})
			f.claim("meta-1", trace.Claim{Kind: trace.Granted, Slot: 3, Base: epoch(7, 4), Epoch: epoch(7, 4), Peer: id("data-1")})
		},
	},
	"I8": {
		func(f *forger) { // the list is older than the table, whichever was recorded first
			f.claim("meta-1", trace.Claim{Kind: trace.Granted, Slot: 1, Base: epoch(7, 5), Epoch: epoch(7, 5), Peer: id("data-2")})
			f.claim("meta-1", trace.Claim{Kind: trace.Listed, Epoch: epoch(7, 4), Key: "data-1,data-2"})
		},
		func(f *forger) {
			f.claim("meta-1", trace.Claim{Kind: trace.Granted, Slot: 1, Base: epoch(7, 5), Epoch: epoch(7, 5), Peer: id("data-2")})
			f.claim("meta-1", trace.Claim{Kind: trace.Listed, Epoch: epoch(7, 6), Key: "data-1,data-2"})
		},
	},
	"I8 lost answer": {
		func(f *forger) { // a later list was refused: the older one is in force
			f.listed(epoch(7, 4), "data-2").writeOfList(epoch(7, 6), nil).granted(1, epoch(8, 5), "data-2")
		},
		func(f *forger) { // the answer of a later list was lost: it may be in force
			f.granted(2, epoch(7, 3), "data-2").listed(epoch(7, 4), "data-2").writeOfList(epoch(7, 6), errors.New("the connection broke")).granted(1, epoch(8, 5), "data-2")
		},
	},
	"I8 confirmed later": {
		func(f *forger) { // the answer was lost; reading shows that the list is in force
			f.writeOfList(epoch(7, 6), errors.New("the connection broke")).listed(epoch(7, 6), "data-2").granted(1, epoch(8, 5), "data-2")
		},
		func(f *forger) {
			f.writeOfList(epoch(7, 6), errors.New("the connection broke")).listed(epoch(7, 6), "data-1").granted(1, epoch(8, 5), "data-2")
		},
	},
	"I8 another copy": {
		func(f *forger) {
			f.listed(epoch(7, 4), "data-2,data-1").copied(epoch(7, 5), "data-2", "caughtUp", epoch(7, 2), 0, true).copied(epoch(7, 5), "data-3", "caughtUp", epoch(7, 2), 1000, false)
			f.granted(1, epoch(7, 5), "data-2").granted(1, epoch(7, 6), "data-3")
		},
		func(f *forger) { // on the blacklist too; of an older leader epoch; behind in the feed
			f.listed(epoch(7, 4), "data-2,data-1").copied(epoch(7, 5), "data-2", "caughtUp", epoch(7, 2), 0, true).copied(epoch(7, 5), "data-1", "caughtUp", epoch(7, 2), 0, false)
			f.copied(epoch(7, 5), "data-3", "caughtUp", epoch(7, 1), 0, false).copied(epoch(7, 5), "data-4", "caughtUp", epoch(7, 2), 1001, false)
			f.granted(1, epoch(7, 5), "data-2").granted(1, epoch(7, 6), "data-3")
		},
	},
	"I8 its own copy": {
		func(f *forger) {
			f.listed(epoch(7, 4), "data-2").copied(epoch(7, 5), "data-2", "following", epoch(7, 2), 0, true).granted(1, epoch(7, 5), "data-2").granted(1, epoch(7, 6), "data-3")
		},
		func(f *forger) { // the write was repeated, and then it had caught up
			f.listed(epoch(7, 4), "data-2").copied(epoch(7, 5), "data-2", "following", epoch(7, 2), 0, true).copied(epoch(7, 5), "data-3", "caughtUp", epoch(7, 2), 0, false)
			f.copied(epoch(7, 5), "data-2", "caughtUp", epoch(7, 2), 0, true).granted(1, epoch(7, 5), "data-2").granted(1, epoch(7, 6), "data-3")
			f.copied(epoch(7, 7), "data-3", "caughtUp", epoch(7, 2), 0, false) // of another table
		},
	},
	"I8 of another slot": {
		func(f *forger) {
			f.listed(epoch(7, 4), "data-2").copied(epoch(7, 5), "data-2", "caughtUp", epoch(7, 2), 0, true).granted(2, epoch(7, 5), "data-2").granted(2, epoch(7, 6), "data-3")
		},
		func(f *forger) { f.lastCopy().granted(1, epoch(7, 6), "data-3") },
	},
	"I8 kept": {
		func(f *forger) { f.lastCopy().pause(17*time.Second).granted(1, epoch(7, 6), "data-3") },
		func(f *forger) { f.lastCopy().pause(15*time.Second).granted(1, epoch(7, 6), "data-3") },
	},
	"I8 kept until the end": {
		func(f *forger) { f.lastCopy().pause(17*time.Second).runs("data-2", "data-3") },
		func(f *forger) { f.lastCopy().pause(15*time.Second).runs("data-2", "data-3") },
	},
	"I8 kept behind a fault": {
		func(f *forger) { // the fault has ended; a dead node is no obstacle
			f.lastCopy().fault(testbed.Action{Verb: testbed.Cut, Node: "data-2", Peer: "data-3"}).fault(testbed.Action{Verb: testbed.Kill, Node: "data-4"}).pause(30 * time.Second)
			f.fault(testbed.Action{Verb: testbed.Mend, Node: "data-2", Peer: "data-3"}).pause(17*time.Second).granted(1, epoch(7, 6), "data-3")
		},
		func(f *forger) {
			f.lastCopy().fault(testbed.Action{Verb: testbed.Cut, Node: "data-2", Peer: "data-3"}).fault(testbed.Action{Verb: testbed.Kill, Node: "data-4"}).pause(30 * time.Second)
			f.fault(testbed.Action{Verb: testbed.Mend, Node: "data-2", Peer: "data-3"}).pause(15*time.Second).granted(1, epoch(7, 6), "data-3")
		},
	},
	"I8 kept with no node to take it": {
		func(f *forger) { f.lastCopy().runs("data-1", "data-2").pause(17 * time.Second).runs("data-2") },
		func(f *forger) { f.lastCopy().runs("data-2", "session-1").pause(17 * time.Second).runs("data-2") },
	},
	"I8 kept while it was allowed": {
		func(f *forger) { f.lastCopy().pause(17*time.Second).listed(epoch(7, 6), "data-1") },
		func(f *forger) {
			f.lastCopy().listed(epoch(7, 6), "data-1").pause(17*time.Second).runs("data-2", "data-3")
		},
	},
	"I9": {
		func(f *forger) {
			f.claim("data-1", trace.Claim{Kind: trace.Serving, Slot: 3, Epoch: epoch(7, 2)}).claim("data-1", trace.Claim{Kind: trace.Finished, Slot: 3, Epoch: epoch(7, 2)})
			f.claim("data-1", trace.Claim{Kind: trace.Read, Slot: 3, Epoch: epoch(7, 2)})
		},
		func(f *forger) {
			f.claim("data-1", trace.Claim{Kind: trace.Serving, Slot: 3, Epoch: epoch(7, 2)}).claim("data-1", trace.Claim{Kind: trace.Read, Slot: 3, Epoch: epoch(7, 2)})
		},
	},
	"I12": {
		func(f *forger) {
			f.took("data-1", 1).took("data-2", 1).took("data-1", 2).pause(5*time.Second).took("data-2", 2)
		},
		func(f *forger) {
			f.took("data-1", 1).took("data-2", 1).took("data-1", 2).pause(time.Second).took("data-2", 2)
		},
	},
	"L2": {
		func(f *forger) {
			f.claim("session-1", trace.Claim{Kind: trace.Answered, Slot: 3, Epoch: epoch(7, 2)})
			f.claim("data-1", trace.Claim{Kind: trace.Serving, Slot: 3, Epoch: epoch(7, 2), Count: 2})
		},
		func(f *forger) {
			f.claim("session-1", trace.Claim{Kind: trace.Answered, Slot: 3, Epoch: epoch(7, 2)})
			f.claim("session-2", trace.Claim{Kind: trace.Answered, Slot: 3, Epoch: epoch(7, 2)})
			f.claim("data-1", trace.Claim{Kind: trace.Serving, Slot: 3, Epoch: epoch(7, 2), Count: 2})
		},
	},
	"L3": {
		func(f *forger) {
			f.claim("session-1", trace.Claim{Kind: trace.Adopted, Slot: 0, Epoch: epoch(7, 3)}).counted("session-1", epoch(7, 2), 9)
		},
		func(f *forger) {
			f.claim("session-1", trace.Claim{Kind: trace.Adopted, Slot: 0, Epoch: epoch(7, 3)}).counted("session-1", epoch(7, 3), 9)
		},
	},
	"L4": {
		func(f *forger) {
			f.claim("data-1", trace.Claim{Kind: trace.Migrating, Slot: 3, Epoch: epoch(7, 3)}).claim("data-1", trace.Claim{Kind: trace.Stored, Slot: 3, Epoch: epoch(7, 2)})
		},
		func(f *forger) {
			f.claim("data-1", trace.Claim{Kind: trace.Migrating, Slot: 3, Epoch: epoch(7, 3)}).claim("data-1", trace.Claim{Kind: trace.Stored, Slot: 3, Epoch: epoch(7, 3)})
		},
	},
	"L5": {
		func(f *forger) { f.took("session-1", 3).took("session-1", 2) },
		func(f *forger) { f.took("session-1", 2).took("session-1", 3).took("session-1'", 2) },
	},
	"L6": {
		func(f *forger) {
			f.counted("session-1", epoch(7, 2), 9).claim("data-2", trace.Claim{Kind: trace.Serving, Slot: 0, Epoch: epoch(7, 3), Version: 9})
		},
		func(f *forger) {
			f.counted("session-1", epoch(7, 2), 9).claim("data-2", trace.Claim{Kind: trace.Serving, Slot: 0, Epoch: epoch(7, 3), Version: 10})
		},
	},
	"L13": {
		func(f *forger) { f.switched(33) },
		func(f *forger) { f.switched(32) },
	},
	"L14": {
		func(f *forger) { f.claim("data-1", trace.Claim{Kind: trace.Emptied, Flag: true, Count: 1}) },
		func(f *forger) { f.claim("data-1", trace.Claim{Kind: trace.Emptied, Flag: true, Count: 0}) },
	},
	"L14 a stop": {
		func(f *forger) {
			f.fault(testbed.Action{Verb: testbed.AnnounceStop, Node: "data-1"}).pause(62 * time.Second)
			f.stoppedWith("data-1", false)
		},
		func(f *forger) { // the announcement is in force at one of them
			f.fault(testbed.Action{Verb: testbed.AnnounceStop, Node: "data-1"}).pause(50 * time.Second)
			f.stoppedWith("data-1", false).stoppedWith("data-2", true)
		},
	},
	"L14 a stop announced to the leader": {
		func(f *forger) {
			f.fault(testbed.Action{Verb: testbed.AnnounceStop, Node: "meta-1"}).pause(62 * time.Second)
			f.stoppedWith("data-1", false)
		},
		func(f *forger) { // in force, and then prolonged by a meta that was away
			f.fault(testbed.Action{Verb: testbed.AnnounceStop, Node: "meta-1"}).pause(21*time.Second).stoppedWith("data-1", false)
			f.fault(testbed.Action{Verb: testbed.Kill, Node: "meta-2"}).fault(testbed.Action{Verb: testbed.Start, Node: "meta-2"}).pause(50 * time.Second)
			f.stoppedWith("data-1", false).pause(62*time.Second).stoppedWith("data-2", true)
		},
	},
	"L14 a stop announced meanwhile": {
		func(f *forger) { // the announcement has ended long ago, whatever happens to a meta
			f.fault(testbed.Action{Verb: testbed.AnnounceStop, Node: "meta-1"}).pause(300 * time.Second)
			f.fault(testbed.Action{Verb: testbed.Kill, Node: "meta-2"}).fault(testbed.Action{Verb: testbed.Start, Node: "meta-2"}).pause(40 * time.Second)
			f.stoppedWith("data-1", false)
		},
		func(f *forger) { // one whose answer was lost, and one while the node stops
			f.add(check.Entry{Fault: &check.Fault{Action: testbed.Action{Verb: testbed.AnnounceStop, Node: "meta-1"}, Err: errors.New("timeout")}})
			f.pause(30*time.Second).stoppedWith("data-1", false).pause(70 * time.Second)
			f.fault(testbed.Action{Verb: testbed.Stop, Node: "data-2"}).fault(testbed.Action{Verb: testbed.AnnounceStop, Node: "meta-1"})
			f.claim("data-2", trace.Claim{Kind: trace.Emptied}).pause(90*time.Second).stoppedWith("data-1", true)
		},
	},
	"L14 a stop beside a fault": {
		func(f *forger) {
			f.fault(testbed.Action{Verb: testbed.Kill, Node: "meta-1"}).fault(testbed.Action{Verb: testbed.Start, Node: "meta-1"}).pause(25 * time.Second)
			f.stoppedWith("data-1", false)
		},
		func(f *forger) {
			f.fault(testbed.Action{Verb: testbed.Kill, Node: "meta-1"}).fault(testbed.Action{Verb: testbed.Start, Node: "meta-1"}).pause(5 * time.Second)
			f.stoppedWith("data-1", false).pause(25*time.Second).stoppedWith("data-2", true)
		},
	},
	"L14 after a stop that a kill ended": {
		func(f *forger) {
			f.fault(testbed.Action{Verb: testbed.Stop, Node: "data-2"}).fault(testbed.Action{Verb: testbed.Kill, Node: "data-2"})
			f.fault(testbed.Action{Verb: testbed.Start, Node: "data-2"}).pause(25*time.Second).stoppedWith("data-1", false)
		},
		func(f *forger) { // the kill is a fault beside it
			f.fault(testbed.Action{Verb: testbed.Stop, Node: "data-2"}).fault(testbed.Action{Verb: testbed.Kill, Node: "data-2"})
			f.fault(testbed.Action{Verb: testbed.Start, Node: "data-2"}).pause(5*time.Second).stoppedWith("data-1", false)
			f.pause(25*time.Second).stoppedWith("data-1", true)
		},
	},
	"L14 after a stop of a session": { // and of a client, which stays dead
		func(f *forger) {
			f.fault(testbed.Action{Verb: testbed.Kill, Node: "client-1"})
			f.fault(testbed.Action{Verb: testbed.Stop, Node: "session-1"}).fault(testbed.Action{Verb: testbed.Start, Node: "session-1"})
			f.pause(25*time.Second).stoppedWith("data-1", false)
		},
		func(f *forger) { // the session is still down
			f.fault(testbed.Action{Verb: testbed.Stop, Node: "session-1"}).pause(25*time.Second).stoppedWith("data-1", false)
			f.fault(testbed.Action{Verb: testbed.Start, Node: "session-1"}).pause(25*time.Second).stoppedWith("data-1", true)
		},
	},
	"L14 a stop that hangs": {
		func(f *forger) {
			f.claim("data-1", trace.Claim{Kind: trace.Emptied, Flag: true}).pause(25 * time.Second)
			f.fault(testbed.Action{Verb: testbed.Stop, Node: "data-1"}).pause(21 * time.Second).fault(testbed.Action{Verb: testbed.Kill, Node: "data-1"})
		},
		func(f *forger) {
			f.claim("data-1", trace.Claim{Kind: trace.Emptied, Flag: true}).pause(25 * time.Second)
			f.fault(testbed.Action{Verb: testbed.Stop, Node: "data-1"}).pause(19 * time.Second).fault(testbed.Action{Verb: testbed.Kill, Node: "data-1"})
		},
	},
	"L14 a stop that has not ended": { // or that nothing reports
		func(f *forger) {
			f.claim("data-1", trace.Claim{Kind: trace.Emptied, Flag: true}).pause(25 * time.Second)
			f.fault(testbed.Action{Verb: testbed.Stop, Node: "data-1"}).pause(21*time.Second).claim("data-2", trace.Claim{Kind: trace.Emptied, Flag: true})
		},
		func(f *forger) {
			f.pause(25*time.Second).fault(testbed.Action{Verb: testbed.Stop, Node: "data-1"}).pause(21*time.Second).claim("data-2", trace.Claim{Kind: trace.Emptied, Flag: true})
		},
	},
	"L14 two stops at once": {
		func(f *forger) { f.stoppedWith("data-1", false).stoppedWith("data-2", true) },
		func(f *forger) { // the other one waits for it
			f.fault(testbed.Action{Verb: testbed.Stop, Node: "data-2"}).stoppedWith("data-1", false)
			f.claim("data-2", trace.Claim{Kind: trace.Emptied, Flag: true})
		},
	},
	"L15": {
		func(f *forger) { f.took("data-1", 1).took("data-2", 2).pause(5*time.Second).rested("data-1", "data-2") },
		func(f *forger) { f.took("data-1", 2).took("data-2", 2).pause(5*time.Second).rested("data-1", "data-2") },
	},
	"L15 a start": {
		func(f *forger) { // it had time to join
			f.took("data-1", 1).took("data-2", 2).pause(5 * time.Second).fault(testbed.Action{Verb: testbed.Start, Node: "data-1"})
			f.pause(4*time.Second).rested("data-1", "data-2")
		},
		func(f *forger) {
			f.took("data-1", 1).took("data-2", 2).pause(5 * time.Second).fault(testbed.Action{Verb: testbed.Start, Node: "data-1"})
			f.pause(time.Second).rested("data-1", "data-2")
		},
	},
	"L3 a fence": {
		func(f *forger) {
			f.claim("session-1", trace.Claim{Kind: trace.Adopted, Epoch: epoch(7, 2)}).claim("session-1", trace.Claim{Kind: trace.Answered, Epoch: epoch(7, 3)})
			f.counted("session-1", epoch(7, 2), 9)
		},
		func(f *forger) {
			f.claim("session-1", trace.Claim{Kind: trace.Adopted, Epoch: epoch(7, 2)}).counted("session-1", epoch(7, 2), 9)
			f.claim("session-1", trace.Claim{Kind: trace.Answered, Epoch: epoch(7, 3)})
		},
	},
	"L3 a fence that stays": {
		func(f *forger) { // a late request of an earlier leader does not lower the fence
			f.claim("session-1", trace.Claim{Kind: trace.Adopted, Epoch: epoch(7, 2)}).claim("session-1", trace.Claim{Kind: trace.Answered, Epoch: epoch(7, 3)})
			f.claim("session-1", trace.Claim{Kind: trace.Answered, Epoch: epoch(7, 2)}).counted("session-1", epoch(7, 2), 9)
		},
		func(f *forger) {
			f.claim("session-1", trace.Claim{Kind: trace.Adopted, Epoch: epoch(7, 3)}).claim("session-1", trace.Claim{Kind: trace.Answered, Epoch: epoch(7, 3)})
			f.claim("session-1", trace.Claim{Kind: trace.Answered, Epoch: epoch(7, 2)}).counted("session-1", epoch(7, 3), 9)
		},
	},
	"L4 a removal": {
		func(f *forger) {
			f.claim("data-1", trace.Claim{Kind: trace.Serving, Epoch: epoch(7, 3)}).removed("data-1", epoch(7, 2), 1)
		},
		func(f *forger) {
			f.claim("data-1", trace.Claim{Kind: trace.Serving, Epoch: epoch(7, 3)}).removed("data-1", epoch(7, 3), 1)
		},
	},
}

// stoppedWith adds the stop of a data node, which then reports whether it has
// handed its slots over.
func (f *forger) stoppedWith(node string, handedOver bool) *forger {
	count := 3
	if handedOver {
		count = 0
	}
	return f.fault(testbed.Action{Verb: testbed.Stop, Node: node}).claim(node, trace.Claim{Kind: trace.Emptied, Flag: handedOver, Count: count})
}
