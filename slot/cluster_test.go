package slot_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/slot"
)

// rest calls Arrange until nothing moves. Before each call, every live node
// does what the table asks of it. each, if not nil, is called with every new
// table.
func rest(t *testing.T, w slot.Table, in slot.Input, each func(slot.Table, []slot.Move)) slot.Table {
	t.Helper()
	for range 1000 {
		in.Next = epoch(w.Epoch.Term, w.Epoch.Seq+1)
		in.Reports = slices.DeleteFunc(answers(w), func(r slot.Report) bool { return !slices.Contains(in.Live, r.Node) })
		next, moves, err := slot.Arrange(w, in)
		require.NoError(t, err)
		if len(moves) == 0 {
			return w
		}
		require.NoError(t, slot.Monotone(w, next))
		if w = next; each != nil {
			each(w, moves)
		}
	}
	require.Fail(t, "no end of moves")
	return w
}

func TestNew_SpreadsLeadersAndFollowers(t *testing.T) {
	all := nodes("a", "b", "c", "d")
	in := slot.Input{Next: epoch(3, 1), Live: append(all, node("x")), Forbidden: []string{"x"}, Replicas: 2, FloorBase: 7}
	w, err := slot.New(256, in)
	require.NoError(t, err)
	require.NoError(t, w.Validate())
	assert.True(t, w.Even(all))
	for _, n := range all {
		assert.Len(t, w.HeldBy(n), 64+len(w.LedBy(n)), n)
	}
	// The followers of one leader's slots are spread over all others, so that
	// its death does not load a single node.
	for _, leader := range all {
		by := make(map[conclave.NodeID]int)
		for _, id := range w.LedBy(leader) {
			by[w.Slots[id].Followers[0]]++
		}
		require.Len(t, by, 3, leader)
		for f, n := range by {
			assert.InDelta(t, 21, n, 1, "%s follows %d of %s's slots", f, n, leader)
		}
	}
	for _, s := range w.Slots {
		assert.Equal(t, slot.Crash, s.Phase, "the leader must compare with the sessions first")
		assert.Equal(t, epoch(3, 1), s.LeaderEpoch)
		assert.EqualValues(t, conclave.VersionBase, s.VersionBase, "the first base above the floor")
	}

	_, err = slot.New(100, in)
	assert.ErrorContains(t, err, "slot count 100")
	in.Live = nodes("x")
	_, err = slot.New(256, in)
	assert.ErrorIs(t, err, slot.ErrNoSuccessor)
	in.FloorBase = -1
	_, err = slot.New(256, in)
	assert.ErrorContains(t, err, "floor of the version bases is -1")
}

// A node leaves slot by slot while it still serves, then its last copies move.
// Until then no slot has fewer complete copies than it should have. Article
// 002: slots leave one by one, each waited for until stable, then the remaining
// followers move, then the node leaves.
func TestArticleDrainSlotBySlot(t *testing.T) {
	w := table(t, 8, 2, "node-1", "node-2", "node-3")
	leaving := w.LedBy(node("node-1"))
	in := slot.Input{Live: nodes("node-1", "node-2", "node-3"), Forbidden: []string{"node-1"}, Replicas: 2, Limits: slot.Limits{Drains: 1}}
	require.NoError(t, slot.CanDrain(w, "node-1", in.Live, nil))

	var left []int
	w = rest(t, w, in, func(w slot.Table, moves []slot.Move) {
		inProgress := 0
		for _, s := range w.Slots {
			if s.Phase != slot.Stable {
				inProgress++
			}
		}
		assert.LessOrEqual(t, inProgress, 1, "one slot at a time")
		for _, m := range moves {
			if m.Kind == slot.Switched && m.From.Name == "node-1" {
				left = append(left, m.Slot)
			}
		}
	})
	assert.Equal(t, leaving, left)
	assert.Empty(t, w.HeldBy(node("node-1")))
	assert.True(t, slot.Drained(w, "node-1", in.Live, in.Forbidden, 2))
	assert.True(t, w.Even(nodes("node-2", "node-3")))
	for _, s := range w.Slots {
		assert.Len(t, s.Followers, 1)
	}
}

