package chaos_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/chaos"
	"conclave/internal/trace"
)

// A forger writes histories that never happened. at moves on by a millisecond
// with each entry, unless it is told.
type forger struct {
	h  chaos.History
	at time.Duration
}

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func forge() *forger {
	return &forger{h: chaos.History{Scenario: "forged", Claims: true, Began: began, Cluster: chaos.Cluster{
		Metas: 3, Sessions: 2, Datas: 3, Slots: 4, Replicas: 2, Takeover: "lease", Lease: 3 * time.Second,
	}}}
}

func (f *forger) add(e chaos.Entry) *forger {
	f.at += time.Millisecond
	e.At = f.at
	f.h.Entries = append(f.h.Entries, e)
	return f
}

// pause lets time pass.
func (f *forger) pause(d time.Duration) *forger { f.at += d; return f }

func (f *forger) claim(node string, c trace.Claim) *forger {
	c.Node = id(node)
	if !c.Until.IsZero() { // written as a time from the claim on
		c.Until = began.Add(f.at + time.Millisecond).Add(c.Until.Sub(time.Unix(0, 0)))
	}
	return f.add(chaos.Entry{Claim: &c})
}

func (f *forger) op(o chaos.Op) *forger { return f.add(chaos.Entry{Op: &o}) }

func (f *forger) fault(a chaos.Act) *forger { return f.add(chaos.Entry{Fault: &chaos.Fault{Act: a}}) }

// id reads "meta-1" as meta-1@a, "meta-1'" as meta-1@b.
func id(s string) conclave.NodeID {
	if s == "" {
		return conclave.NodeID{}
	}
	if s[len(s)-1] == '\'' {
		return conclave.NodeID{Name: s[:len(s)-1], Incarnation: "b"}
	}
	return conclave.NodeID{Name: s, Incarnation: "a"}
}

func epoch(term, seq uint64) conclave.Epoch { return conclave.Epoch{Term: term, Seq: seq} }

// lasts is a Claim's Until, from the claim on.
func lasts(d time.Duration) time.Time { return time.Unix(0, 0).Add(d) }

// led is a claim of leadership for a while.
func led(term uint64, d time.Duration) trace.Claim {
	return trace.Claim{Kind: trace.Led, Term: term, Until: lasts(d)}
}

// statement is a pair of claims around a statement that was answered.
func (f *forger) statement(node string, before, after trace.Kind, c trace.Claim, changed int) *forger {
	c.Kind = before
	f.claim(node, c)
	c.Kind, c.Count = after, changed
	return f.claim(node, c)
}

// write is a row written by a leader.
func (f *forger) write(node, row string, term uint64, base, next conclave.Epoch) *forger {
	c := trace.Claim{Subject: row, Term: term, Base: base, Epoch: next, Flag: true, Key: node + next.String()}
	return f.statement(node, trace.Writing, trace.Wrote, c, 0)
}

