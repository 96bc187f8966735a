package slot_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/slot"
)

// node returns the first incarnation of a name, again the second.
func node(name string) conclave.NodeID  { return conclave.NodeID{Name: name, Incarnation: "1"} }
func again(name string) conclave.NodeID { return conclave.NodeID{Name: name, Incarnation: "2"} }

func nodes(names ...string) []conclave.NodeID {
	var ns []conclave.NodeID
	for _, name := range names {
		ns = append(ns, node(name))
	}
	return ns
}

func epoch(term, seq uint64) conclave.Epoch { return conclave.Epoch{Term: term, Seq: seq} }

// table returns a stable table over the named nodes, at epoch 1.2.
func table(t *testing.T, slots, replicas int, names ...string) slot.Table {
	t.Helper()
	in := slot.Input{Next: epoch(1, 1), Live: nodes(names...), Replicas: replicas, FloorBase: 9 * conclave.VersionBase}
	made, err := slot.New(slots, in)
	require.NoError(t, err)
	in.Next, in.Reports = epoch(1, 2), answers(made)
	stable, _, err := slot.Arrange(made, in)
	require.NoError(t, err)
	require.True(t, stable.StableAll())
	return stable
}

// answers returns the reports of all nodes once each has done what the table
// asks of it.
func answers(t slot.Table) []slot.Report {
	var rs []slot.Report
	for _, s := range t.Slots {
		for _, n := range s.Holders() {
			r := slot.Report{Node: n, Slot: s.ID, Epoch: s.LeaderEpoch, State: slot.CaughtUp, Position: 7}
			switch n {
			case s.Leader:
				r.State = slot.Serving
			case s.Source:
				r.State, r.Epoch = slot.Finished, s.SourceEpoch
			}
			rs = append(rs, r)
		}
	}
	return rs
}

func TestTable_ViewsByNode(t *testing.T) {
	w := table(t, 4, 2, "a", "b", "c")
	assert.Equal(t, []int{0, 3}, w.LedBy(node("a")))
	assert.Empty(t, w.LedBy(again("a")), "another incarnation leads nothing")
	for _, n := range nodes("a", "b", "c") {
		for _, id := range w.HeldBy(n) {
			assert.True(t, w.Slots[id].Holds(n))
		}
	}
	assert.True(t, w.Even(nodes("a", "b", "c")))
	assert.False(t, w.Even(nodes("a", "b")), "c leads a slot and is not among them")
	assert.False(t, w.Even(nodes("a", "b", "c", "d")), "a leads two slots, d none")
	assert.True(t, slot.Table{}.Even(nil))
}

func TestTableClone_SharesNothing(t *testing.T) {
	w := table(t, 4, 2, "a", "b", "c")
	c := w.Clone()
	require.True(t, c.Equal(w))
	c.Slots[0].Followers[0] = node("x")
	c.Slots[1].Phase = slot.Crash
	assert.False(t, c.Equal(w))
	assert.NoError(t, w.Validate())
	assert.Equal(t, slot.Stable, w.Slots[1].Phase)
}

func TestTable_JSON(t *testing.T) {
	w := table(t, 2, 1, "a", "b")
	text, err := json.Marshal(w)
	require.NoError(t, err)
	assert.JSONEq(t, `{"epoch":{"term":1,"seq":2},"slots":[
		{"id":0,"phase":"stable","leader":{"name":"a","incarnation":"1"},"leaderEpoch":{"term":1,"seq":1},"versionBase":41943040,"followers":[],"first":true},
		{"id":1,"phase":"stable","leader":{"name":"b","incarnation":"1"},"leaderEpoch":{"term":1,"seq":1},"versionBase":41943040,"followers":[],"first":true}]}`, string(text))
	var read slot.Table
	require.NoError(t, json.Unmarshal(text, &read))
	assert.True(t, read.Equal(w))
}

