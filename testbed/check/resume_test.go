package check_test

import (
	"errors"
	"fmt"
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

// Each forged history is cut before and after each of its entries: no violation is
// found where there is none, and each is found if all of it is after the cut, unless it
// is about what the history does not have.
func TestResume_RejectsAfterTheCutAndAcceptsWhatIsNotKnown(t *testing.T) {
	unknown := map[string]string{ // by checker or forgery: what may have been before the cut, as the forgery has it
		"I8": "which node had the slot", "L1": "that the session had accepted it", "L8": "the same", "L11": "the same", "L2": "the answers", "L12": "the seal",
		"P1": "a statement that was sent", "L23": "the rate", "L24 session removed": "which process was the newest", "L24 client gone": "whether the client has ended",
	}
	for name, f := range forgeries() {
		of, _, _ := strings.Cut(name, " ")
		bad, good := forge(), forge()
		f.reject(bad)
		f.accept(good)
		if unknown[of]+unknown[name] == "" {
			assert.NotEmpty(t, check.Run(check.Cut(bad.h, 0), of)[0].Violations, name)
		}
		ofNodes := !slices.ContainsFunc(good.h.Entries, func(e check.Entry) bool { return e.Op != nil }) // those of clients are left out at a cut
		for i := 0; i < len(good.h.Entries) && ofNodes; i++ {
			v := check.Run(check.Cut(good.h, good.h.Entries[i].At), of)[0]
			assert.Empty(t, v.Violations, "%s, correct: cut after %d of %d: %v", name, i+1, len(good.h.Entries), good.h.Entries)
		}
	}
}

// What is known in spite of the cut is checked.
func TestResume_ChecksWhatItKnows(t *testing.T) {
	for name, after := range map[string]func(f *forger){
		"I8": func(f *forger) {
			f.granted(1, epoch(7, 2), "data-1").listed(epoch(7, 4), "data-2").granted(1, epoch(7, 5), "data-2")
		},
		"I9": func(f *forger) {
			f.claim("data-1", trace.Claim{Kind: trace.Finished}).claim("data-1", trace.Claim{Kind: trace.Read, Epoch: epoch(7, 2)})
		},
		"L1": func(f *forger) { f.accepted("session-1", 1).stored("data-1", epoch(7, 2), 2) },
		"L1 comes back": func(f *forger) {
			f.pause(time.Minute).accepted("session-1", 1).gone("session-1").removed("data-1", epoch(7, 2), 1).stored("data-1", epoch(7, 2), 1)
		},
		"L2": func(f *forger) {
			f.claim("data-1", trace.Claim{Kind: trace.Migrating, Epoch: epoch(7, 2)}).claim("data-1", trace.Claim{Kind: trace.Serving, Epoch: epoch(7, 2), Count: 1})
		},
		"L3": func(f *forger) {
			f.claim("session-1", trace.Claim{Kind: trace.Adopted, Epoch: epoch(7, 3)}).counted("session-1", epoch(7, 2), 1)
		},
		"L4": func(f *forger) {
			f.claim("data-1", trace.Claim{Kind: trace.Serving, Epoch: epoch(7, 3)}).stored("data-1", epoch(7, 2), 1)
		},
		"L8":  func(f *forger) { f.accepted("session-1", 1).removed("data-1", epoch(7, 2), 2) },
		"L11": func(f *forger) { f.accepted("session-1", 1).settled("session-1", 1).readEmpty() },
		"L12": func(f *forger) {
			f.claim("meta-1", led(8, time.Second)).write("meta-1", "table", 8, epoch(7, 1), epoch(8, 1))
		},
		"P1": func(f *forger) {
			f.pause(time.Minute).win("meta-1", "", 0, 1).statement("meta-2", trace.Looking, trace.Looked, trace.Claim{Term: 7, Peer: id("meta-2")}, 0)
		},
	} {
		of, _, _ := strings.Cut(name, " ")
		f := forge()
		after(f)
		assert.Len(t, check.Run(check.Cut(f.h, 0), of)[0].Violations, 1, name)
	}
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
			func(f *forger) { // what is observed is recorded again
				freeze(f, true).fault(kill(testbed.Kill, "session-1")).pause(time.Minute).op(check.Op{Client: "client-1", Kind: check.OpUnheard, Name: "s", ID: "client-1/1"}).pause(time.Second).leader("meta-1")
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
		"a win that waits in a link, which is mended two minutes after the cut": {
			"P1",
			func(f *forger) { f.fault(testbed.Action{Verb: testbed.Cut, Node: "meta-1", Peer: "db"}) },
			func(f *forger) {
				f.pause(2*time.Minute).statement("meta-3", trace.Looking, trace.Looked, trace.Claim{}, 0)
				f.fault(testbed.Action{Verb: testbed.Mend, Node: "meta-1", Peer: "db"})
				f.statement("meta-2", trace.Looking, trace.Looked, trace.Claim{Term: 1, Peer: id("meta-1")}, 0)
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
			v := check.Run(check.Cut(f.h, at), c.checker)[0]
			assert.Empty(t, v.Violations)
		})
	}
}

// Faults that have ended do not add up.
func TestResume_ForgetsFaults(t *testing.T) {
	f := forge()
	for range 1000 {
		pause := testbed.Action{Verb: testbed.Pause, Node: "data-1"}
		f.fault(pause).pause(time.Minute).fault(pause.Undo())
	}
	f.fault(testbed.Action{Verb: testbed.Kill, Node: "data-2"}).pause(2 * time.Hour)
	f.fault(testbed.Action{Verb: testbed.Kill, Node: "data-3"})
	h := check.Cut(f.h, f.at)
	require.Len(t, h.Entries, 2)
	assert.Equal(t, "data-2", h.Entries[0].Fault.Node, "it has not ended")
}

// The history of a scenario on a cluster that runs already has the faults of before, and the
// recording of the cluster goes on.
func TestJoin_HasTheFaultsOfBefore(t *testing.T) {
	r := check.NewRecorder("console", testbed.Size{Slots: 16})
	kill := testbed.Action{Verb: testbed.Kill, Node: "data-1"}
	r.Fault(check.Fault{Action: kill})
	r.Event(trace.Claim{Kind: trace.Read})
	r.Op(check.Op{Kind: check.OpPublish})
	joined := r.Join("storm", testbed.Size{Slots: 8})
	joined.Event(trace.Claim{Kind: trace.Led})
	r.Event(trace.Claim{Kind: trace.Led})
	h := joined.History(true)
	assert.True(t, h.Joined)
	assert.Equal(t, "storm 8", fmt.Sprint(h.Scenario, " ", h.Cluster.Slots))
	require.Len(t, h.Entries, 2)
	assert.Equal(t, kill, h.Entries[0].Fault.Action)
	assert.Negative(t, h.Entries[0].At)
	assert.Equal(t, trace.Led, h.Entries[1].Event.Kind)
	assert.Equal(t, 4, r.Len())
}