// By default sixteen hand-overs are in progress at once (docs/adr/0110), in the
// slots' order; with the original's limits all of them. A slot whose hand-over
// has ended makes room for the next.
func TestArticleDrain_SixteenSlotsAtOnceByDefault(t *testing.T) {
	for limits, most := range map[slot.Limits]int{{}: 16, {Drains: 3}: 3, slot.OriginalLimits(): 64} {
		w := table(t, 256, 2, "node-1", "node-2", "node-3", "node-4")
		leaving := w.LedBy(node("node-1"))
		require.Len(t, leaving, 64)
		in := slot.Input{Live: nodes("node-1", "node-2", "node-3", "node-4"), Forbidden: []string{"node-1"}, Replicas: 2, Limits: limits}
		var prepared []int
		highest := 0
		w = rest(t, w, in, func(w slot.Table, moves []slot.Move) {
			inProgress := 0
			for _, s := range w.Slots {
				if s.Phase != slot.Stable {
					inProgress++
				}
			}
			highest = max(highest, inProgress)
			for _, m := range moves {
				if m.Kind == slot.Prepared && m.From.Name == "node-1" {
					prepared = append(prepared, m.Slot)
				}
			}
		})
		assert.Equal(t, most, highest, "hand-overs at once with %+v", limits)
		assert.Equal(t, leaving, prepared, "the slots' order")
		assert.Empty(t, w.HeldBy(node("node-1")))
	}
}

// A dead node's slots are granted in one write, regardless of the limits.
func TestArrange_GrantsAllSlotsOfDeadNodeAtOnce(t *testing.T) {
	w := table(t, 256, 2, "a", "b", "c")
	lost := w.LedBy(node("a"))
	next, _, err := slot.Arrange(w, slot.Input{Next: epoch(1, 3), Live: nodes("b", "c"), Replicas: 2, Limits: slot.Limits{LeaderMoves: 1, Drains: 1}})
	require.NoError(t, err)
	for _, id := range lost {
		assert.Equal(t, slot.Crash, next.Slots[id].Phase)
		assert.Contains(t, w.Slots[id].Followers, next.Slots[id].Leader)
	}
	w = rest(t, next, slot.Input{Live: nodes("b", "c"), Replicas: 2}, nil)
	assert.True(t, w.Even(nodes("b", "c")))

	// The node returns as another incarnation: a new node, which gets its
	// share.
	live := []conclave.NodeID{again("a"), node("b"), node("c")}
	w = rest(t, w, slot.Input{Live: live, Replicas: 2}, nil)
	assert.True(t, w.Even(live))
	for _, n := range live {
		assert.InDelta(t, 85, len(w.HeldBy(n))-len(w.LedBy(n)), 1, n)
	}
}

// Slots without a copy are spread over all nodes.
func TestArrange_SpreadsSlotsWithoutCopies(t *testing.T) {
	w := table(t, 64, 1, "a", "b")
	next, _, err := slot.Arrange(w, slot.Input{Next: epoch(1, 3), Live: nodes("b", "c", "d"), Replicas: 1})
	require.NoError(t, err)
	assert.Len(t, next.LedBy(node("b")), 32, "has its share already")
	assert.Len(t, next.LedBy(node("c")), 16)
	assert.Len(t, next.LedBy(node("d")), 16)
}

// Without a live node the table stays: it records which nodes had what, and a
// follower that returns unchanged is still one.
func TestArrange_NoLiveNodeChangesNothing(t *testing.T) {
	w := table(t, 8, 3, "a", "b", "c")
	next, moves, err := slot.Arrange(w, slot.Input{Next: epoch(1, 3), Replicas: 3})
	require.NoError(t, err)
	assert.Empty(t, moves)
	assert.True(t, next.Equal(w))
}

// A follower is leaving, the node in its place has died, and there is no third
// node: the leaving follower stays.
func TestArrange_LeavingFollowerStaysWithoutAnother(t *testing.T) {
	w := one(t, 2)
	w.Slots[0].Followers, w.Slots[0].Leaving = nodes("b", "c"), node("b")
	require.NoError(t, w.Validate())
	next, moves := step(t, w, slot.Input{Live: nodes("a", "b"), Reports: answers(w)})
	assert.Equal(t, []string{"slot 0 unfollowed c@1 ->  (follower lost)", "slot 0 followed  -> b@1 (stays, no other node available)"}, moves)
	assert.Equal(t, nodes("b"), next.Slots[0].Followers)
	assert.Zero(t, next.Slots[0].Leaving)
}

// With the original's limits at most 6 leaders a round move to a new node, and
// the table counts as even between the water marks.
func TestArrange_OriginalLimits(t *testing.T) {
	w := table(t, 256, 2, "a", "b", "c")
	live := nodes("a", "b", "c", "d")
	w = rest(t, w, slot.Input{Live: live, Replicas: 2, Limits: slot.OriginalLimits()}, func(_ slot.Table, moves []slot.Move) {
		n := 0
		for _, m := range moves {
			if m.Kind == slot.Prepared {
				n++
			}
		}
		assert.LessOrEqual(t, n, 6)
	})
	for _, n := range live {
		leads := len(w.LedBy(n))
		assert.LessOrEqual(t, leads, 71, "high water: 1.1 x 64")
		assert.GreaterOrEqual(t, leads, 57, "low water: 0.9 x 64")
		assert.LessOrEqual(t, len(w.HeldBy(n))-leads, 71)
		assert.GreaterOrEqual(t, len(w.HeldBy(n))-leads, 57)
	}
	assert.False(t, w.Even(live), "the original stops there; the default goes on")
	assert.True(t, rest(t, w, slot.Input{Live: live, Replicas: 2}, nil).Even(live))
}