// forgeries has, for each judge, a history that it must reject, and beside it
// one that differs by what makes it true.
var forgeries = map[string]struct {
	false, true func(f *forger)
}{
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
		func(f *forger) { // two readings at once may be answered in any order
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
	"I3 beliefs": {
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
		func(f *forger) { // heard of in the other order
			f.claim("meta-2", trace.Claim{Kind: trace.Granted, Slot: 3, Base: epoch(8, 2), Epoch: epoch(8, 2), Peer: id("data-2")})
			f.claim("meta-1", trace.Claim{Kind: trace.Granted, Slot: 3, Base: epoch(7, 4), Epoch: epoch(7, 4), Peer: id("data-1")})
		},
	},
	"I6": {
		func(f *forger) {
			f.op(chaos.Op{Kind: chaos.OpRead, Name: "s", Values: []string{"a#1"}}).op(chaos.Op{Kind: chaos.OpWant, Name: "s", Values: []string{"a#1", "b#1"}})
		},
		func(f *forger) {
			f.op(chaos.Op{Kind: chaos.OpRead, Name: "s", Values: []string{"a#1"}}).op(chaos.Op{Kind: chaos.OpWant, Name: "s", Values: []string{"a#1"}})
		},
	},
	"I7": {
		func(f *forger) { push(push(f, "c", 5, "client-1/1#1", "client-2/2#1"), "c", 6, "client-1/1#1") },
		func(f *forger) {
			push(f, "c", 5, "client-1/1#1", "client-2/2#1").op(chaos.Op{Client: "client-2", Kind: chaos.OpWithdraw, Name: "s", ID: "client-2/2"})
			push(f, "c", 6, "client-1/1#1")
		},
	},
	"I8": {
		func(f *forger) { // the list is older than the table, whoever was heard first
			f.claim("meta-1", trace.Claim{Kind: trace.Granted, Slot: 1, Base: epoch(7, 5), Epoch: epoch(7, 5), Peer: id("data-2")})
			f.claim("meta-1", trace.Claim{Kind: trace.Listed, Epoch: epoch(7, 4), Key: "data-1,data-2"})
		},
		func(f *forger) {
			f.claim("meta-1", trace.Claim{Kind: trace.Granted, Slot: 1, Base: epoch(7, 5), Epoch: epoch(7, 5), Peer: id("data-2")})
			f.claim("meta-1", trace.Claim{Kind: trace.Listed, Epoch: epoch(7, 6), Key: "data-1,data-2"})
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
	"I10": {
		func(f *forger) {
			f.op(chaos.Op{Kind: chaos.OpProgress, Name: "leader", Err: errors.New("nobody leads")})
		},
		func(f *forger) { f.op(chaos.Op{Kind: chaos.OpProgress, Name: "leader"}) },
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
	"I12": {
		func(f *forger) {
			f.took("data-1", 1).took("data-2", 1).took("data-1", 2).pause(5*time.Second).took("data-2", 2)
		},
		func(f *forger) {
			f.took("data-1", 1).took("data-2", 1).took("data-1", 2).pause(time.Second).took("data-2", 2)
		},
	},
	"I13": {
		func(f *forger) { f.counted("session-1", epoch(7, 2), 9).counted("session-1", epoch(7, 2), 8) },
		func(f *forger) { // another life of the session knows nothing of the first one's
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
			f.fault(chaos.Act{Verb: chaos.Pause, Node: "session-1"}).pause(10*time.Second).claim("data-1", trace.Claim{Kind: trace.OwnerGone, Peer: id("session-1"), Count: 3})
		},
		func(f *forger) {
			f.fault(chaos.Act{Verb: chaos.Pause, Node: "session-1"}).pause(16*time.Second).claim("data-1", trace.Claim{Kind: trace.OwnerGone, Peer: id("session-1"), Count: 3})
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
			f.fault(chaos.Act{Verb: chaos.Kill, Node: "session-1"}).settledAt("session-2", "r").readEmpty()
		},
		func(f *forger) {
			f.settledAt("session-1", "r").fault(chaos.Act{Verb: chaos.Kill, Node: "session-1"}).readEmpty()
		},
	},
	"L12": {
		func(f *forger) { f.write("meta-1", "table", 7, epoch(6, 1), epoch(7, 1)) },
		func(f *forger) {
			f.write("meta-1", "seal", 7, epoch(0, 0), epoch(7, 1)).write("meta-1", "table", 7, epoch(7, 1), epoch(7, 2))
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
	"L15": {
		func(f *forger) { f.took("data-1", 1).took("data-2", 2).pause(5*time.Second).rested("data-1", "data-2") },
		func(f *forger) { f.took("data-1", 2).took("data-2", 2).pause(5*time.Second).rested("data-1", "data-2") },
	},
	"L16": {
		func(f *forger) {
			f.fault(chaos.Act{Verb: chaos.Kill, Node: "meta-1"}).op(chaos.Op{Client: "client-1", Kind: chaos.OpUnheard, ID: "client-1/1"})
		},
		func(f *forger) {
			f.fault(chaos.Act{Verb: chaos.Kill, Node: "meta-1"}).op(stored("client-1/1"))
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
	"L17 told too early": {
		func(f *forger) {
			f.claim("meta-1", trace.Claim{Kind: trace.Publishing, Term: 7, Epoch: epoch(7, 2)}).write("meta-1", "table", 7, epoch(7, 1), epoch(7, 2))
		},
		func(f *forger) {
			f.write("meta-1", "table", 7, epoch(7, 1), epoch(7, 2)).claim("meta-1", trace.Claim{Kind: trace.Publishing, Term: 7, Epoch: epoch(7, 2)})
		},
	},
	"P1": {
		func(f *forger) { // two win from the same row
			f.win("meta-1", "", 0, 1).win("meta-2", "", 0, 1)
		},
		func(f *forger) {
			f.win("meta-1", "", 0, 1).statement("meta-1", trace.Renewing, trace.Renewed, trace.Claim{Term: 1, Peer: id("meta-1")}, 1)
			f.statement("meta-2", trace.Looking, trace.Looked, trace.Claim{Term: 1, Beat: 1, Peer: id("meta-1")}, 0).win("meta-2", "meta-1", 1, 2)
			f.statement("meta-1", trace.Renewing, trace.Renewed, trace.Claim{Term: 1, Beat: 1, Peer: id("meta-1")}, 0)
		},
	},
	"P1 lost answers": {
		func(f *forger) { // a win that nobody heard of explains one reading, not two different ones
			f.lost("meta-1", 1).statement("meta-2", trace.Looking, trace.Looked, trace.Claim{Term: 1, Peer: id("meta-1")}, 0)
			f.statement("meta-3", trace.Looking, trace.Looked, trace.Claim{}, 0)
		},
		func(f *forger) {
			f.lost("meta-1", 1).statement("meta-3", trace.Looking, trace.Looked, trace.Claim{}, 0)
			f.statement("meta-2", trace.Looking, trace.Looked, trace.Claim{Term: 1, Peer: id("meta-1")}, 0)
		},
	},
	"P2": {
		func(f *forger) { push(published(f, 1), "c", 5, "client-1/1#2"); published(f, 2) },
		func(f *forger) {
			push(published(f, 1), "c", 5, "client-1/1#1")
			push(published(f, 2, 3), "c", 6, "client-1/1#3")
		},
	},
}

func push(f *forger, client string, version int64, values ...string) *forger {
	return f.op(chaos.Op{Client: client, Kind: chaos.OpPush, Name: "s", ID: client, Version: version, Values: values})
}

func published(f *forger, versions ...int64) *forger {
	for _, n := range versions {
		f.op(chaos.Op{Client: "client-1", Kind: chaos.OpPublish, Name: "s", ID: "client-1/1", Version: n})
	}
	return f
}

func stored(tag string) chaos.Op {
	return chaos.Op{Client: tag[:8], Kind: chaos.OpStored, Name: "s", ID: tag, Version: 1}
}

func (f *forger) took(node string, seq uint64) *forger {
	return f.claim(node, trace.Claim{Kind: trace.Took, Epoch: epoch(7, seq)})
}

func (f *forger) counted(session string, e conclave.Epoch, version int64) *forger {
	return f.claim(session, trace.Claim{Kind: trace.Counted, Epoch: e, Subject: "s", Version: version})
}

func (f *forger) settledAt(session, id string) *forger {
	return f.claim(session, trace.Claim{Kind: trace.Settled, Subject: id, Key: "s", Version: 1})
}

func (f *forger) readEmpty() *forger {
	return f.claim("data-1", trace.Claim{Kind: trace.Read, Subject: "s"})
}

func (f *forger) switched(n int) *forger {
	for i := range n {
		f.claim("meta-1", trace.Claim{Kind: trace.Granted, Slot: i, Base: epoch(7, 2), Epoch: epoch(7, 2), Peer: id("data-1"), Key: "switching"})
	}
	return f
}

func (f *forger) rested(up ...string) *forger {
	return f.add(chaos.Entry{Sight: &chaos.Sighting{Up: up}}).op(chaos.Op{Kind: chaos.OpProgress, Name: "leader"})
}

func (f *forger) win(node, owner string, term, next uint64) *forger {
	return f.statement(node, trace.Swapping, trace.Swapped, trace.Claim{Term: term, Peer: id(owner), Epoch: epoch(next, 0)}, 1)
}

// heldWrite is a write of term 7 that is held until term 8 is won, and what came
// of it.
func (f *forger) heldWrite(wrote bool) {
	c := trace.Claim{Kind: trace.Writing, Subject: "table", Term: 7, Base: epoch(7, 1), Epoch: epoch(7, 2)}
	f.fault(chaos.Act{Verb: chaos.Hold, Node: "meta-1", Point: trace.Writing}).claim("meta-1", c).win("meta-2", "meta-1", 7, 8)
	f.pause(time.Second).fault(chaos.Act{Verb: chaos.Release, Node: "meta-1", Point: trace.Writing})
	c.Kind, c.Flag = trace.Wrote, wrote
	f.claim("meta-1", c)
}

// lost is a win whose answer never came.
func (f *forger) lost(node string, next uint64) *forger {
	f.statement("meta-3", trace.Looking, trace.Looked, trace.Claim{}, 0) // the row was empty
	f.claim(node, trace.Claim{Kind: trace.Swapping, Epoch: epoch(next, 0)})
	return f.claim(node, trace.Claim{Kind: trace.Swapped, Epoch: epoch(next, 0), Err: errors.New("the connection broke")})
}

// Each judge rejects its forgery, with evidence, and takes what differs from it
// by just that; a judge without a forgery would be one that nobody has judged.
func TestJudgesRejectForgedHistories(t *testing.T) {
	judged := map[string]bool{}
	for name, f := range forgeries {
		t.Run(name, func(t *testing.T) {
			of := name
			for i, r := range name {
				if r == ' ' {
					of = name[:i]
					break
				}
			}
			judged[of] = true
			bad, good := forge(), forge()
			f.false(bad)
			f.true(good)
			rejected := verdict(t, of, bad)
			require.NotEmpty(t, rejected.Violations, "the forgery is believed")
			assert.NotEmpty(t, rejected.Violations[0].What)
			taken := verdict(t, of, good)
			assert.Empty(t, taken.Violations, "the truth is rejected")
			assert.NotZero(t, taken.Checks, "nothing was checked")
		})
	}
	for _, j := range chaos.Judges() {
		assert.True(t, judged[j], "judge %s has no forgery", j)
	}
}

func verdict(t *testing.T, judge string, f *forger) chaos.Verdict {
	for _, v := range chaos.Judge(&f.h) {
		if v.ID == judge {
			return v
		}
	}
	t.Fatalf("there is no judge %s", judge)
	return chaos.Verdict{}
}

// An empty history accuses nobody.
func TestNothingHappened(t *testing.T) {
	for _, v := range chaos.Judge(&forge().h) {
		assert.Empty(t, v.Violations, v.ID)
		assert.Zero(t, v.Checks, v.ID)
	}
}
