package check_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
)

// ofNodes reports whether a history has no operations of clients: those are left out
// at a cut.
func ofNodes(f *forger) bool {
	return !slices.ContainsFunc(f.h.Entries, func(e check.Entry) bool { return e.Op != nil })
}

// violated reports whether a checker finds a violation in a history that is cut after
// its first n entries, before or after the cut.
func violated(h check.History, checker string, n int, whole time.Duration) bool {
	before := h
	before.Entries = h.Entries[:n]
	found := len(check.Run(&before, checker)[0].Violations) > 0
	after := check.Cut(h, h.Entries[n-1].At, whole)
	return found || len(check.Run(after, checker)[0].Violations) > 0
}

// Each forged history is cut after each of its entries: the violation is found all the
// same, and none is found where there is none, whether the first half is kept or only
// the facts that it leaves behind.
func TestResume_FindsAViolationWhoseFirstHalfIsBeforeTheCut(t *testing.T) {
	unchecked := map[string]string{ // by forgery: what is not known after a cut
		"L24 client gone": "whether the clients of before the cut were connected", "L24 election": "the same", "L24 session removed": "the same", "L24 session of before": "the same", "L24 late event of a session of before": "which process was the newest", "L24 slot granted": "the same",
		"I11 given again": "whether a client of before the cut has lost its session",
	}
	needWhole := map[string]string{ // by forgery: what is not known if it was more than a minute before the cut
		"P1": "the row", "P1 lost answers": "the row", "L1 comes back twice": "which end of the registration the removal was about",
	}
	n := 0
	for name, f := range forgeries() {
		of, _, _ := strings.Cut(name, " ")
		bad, good := forge(), forge()
		f.reject(bad)
		f.accept(good)
		for _, whole := range []time.Duration{0, time.Minute} {
			_, lost := unchecked[name]
			_, old := needWhole[name]
			lost = lost || old && whole == 0
			for i := 1; i < len(bad.h.Entries) && ofNodes(bad) && !lost; i++ {
				assert.True(t, violated(bad.h, of, i, whole), "%s: cut after %d of %d (%s): %v", name, i, len(bad.h.Entries), whole, bad.h.Entries)
				n++
			}
			for i := 1; i < len(good.h.Entries) && ofNodes(good); i++ {
				assert.False(t, violated(good.h, of, i, whole), "%s, correct: cut after %d of %d (%s): %v", name, i, len(good.h.Entries), whole, good.h.Entries)
				n++
			}
		}
	}
	assert.Greater(t, n, 300)
}

// However long a cluster runs, what is carried over is bounded by what it is.
func TestResume_IsBoundedByTheCluster(t *testing.T) {
	f := forge()
	for i := range uint64(50_000) {
		session := "session-1"
		if i%2 == 0 {
			session += "'"
		}
		f.claim("data-1", trace.Claim{Kind: trace.Migrating, Slot: int(i % 4), Epoch: epoch(7, i+1)})
		f.claim("data-1", trace.Claim{Kind: trace.Serving, Slot: int(i % 4), Epoch: epoch(7, i+1), Flag: true})
		f.claim(session, trace.Claim{Kind: trace.Adopted, Slot: int(i % 4), Epoch: epoch(7, i+1)})
		f.claim(session, trace.Claim{Kind: trace.Counted, Slot: int(i % 4), Epoch: epoch(7, i+1), Subject: "s", Version: int64(i + 1)})
		f.claim("data-1", trace.Claim{Kind: trace.Read, Slot: int(i % 4), Epoch: epoch(7, i+1), Subject: "s", Version: int64(i + 1)})
	}
	h := check.Cut(f.h, f.h.End(), 0)
	assert.Less(t, len(h.Entries), 50)
	again := check.Cut(*h, 0, 0)
	require.Len(t, again.Entries, len(h.Entries), "nothing is lost at a later cut")
}

// late is how long before the cut what is kept in part happened.
const late = 10 * time.Minute

