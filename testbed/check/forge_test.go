package check_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
)

// A forger writes histories that never happened. Each entry is a millisecond
// after the one before; pause adds more.
type forger struct {
	h  check.History
	at time.Duration
}

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func forge() *forger {
	return &forger{h: check.History{Scenario: "forged", HasEvents: true, Began: began, Cluster: testbed.Size{
		Metas: 3, Sessions: 2, Datas: 3, Slots: 4, Replicas: 2, Takeover: "lease", Lease: 3 * time.Second,
	}}}
}

func (f *forger) add(e check.Entry) *forger {
	f.at += time.Millisecond
	e.At = f.at
	f.h.Entries = append(f.h.Entries, e)
	return f
}

// pause adds time before the next entry.
func (f *forger) pause(d time.Duration) *forger { f.at += d; return f }

func (f *forger) claim(node string, c trace.Claim) *forger {
	c.Node = id(node)
	if !c.Until.IsZero() { // given by lasts, as a time after the event
		c.Until = began.Add(f.at + time.Millisecond).Add(c.Until.Sub(time.Unix(0, 0)))
	}
	return f.add(check.Entry{Event: &c})
}

func (f *forger) op(o check.Op) *forger { return f.add(check.Entry{Op: &o}) }

func (f *forger) fault(a testbed.Action) *forger {
	return f.add(check.Entry{Fault: &check.Fault{Action: a}})
}

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

// lasts returns an Until that is d after the event that it is part of.
func lasts(d time.Duration) time.Time { return time.Unix(0, 0).Add(d) }

// led returns the event of a win with trust for a time.
func led(term uint64, d time.Duration) trace.Claim {
	return trace.Claim{Kind: trace.Led, Term: term, Until: lasts(d)}
}

// statement adds the two events around a statement that was answered.
func (f *forger) statement(node string, before, after trace.Kind, c trace.Claim, changed int) *forger {
	c.Kind = before
	f.claim(node, c)
	c.Kind, c.Count = after, changed
	return f.claim(node, c)
}

// write adds a leader's successful write of a row.
func (f *forger) write(node, row string, term uint64, base, next conclave.Epoch) *forger {
	c := trace.Claim{Subject: row, Term: term, Base: base, Epoch: next, Flag: true, Key: node + next.String()}
	return f.statement(node, trace.Writing, trace.Wrote, c, 0)
}

// A forgery is a history that a checker must reject, and a similar one that it
// must accept.
type forgery struct{ reject, accept func(f *forger) }

// forgeries returns all forgeries. A key is the id of the checker, a space and
// what the forgery is about.
func forgeries() map[string]forgery {
	all := map[string]forgery{}
	for _, some := range []map[string]forgery{electionForgeries, slotsForgeries, registrationsForgeries, operatorForgeries, burstForgeries} {
		maps.Copy(all, some)
	}
	return all
}

func push(f *forger, client string, version int64, values ...string) *forger {
	return f.op(check.Op{Client: client, Kind: check.OpPush, Name: "s", ID: client, Version: version, Values: values})
}

func published(f *forger, versions ...int64) *forger {
	for _, n := range versions {
		f.op(check.Op{Client: "client-1", Kind: check.OpPublish, Name: "s", ID: "client-1/1", Version: n})
	}
	return f
}

