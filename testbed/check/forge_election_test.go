package check_test

import (
	"time"

	"conclave"
	"conclave/internal/trace"
)

// electionForgeries are for the checkers of the election and of the leader's
// rows.
var electionForgeries = map[string]forgery{
	"I1": {
		func(f *forger) {
			f.claim("meta-1", led(7, time.Second)).pause(2*time.Second).claim("meta-2", led(7, time.Second))
		},
		func(f *forger) {
			f.claim("meta-1", led(7, time.Second)).pause(2*time.Second).claim("meta-2", led(8, time.Second))
		},
	},
	"I2": {
		func(f *forger) {
			f.claim("meta-1", trace.Claim{Kind: trace.Promised, Term: 7}).claim("meta-1", led(7, time.Second))
		},
		func(f *forger) {
			f.claim("meta-1", trace.Claim{Kind: trace.Promised, Term: 7}).claim("meta-1", led(8, time.Second))
		},
	},
	"I2 the row": {
		func(f *forger) {
			f.statement("meta-1", trace.Looking, trace.Looked, trace.Claim{Term: 7}, 0).statement("meta-2", trace.Looking, trace.Looked, trace.Claim{Term: 6}, 0)
		},
		func(f *forger) { // two concurrent readings may be answered in any order
			f.claim("meta-2", trace.Claim{Kind: trace.Looking}).statement("meta-1", trace.Looking, trace.Looked, trace.Claim{Term: 7}, 0)
			f.claim("meta-2", trace.Claim{Kind: trace.Looked, Term: 6})
		},
	},
	"I3": {
		func(f *forger) {
			f.write("meta-2", "table", 8, epoch(7, 3), epoch(8, 2)).write("meta-1", "table", 7, epoch(8, 2), epoch(7, 4))
		},
		func(f *forger) { // sent before, answered after
			f.claim("meta-1", trace.Claim{Kind: trace.Writing, Subject: "members", Term: 7, Base: epoch(7, 2), Epoch: epoch(7, 3)})
			f.write("meta-2", "table", 8, epoch(7, 1), epoch(8, 2))
			f.claim("meta-1", trace.Claim{Kind: trace.Wrote, Subject: "members", Term: 7, Base: epoch(7, 2), Epoch: epoch(7, 3), Flag: true})
		},
	},
	"I3 perceived leaderships": {
		func(f *forger) {
			f.claim("meta-1", led(7, 3*time.Second)).pause(time.Second).claim("meta-2", led(8, 3*time.Second))
		},
		func(f *forger) {
			f.claim("meta-1", led(7, 3*time.Second)).pause(time.Second)
			f.claim("meta-1", trace.Claim{Kind: trace.Left, Term: 7}).claim("meta-2", led(8, 3*time.Second))
		},
	},
	"I4": {
		func(f *forger) {
			f.claim("data-1", trace.Claim{Kind: trace.Admitted, Term: 8}).claim("data-1", trace.Claim{Kind: trace.Admitted, Term: 7, Base: epoch(8, 0)})
		},
		func(f *forger) {
			f.claim("data-1", trace.Claim{Kind: trace.Admitted, Term: 8}).claim("data-1", trace.Claim{Kind: trace.Refused, Term: 7, Base: epoch(8, 0)})
		},
	},
	"L12": {
		func(f *forger) { f.write("meta-1", "table", 7, epoch(6, 1), epoch(7, 1)) },
		func(f *forger) {
			f.write("meta-1", "seal", 7, epoch(0, 0), epoch(7, 1)).write("meta-1", "table", 7, epoch(7, 1), epoch(7, 2))
		},
	},
	"L17": {
		func(f *forger) {
			f.write("meta-1", "table", 7, epoch(7, 1), epoch(7, 2)).write("meta-2", "table", 8, epoch(7, 1), epoch(8, 1))
		},
		func(f *forger) {
			f.write("meta-1", "table", 7, epoch(7, 1), epoch(7, 2)).write("meta-2", "table", 8, epoch(7, 2), epoch(8, 1))
		},
	},
	"I3 held": {
		func(f *forger) { f.heldWrite(true) },
		func(f *forger) { f.heldWrite(false) },
	},
	"L17 published too early": {
		func(f *forger) {
			f.claim("meta-1", trace.Claim{Kind: trace.Publishing, Term: 7, Epoch: epoch(7, 2)}).write("meta-1", "table", 7, epoch(7, 1), epoch(7, 2))
		},
		func(f *forger) {
			f.write("meta-1", "table", 7, epoch(7, 1), epoch(7, 2)).claim("meta-1", trace.Claim{Kind: trace.Publishing, Term: 7, Epoch: epoch(7, 2)})
		},
	},
	"P1": {
		func(f *forger) { // two nodes win from the same row
			f.win("meta-1", "", 0, 1).win("meta-2", "", 0, 1)
		},
		func(f *forger) {
			f.win("meta-1", "", 0, 1).statement("meta-1", trace.Renewing, trace.Renewed, trace.Claim{Term: 1, Peer: id("meta-1")}, 1)
			f.statement("meta-2", trace.Looking, trace.Looked, trace.Claim{Term: 1, Beat: 1, Peer: id("meta-1")}, 0).win("meta-2", "meta-1", 1, 2)
			f.statement("meta-1", trace.Renewing, trace.Renewed, trace.Claim{Term: 1, Beat: 1, Peer: id("meta-1")}, 0)
		},
	},
	"P1 lost answers": {
		func(f *forger) { // one win with a lost answer explains one reading, not two different ones
			f.lost("meta-1", 1).statement("meta-2", trace.Looking, trace.Looked, trace.Claim{Term: 1, Peer: id("meta-1")}, 0)
			f.statement("meta-3", trace.Looking, trace.Looked, trace.Claim{}, 0)
		},
		func(f *forger) {
			f.lost("meta-1", 1).statement("meta-3", trace.Looking, trace.Looked, trace.Claim{}, 0)
			f.statement("meta-2", trace.Looking, trace.Looked, trace.Claim{Term: 1, Peer: id("meta-1")}, 0)
		},
	},
	"I3 landed": {
		func(f *forger) {
			f.landed("meta-1", "win", "", conclave.Epoch{}).landed("meta-2", "win", "", conclave.Epoch{}).landed("meta-1", "write", "table", epoch(7, 2))
		},
		func(f *forger) {
			f.landed("meta-1", "win", "", conclave.Epoch{}).landed("meta-1", "write", "table", epoch(7, 2)).landed("meta-2", "win", "", conclave.Epoch{})
		},
	},
	"I3 landed from an older term": {
		func(f *forger) {
			f.landedWin("meta-1", 7).landed("meta-1", "resign", "", conclave.Epoch{}).landedWin("meta-1", 8).landed("meta-1", "write", "table", epoch(7, 2))
		},
		func(f *forger) {
			f.landedWin("meta-1", 7).landed("meta-1", "resign", "", conclave.Epoch{}).landedWin("meta-1", 8).landed("meta-1", "write", "table", epoch(8, 2))
		},
	},
	"I3 resigned": {
		func(f *forger) {
			f.landed("meta-1", "win", "", conclave.Epoch{}).landed("meta-1", "resign", "", conclave.Epoch{}).landed("meta-1", "seal", "", epoch(7, 2))
		},
		func(f *forger) {
			f.landed("meta-1", "win", "", conclave.Epoch{}).landed("meta-1", "seal", "", epoch(7, 2)).landed("meta-1", "resign", "", conclave.Epoch{})
		},
	},
	"L17 landed": {
		func(f *forger) {
			f.landed("meta-1", "write", "table", epoch(7, 3)).landed("meta-1", "write", "table", epoch(7, 2))
		},
		func(f *forger) {
			f.landed("meta-1", "write", "table", epoch(7, 2)).landed("meta-1", "write", "members", epoch(7, 1)).landed("meta-1", "write", "table", epoch(7, 3))
		},
	},
	"L17 sealed": {
		func(f *forger) {
			f.landed("meta-1", "seal", "", epoch(8, 1)).landed("meta-1", "write", "table", epoch(7, 2))
		},
		func(f *forger) {
			f.landed("meta-1", "seal", "", epoch(8, 1)).landed("meta-1", "write", "table", epoch(8, 2))
		},
	},
}