// What excuses or explains an event is not forgotten, however long ago it was.
func TestResume_FindsNoViolationWhereThereIsNone(t *testing.T) {
	kill := func(verb testbed.Verb, node string) testbed.Action { return testbed.Action{Verb: verb, Node: node} }
	freeze := func(f *forger, frozen bool) *forger {
		return f.add(check.Entry{Observed: &check.Observation{Frozen: frozen, Leader: "meta-1", Up: []string{"data-2", "data-3"}}})
	}
	for name, c := range map[string]struct {
		checker       string
		before, after func(f *forger)
	}{
		"the row is changed by a statement whose answer was lost long ago": {
			"P1",
			func(f *forger) {
				f.lost("meta-1", 1).pause(late).statement("meta-3", trace.Looking, trace.Looked, trace.Claim{}, 0)
			},
			func(f *forger) {
				f.statement("meta-3", trace.Looking, trace.Looked, trace.Claim{}, 0)
				f.statement("meta-3", trace.Looking, trace.Looked, trace.Claim{Term: 1, Peer: id("meta-1")}, 0)
			},
		},
		"a statement that is answered after the cut was executed before it": {
			"P1",
			func(f *forger) {
				f.claim("meta-1", trace.Claim{Kind: trace.Swapping, Epoch: epoch(1, 0)}).win("meta-2", "meta-1", 1, 2).pause(late)
			},
			func(f *forger) {
				f.claim("meta-1", trace.Claim{Kind: trace.Swapped, Epoch: epoch(1, 0), Count: 1})
				f.statement("meta-2", trace.Looking, trace.Looked, trace.Claim{Term: 2, Peer: id("meta-2")}, 0)
			},
		},
		"a violation that was found before the cut, of the row": {
			"P1",
			func(f *forger) { f.win("meta-1", "", 0, 1).win("meta-2", "", 0, 1) },
			func(f *forger) {
				f.statement("meta-2", trace.Looking, trace.Looked, trace.Claim{Term: 1, Peer: id("meta-2")}, 0)
			},
		},
		"a leader's trust has ended long ago": {
			"I3",
			func(f *forger) { f.claim("meta-1", led(7, 3*time.Second)).pause(late) },
			func(f *forger) { f.claim("meta-2", led(8, 3*time.Second)) },
		},
		"a list is sent again to a client that may have lost its session before the cut": {
			"I11",
			func(f *forger) { f.claim("session-1", trace.Claim{Kind: trace.Pushed, Key: "sub", Version: 6}) },
			func(f *forger) { f.claim("session-1", trace.Claim{Kind: trace.Pushed, Key: "sub", Version: 6}) },
		},
		"a removal is late, of a registration that was forgotten": {
			"L1",
			func(f *forger) {
				f.accepted("session-1", 1).gone("session-1").fault(kill(testbed.Pause, "data-1")).pause(late)
			},
			func(f *forger) {
				f.accepted("session-1", 1).gone("session-1").removed("data-1", epoch(7, 2), 1).stored("data-1", epoch(7, 2), 1)
			},
		},
		"a removal may be about an earlier end of the registration": {
			"L1",
			func(f *forger) {
				f.accepted("session-1", 1).gone("session-1").removed("data-1", epoch(7, 2), 1).accepted("session-1", 1).gone("session-1").pause(2 * time.Minute)
			},
			func(f *forger) {
				f.accepted("session-1", 1).gone("session-1").removed("data-1", epoch(7, 2), 1).stored("data-1", epoch(7, 2), 1)
			},
		},
		"a table that is reported late was written under a blacklist that is not carried over": {
			"I8",
			func(f *forger) {
				f.listed(epoch(7, 2), "data-1,data-2").granted(2, epoch(7, 3), "data-1").listed(epoch(7, 4), "data-1").listed(epoch(7, 6), "data-1,data-2").pause(late)
			},
			func(f *forger) { f.granted(1, epoch(7, 5), "data-2") },
		},
		"a blacklist that is reported late is older than grants that are not carried over": {
			"I8",
			func(f *forger) {
				f.granted(1, epoch(7, 3), "data-2").granted(1, epoch(7, 5), "data-2'").granted(1, epoch(7, 7), "data-2").pause(late)
			},
			func(f *forger) { f.listed(epoch(7, 4), "data-2") },
		},
		"the write of a later blacklist was lost long ago": {
			"I8",
			func(f *forger) {
				f.listed(epoch(7, 4), "data-2").writeOfList(epoch(7, 6), errors.New("the connection broke")).pause(late)
			},
			func(f *forger) { f.granted(1, epoch(8, 5), "data-2") },
		},
		"the slot was the node's before": {
			"I8",
			func(f *forger) {
				f.granted(1, epoch(7, 2), "data-2").listed(epoch(7, 4), "data-2").copied(epoch(7, 5), "data-2'", "caughtUp", epoch(7, 2), 0, true)
				f.granted(1, epoch(7, 5), "data-2'")
				freeze(f, true).pause(late)
			},
			func(f *forger) { freeze(f, false).pause(time.Minute).runs("data-2", "data-3") },
		},
		"slots were frozen again and again": {
			"I8",
			func(f *forger) {
				f.lastCopy()
				for range 10 {
					freeze(f.pause(5*time.Second), false)
					freeze(f.pause(5*time.Second), true)
					f.pause(time.Minute)
				}
			},
			func(f *forger) { freeze(f.pause(time.Second), false).pause(10*time.Second).runs("data-2", "data-3") },
		},
		"a violation that was found before the cut, of a slot that is still not handed over": {
			"I8",
			func(f *forger) { f.lastCopy().pause(20*time.Second).runs("data-2", "data-3") },
			func(f *forger) { f.pause(time.Second).runs("data-2", "data-3") },
		},
		"an older leader of a slot was answered long ago": {
			"L2",
			func(f *forger) {
				f.claim("data-1", trace.Claim{Kind: trace.Migrating, Epoch: epoch(7, 2)})
				f.claim("session-1", trace.Claim{Kind: trace.Answered, Epoch: epoch(7, 2), Key: "a"})
				f.claim("session-1", trace.Claim{Kind: trace.Answered, Epoch: epoch(7, 3), Key: "a"}).pause(late)
			},
			func(f *forger) { f.claim("data-1", trace.Claim{Kind: trace.Serving, Epoch: epoch(7, 2), Count: 1}) },
		},
		"what a paused session has sent arrives": {
			"L8",
			func(f *forger) {
				f.accepted("session-1", 1).withdrawn("session-1", 2).fault(kill(testbed.Pause, "session-1")).pause(late)
			},
			func(f *forger) { f.removed("data-1", epoch(7, 2), 2) },
		},
		"a session still settles what was withdrawn elsewhere": {
			"L11",
			func(f *forger) { f.accepted("session-2", 1).withdrawn("session-1", 2).pause(late) },
			func(f *forger) { f.settled("session-2", 1).readEmpty() },
		},
		"a session has been lost for hours": {
			"L10",
			func(f *forger) { f.fault(kill(testbed.Pause, "session-1")).pause(3 * time.Hour) },
			func(f *forger) {
				f.claim("data-1", trace.Claim{Kind: trace.OwnerGone, Peer: id("session-1"), Count: 2})
			},
		},
		"slots have been frozen since before the cut": {
			"L22",
			func(f *forger) { freeze(f, true).pause(late) },
			func(f *forger) {
				f.fault(kill(testbed.Kill, "session-1")).pause(time.Minute).op(check.Op{Client: "client-1", Kind: check.OpUnheard, Name: "s", ID: "client-1/1"}).pause(time.Second).leader("meta-1")
			},
		},
		"the clients of before the cut end": {
			"L24",
			func(f *forger) { f.pause(late).accepted("session-1", 1) },
			func(f *forger) {
				f.burst(func() { f.gone("session-1") }).pause(9 * time.Second).leader("meta-1")
			},
		},
		"a burst began before the cut": {
			"L24",
			func(f *forger) { f.pause(late).accepted("session-1", 1).fault(kill(testbed.Burst, "")) },
			func(f *forger) {
				f.pause(11 * time.Second).gone("session-1").fault(kill(testbed.EndBurst, "")).pause(9 * time.Second).leader("meta-1")
			},
		},
		"a violation that was found before the cut, of a node that still has not handed over": {
			"L14",
			func(f *forger) {
				f.claim("data-1", trace.Claim{Kind: trace.Serving}).pause(late).fault(kill(testbed.Stop, "data-1")).pause(30 * time.Second).leader("meta-1")
			},
			func(f *forger) { f.pause(time.Second).leader("meta-1") },
		},
		"a violation that was found before the cut, of a slot that is still not served": {
			"L20",
			func(f *forger) {
				f.claim("data-1", trace.Claim{Kind: trace.Migrating, Epoch: epoch(7, 2)}).pause(30 * time.Second).leader("meta-1")
			},
			func(f *forger) { f.pause(time.Second).leader("meta-1") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := forge()
			c.before(f)
			at := f.at
			c.after(f)
			v := check.Run(check.Cut(f.h, at, time.Minute), c.checker)[0]
			assert.Empty(t, v.Violations)
		})
	}
}