func stored(tag string) check.Op {
	return check.Op{Client: tag[:8], Kind: check.OpStored, Name: "s", ID: tag, Version: 1}
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

func (f *forger) settledIn(session string, e conclave.Epoch) *forger {
	return f.claim(session, trace.Claim{Kind: trace.Settled, Epoch: e, Subject: "r", Key: "s", Version: 1})
}

func (f *forger) readEmpty() *forger { return f.readEmptyIn(conclave.Epoch{}) }

func (f *forger) readEmptyIn(e conclave.Epoch) *forger {
	return f.claim("data-1", trace.Claim{Kind: trace.Read, Epoch: e, Subject: "s"})
}

func (f *forger) switched(n int) *forger {
	for i := range n {
		f.claim("meta-1", trace.Claim{Kind: trace.Granted, Slot: i, Base: epoch(7, 2), Epoch: epoch(7, 2), Peer: id("data-1"), Key: "switching"})
	}
	return f
}

func (f *forger) rested(up ...string) *forger {
	return f.add(check.Entry{Observed: &check.Observation{Up: up}}).op(check.Op{Kind: check.OpProgress, Name: "leader"})
}

func (f *forger) win(node, owner string, term, next uint64) *forger {
	return f.statement(node, trace.Swapping, trace.Swapped, trace.Claim{Term: term, Peer: id(owner), Epoch: epoch(next, 0)}, 1)
}

func (f *forger) listed(e conclave.Epoch, names string) *forger {
	return f.claim("meta-1", trace.Claim{Kind: trace.Listed, Epoch: e, Key: names})
}

func (f *forger) granted(slot int, e conclave.Epoch, data string) *forger {
	return f.claim("meta-1", trace.Claim{Kind: trace.Granted, Slot: slot, Base: e, Epoch: e, Peer: id(data)})
}

// copied adds what the leader knew of a node's copy of slot 1 when it wrote
// table e. replacement: this is the node that the slot is granted to.
func (f *forger) copied(e conclave.Epoch, data, state string, of conclave.Epoch, lagMs int, replacement bool) *forger {
	return f.claim("meta-1", trace.Claim{Kind: trace.Copied, Slot: 1, Base: e, Peer: id(data), Key: state, Epoch: of, Count: lagMs, Flag: replacement})
}

// lastCopy adds a grant of slot 1 to data-2, which is on the blacklist and has
// the last complete copy; then all data nodes run.
func (f *forger) lastCopy() *forger {
	f.listed(epoch(7, 4), "data-2").copied(epoch(7, 5), "data-2", "caughtUp", epoch(7, 2), 0, true).copied(epoch(7, 5), "data-3", "following", epoch(7, 2), 0, false)
	return f.granted(1, epoch(7, 5), "data-2").runs("data-2", "data-3")
}

func (f *forger) runs(up ...string) *forger {
	return f.add(check.Entry{Observed: &check.Observation{Leader: "meta-1", Up: up}})
}

// writeOfList adds a write of the blacklist that was refused, or whose answer
// was lost.
func (f *forger) writeOfList(e conclave.Epoch, lost error) *forger {
	c := trace.Claim{Kind: trace.Writing, Subject: "blacklist", Term: e.Term, Epoch: e}
	f.claim("meta-1", c)
	c.Kind, c.Err = trace.Wrote, lost
	return f.claim("meta-1", c)
}

// landed adds a statement that changed a row, in the order of the database.
func (f *forger) landed(node, what, row string, to conclave.Epoch) *forger {
	return f.claim(node, trace.Claim{Kind: trace.Landed, Subject: what, Key: row, Epoch: to, Count: 1})
}

// landedWin adds the win of a term, in the order of the database.
func (f *forger) landedWin(node string, term uint64) *forger {
	return f.claim(node, trace.Claim{Kind: trace.Landed, Subject: "win", Term: term, Count: 1})
}

// accepted, gone, stored and removed add the events in the life of registration
// r of session-1.
func (f *forger) accepted(session string, version int64) *forger {
	return f.claim(session, trace.Claim{Kind: trace.Accepted, Subject: "r", Version: version})
}

// withdrawn and settled add events of r at any session.
func (f *forger) withdrawn(session string, version int64) *forger {
	return f.claim(session, trace.Claim{Kind: trace.Accepted, Subject: "r", Key: "s", Version: version, Flag: true})
}

func (f *forger) settled(session string, version int64) *forger {
	return f.claim(session, trace.Claim{Kind: trace.Settled, Subject: "r", Key: "s", Version: version})
}

func (f *forger) gone(session string) *forger {
	return f.claim(session, trace.Claim{Kind: trace.Dropped, Subject: "r"})
}

func (f *forger) stored(data string, e conclave.Epoch, version int64) *forger {
	return f.claim(data, trace.Claim{Kind: trace.Stored, Epoch: e, Peer: id("session-1"), Subject: "r", Version: version})
}

func (f *forger) removed(data string, e conclave.Epoch, version int64) *forger {
	return f.claim(data, trace.Claim{Kind: trace.Removed, Epoch: e, Peer: id("session-1"), Subject: "r", Version: version})
}

// heldWrite adds a write of term 7 that is held until term 8 is won, and then
// its result.
func (f *forger) heldWrite(wrote bool) {
	c := trace.Claim{Kind: trace.Writing, Subject: "table", Term: 7, Base: epoch(7, 1), Epoch: epoch(7, 2)}
	f.fault(testbed.Action{Verb: testbed.Hold, Node: "meta-1", Point: trace.Writing}).claim("meta-1", c).win("meta-2", "meta-1", 7, 8)
	f.pause(time.Second).fault(testbed.Action{Verb: testbed.Release, Node: "meta-1", Point: trace.Writing})
	c.Kind, c.Flag = trace.Wrote, wrote
	f.claim("meta-1", c)
}

// lost adds a win whose answer was lost.
func (f *forger) lost(node string, next uint64) *forger {
	f.statement("meta-3", trace.Looking, trace.Looked, trace.Claim{}, 0) // the row was empty
	f.claim(node, trace.Claim{Kind: trace.Swapping, Epoch: epoch(next, 0)})
	return f.claim(node, trace.Claim{Kind: trace.Swapped, Epoch: epoch(next, 0), Err: errors.New("the connection broke")})
}

// Each checker rejects its forgeries, with evidence, and accepts the similar
// histories. No checker is without a forgery.
func TestCheckers_RejectForgedHistories(t *testing.T) {
	checked := map[string]bool{}
	for name, f := range forgeries() {
		t.Run(name, func(t *testing.T) {
			of := name
			for i, r := range name {
				if r == ' ' {
					of = name[:i]
					break
				}
			}
			checked[of] = true
			bad, good := forge(), forge()
			f.reject(bad)
			f.accept(good)
			rejected := verdict(t, of, bad)
			require.NotEmpty(t, rejected.Violations, "the forgery is accepted")
			assert.NotEmpty(t, rejected.Violations[0].What)
			accepted := verdict(t, of, good)
			assert.Empty(t, accepted.Violations, "a correct history is rejected")
			assert.NotZero(t, accepted.Checks, "nothing was checked")
		})
	}
	for _, v := range check.Run(&check.History{}) {
		assert.True(t, checked[v.ID], "checker %s has no forgery", v.ID)
	}
}

func verdict(t *testing.T, checker string, f *forger) check.Verdict {
	for _, v := range check.Run(&f.h) {
		if v.ID == checker {
			return v
		}
	}
	t.Fatalf("there is no checker %s", checker)
	return check.Verdict{}
}

func TestCheckers_AcceptEmptyHistory(t *testing.T) {
	for _, v := range check.Run(&forge().h) {
		assert.Empty(t, v.Violations, v.ID)
		assert.Zero(t, v.Checks, v.ID)
	}
}