// Copies are added when Replicas rises, and removed when it falls.
func TestArrange_AdjustsNumberOfReplicas(t *testing.T) {
	w := table(t, 16, 1, "a", "b", "c")
	for _, replicas := range []int{3, 2, 5, 1} {
		w = rest(t, w, slot.Input{Live: nodes("a", "b", "c"), Replicas: replicas}, nil)
		for _, s := range w.Slots {
			assert.Len(t, s.Followers, min(replicas, 3)-1, "%d replicas on three nodes", replicas)
		}
	}
}

func TestCanDrain_RequiresNodeThatCanLead(t *testing.T) {
	w := table(t, 8, 2, "a", "b", "c")
	assert.NoError(t, slot.CanDrain(w, "a", nodes("a", "b"), nil))
	assert.NoError(t, slot.CanDrain(w, "z", nodes("z"), nil), "it leads nothing")

	err := slot.CanDrain(w, "a", nodes("a"), nil)
	assert.ErrorIs(t, err, slot.ErrNoSuccessor)
	assert.ErrorContains(t, err, "drain a, which leads 3 slots: no successor: no other data node is up")
	err = slot.CanDrain(w, "a", nodes("c", "a", "b"), []string{"b", "c", "session-1"})
	assert.ErrorIs(t, err, slot.ErrNoSuccessor)
	assert.ErrorContains(t, err, "every other data node is blacklisted: b, c")

	// With two nodes there is no other node for the copies of the one that
	// leaves, and none is required.
	live, forbidden := nodes("a", "b"), []string{"a"}
	w = table(t, 8, 2, "a", "b")
	assert.False(t, slot.Drained(w, "a", live, forbidden, 2))
	w = rest(t, w, slot.Input{Live: live, Forbidden: forbidden, Replicas: 2}, nil)
	assert.True(t, slot.Drained(w, "a", live, forbidden, 2))
	assert.Len(t, w.LedBy(node("b")), 8)
	assert.Len(t, w.HeldBy(node("a")), 8, "it keeps its copies, the second of each, until it stops")
	assert.False(t, slot.Drained(w, "a", append(live, node("c")), forbidden, 2), "now c could take them")
}

// After a restore the table that nodes still have counts, not the older one
// from the backup, and slots in which they differ are granted again.
func TestAdopt_ContinuesFromTableOfNodes(t *testing.T) {
	stored := table(t, 8, 2, "a", "b", "c")
	in := slot.Input{Live: nodes("a", "b", "c"), Forbidden: []string{"a"}, Replicas: 2}
	seen, _ := step(t, stored, in)
	in.Reports = answers(seen)
	seen, _ = step(t, seen, in)

	in.Next = epoch(4, 1)
	in.Reports = []slot.Report{{Node: node("b"), Slot: 0, Counter: 90 * conclave.VersionBase}}
	next, moves, err := slot.Adopt(stored, seen, in)
	require.NoError(t, err)
	require.NoError(t, next.Validate())
	require.NoError(t, slot.Monotone(seen, next))
	require.NoError(t, slot.Monotone(stored, next))
	assert.Equal(t, epoch(4, 1), next.Epoch)
	granted := make(map[int]bool)
	for _, m := range moves {
		assert.True(t, strings.HasSuffix(m.String(), "(the database was restored)"), m)
		granted[m.Slot] = true
	}
	require.NotEmpty(t, granted)
	for i, s := range next.Slots {
		assert.Equal(t, seen.Slots[i].Leader, s.Leader)
		if !granted[i] {
			assert.True(t, s.Equal(stored.Slots[i]))
			continue
		}
		assert.Equal(t, slot.Crash, s.Phase)
		assert.Equal(t, in.Next, s.LeaderEpoch)
		assert.Greater(t, s.VersionBase, seen.Slots[i].VersionBase)
		for _, n := range seen.Slots[i].Holders() {
			assert.True(t, s.Holds(n), "the copy on %s stays", n)
		}
	}
	if granted[0] {
		assert.EqualValues(t, 91*conclave.VersionBase, next.Slots[0].VersionBase)
	}

	_, _, err = slot.Adopt(stored, seen, slot.Input{Next: seen.Epoch, Replicas: 2})
	assert.ErrorContains(t, err, "is not newer")
	_, _, err = slot.Adopt(table(t, 4, 2, "a"), seen, in)
	assert.ErrorContains(t, err, "it has 8 slots, the stored one 4")
}