// What was forgotten excuses nothing if nothing has failed since.
func TestResume_FindsWhatNoFaultExplains(t *testing.T) {
	f := forge()
	f.accepted("session-1", 1).withdrawn("session-1", 2).fault(testbed.Action{Verb: testbed.Kill, Node: "client-1"}).pause(late)
	at := f.at
	f.removed("data-1", epoch(7, 2), 2)
	v := check.Run(check.Cut(f.h, at, time.Minute), "L8")[0]
	assert.Len(t, v.Violations, 1)
}

// A slot that must be handed over after the cut was granted long before it.
func TestResume_FindsAHandOverThatIsDue(t *testing.T) {
	f := forge()
	f.lastCopy()
	for range 10 {
		for _, frozen := range []bool{true, false} {
			f.add(check.Entry{Observed: &check.Observation{Frozen: frozen, Leader: "meta-1", Up: []string{"data-2", "data-3"}}}).pause(10 * time.Second)
		}
	}
	at := f.at
	f.runs("data-2", "data-3").pause(17*time.Second).runs("data-2", "data-3")
	v := check.Run(check.Cut(f.h, at, time.Minute), "I8")[0]
	assert.Len(t, v.Violations, 1)
}

// Faults that have ended add up neither.
func TestResume_ForgetsFaults(t *testing.T) {
	f := forge()
	for range 1000 {
		pause := testbed.Action{Verb: testbed.Pause, Node: "data-1"}
		f.fault(pause).pause(time.Minute).fault(pause.Undo())
	}
	f.fault(testbed.Action{Verb: testbed.Kill, Node: "data-2"}).pause(2 * time.Hour)
	f.fault(testbed.Action{Verb: testbed.Kill, Node: "data-3"})
	h := check.Cut(f.h, f.at, time.Minute)
	require.Len(t, h.Entries, 2)
	assert.Equal(t, "data-2", h.Entries[0].Fault.Node, "it has not ended")
}