// Each row violates one invariant of a valid table, and the error reports it.
func TestValidate_ReportsViolatedInvariant(t *testing.T) {
	for want, forge := range map[string]func(*slot.Slot){
		"row 1 has slot id 2":          func(s *slot.Slot) { s.ID = 2 },
		"no leader":                    func(s *slot.Slot) { s.Leader = conclave.NodeID{} },
		"not a name and an incarn":     func(s *slot.Slot) { s.Leader.Incarnation = "" },
		"b is in the row twice":        func(s *slot.Slot) { s.Followers = []conclave.NodeID{again("b")} },
		"are not in order":             func(s *slot.Slot) { s.Followers = nodes("d", "c") },
		"x@1 is leaving but is not":    func(s *slot.Slot) { s.Leaving = node("x") },
		"no leader epoch":              func(s *slot.Slot) { s.LeaderEpoch = conclave.Epoch{} },
		"leader epoch 1.3 is newer":    func(s *slot.Slot) { s.LeaderEpoch = epoch(1, 3) },
		"version base 7 is not":        func(s *slot.Slot) { s.VersionBase = 7 },
		`unknown phase "lost"`:         func(s *slot.Slot) { s.Phase = "lost" },
		`phase preparing with succe`:   func(s *slot.Slot) { s.Phase = slot.Preparing },
		"phase stable with successor":  func(s *slot.Slot) { s.Successor = node("x") },
		`phase switching with source`:  func(s *slot.Slot) { s.Phase = slot.Switching },
		"phase crash with source":      func(s *slot.Slot) { s.Phase, s.Source = slot.Crash, node("x") },
		"with source epoch 1.1":        func(s *slot.Slot) { s.SourceEpoch = epoch(1, 1) },
		"is not before leader epoch":   func(s *slot.Slot) { s.Phase, s.Source, s.SourceEpoch = slot.Switching, node("x"), epoch(1, 1) },
		"slot count 3 is not a power":  nil,
		"version base 90071992547409":  func(s *slot.Slot) { s.VersionBase = conclave.MaxVersion + 1 },
		"phase preparing with source ": func(s *slot.Slot) { s.Phase, s.Successor, s.Source = slot.Preparing, node("x"), node("y") },
	} {
		w := table(t, 4, 2, "a", "b", "c")
		if forge == nil {
			w.Slots = w.Slots[:3]
		} else {
			forge(&w.Slots[1])
		}
		err := w.Validate()
		assert.ErrorIs(t, err, slot.ErrInvalid, want)
		assert.ErrorContains(t, err, want)
	}
	assert.NoError(t, slot.Table{}.Validate(), "no slot assigned yet")
}

func TestMonotone_RefusesOlderTable(t *testing.T) {
	old := table(t, 4, 2, "a", "b", "c")
	for want, forge := range map[string]func(*slot.Table){
		"epoch 1.1 after 1.2":             func(n *slot.Table) { n.Epoch = epoch(1, 1) },
		"two tables of epoch 1.2 differ":  func(n *slot.Table) { n.Slots[0].Phase = slot.Crash; n.Epoch = epoch(1, 2) },
		"2 slots after 4":                 func(n *slot.Table) { n.Slots = n.Slots[:2] },
		"slot 0: leader epoch 0.9 after":  func(n *slot.Table) { n.Slots[0].LeaderEpoch = epoch(0, 9) },
		"at the same leader epoch 1.1":    func(n *slot.Table) { n.Slots[0].Leader = node("z") },
		"1.3 after 1.1 for the same lead": func(n *slot.Table) { n.Slots[0].LeaderEpoch = epoch(1, 3) },
		"slot 0: version base 0 after":    func(n *slot.Table) { n.Slots[0].VersionBase = 0 },
	} {
		next := old.Clone().At(epoch(1, 3))
		require.NoError(t, slot.Monotone(old, next))
		forge(&next)
		err := slot.Monotone(old, next)
		assert.ErrorIs(t, err, slot.ErrBackwards, want)
		assert.ErrorContains(t, err, want)
	}
	assert.NoError(t, slot.Monotone(old, old), "the same table again")
	assert.NoError(t, slot.Monotone(slot.Table{}, old), "the first table")
	assert.NoError(t, slot.Monotone(old, old.At(epoch(2, 1))), "sealed again by the next term")
}
