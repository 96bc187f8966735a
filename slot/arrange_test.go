package slot_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/slot"
)

// step calls Arrange once, with two replicas unless in has another number.
func step(t *testing.T, w slot.Table, in slot.Input) (slot.Table, []string) {
	t.Helper()
	if in.Next.IsZero() {
		in.Next = epoch(w.Epoch.Term, w.Epoch.Seq+1)
	}
	if in.Replicas == 0 {
		in.Replicas = 2
	}
	next, moves, err := slot.Arrange(w, in)
	require.NoError(t, err)
	require.NoError(t, next.Validate())
	require.NoError(t, slot.Monotone(w, next))
	var lines []string
	for _, m := range moves {
		lines = append(lines, m.String())
	}
	return next, lines
}

// one returns a table of one slot, led by a at 1.1, followed by b.
func one(t *testing.T, replicas int) slot.Table {
	w := table(t, 1, replicas, "a", "b", "c")
	require.Equal(t, node("a"), w.Slots[0].Leader)
	if replicas > 1 {
		require.Contains(t, w.Slots[0].Followers, node("b"))
	}
	return w
}

// A slot moves from a to b, each step in a write of its own.
func TestArrange_HandsSlotOverStepByStep(t *testing.T) {
	w := one(t, 2)
	in := slot.Input{Live: nodes("a", "b", "c"), Forbidden: []string{"a"}}

	w, moves := step(t, w, in)
	assert.Equal(t, []string{"slot 0 prepared a@1 -> b@1 (drain)"}, moves)
	assert.Equal(t, slot.Slot{Phase: slot.Preparing, Leader: node("a"), LeaderEpoch: epoch(1, 1), First: true, Successor: node("b"),
		VersionBase: 10 * conclave.VersionBase, Followers: []conclave.NodeID{}}, w.Slots[0])

	_, moves = step(t, w, in)
	assert.Empty(t, moves, "b has not reported that it has caught up")

	in.Reports = []slot.Report{
		{Node: node("b"), Epoch: epoch(1, 1), State: slot.CaughtUp, LagMs: 3},
		{Node: node("a"), Epoch: epoch(1, 1), State: slot.Serving, Counter: 11*conclave.VersionBase + 5},
	}
	w, moves = step(t, w, in)
	assert.Equal(t, []string{"slot 0 switched a@1 -> b@1 (successor caught up)"}, moves)
	assert.Equal(t, slot.Slot{Phase: slot.Switching, Leader: node("b"), LeaderEpoch: w.Epoch, Source: node("a"), SourceEpoch: epoch(1, 1),
		VersionBase: 12 * conclave.VersionBase, Followers: []conclave.NodeID{}}, w.Slots[0])

	assert.False(t, slot.Drained(w, "a", in.Live, in.Forbidden, 2), "it is the source")

	in.Reports = []slot.Report{{Node: node("b"), Epoch: w.Epoch, State: slot.Serving}}
	w, moves = step(t, w, in)
	assert.Equal(t, []string{
		"slot 0 settled a@1 -> b@1 (leader serves)", // a, though forbidden, stays as a follower
		"slot 0 followed  -> c@1 (follower missing)",
	}, moves)
	assert.Equal(t, nodes("a", "c"), w.Slots[0].Followers)
	assert.False(t, slot.Drained(w, "a", in.Live, in.Forbidden, 2))

	in.Reports = append(in.Reports, slot.Report{Node: node("c"), Epoch: w.Slots[0].LeaderEpoch, State: slot.CaughtUp})
	w, moves = step(t, w, in)
	assert.Equal(t, []string{"slot 0 unfollowed a@1 ->  (drain)"}, moves)
	assert.Equal(t, nodes("c"), w.Slots[0].Followers)
	assert.True(t, slot.Drained(w, "a", in.Live, in.Forbidden, 2))
}

// A report of another leadership, of another incarnation, or with too much lag
// advances no hand-over.
func TestArrange_IgnoresReportsThatDoNotMatch(t *testing.T) {
	in := slot.Input{Live: nodes("a", "b", "c"), Forbidden: []string{"a"}}
	w, _ := step(t, one(t, 2), in)
	for what, r := range map[string]slot.Report{
		"an older epoch":      {Node: node("b"), Epoch: epoch(0, 9), State: slot.CaughtUp},
		"a newer epoch":       {Node: node("b"), Epoch: epoch(1, 2), State: slot.CaughtUp},
		"another incarnation": {Node: again("b"), Epoch: epoch(1, 1), State: slot.CaughtUp},
		"another node":        {Node: node("c"), Epoch: epoch(1, 1), State: slot.CaughtUp},
		"another slot":        {Node: node("b"), Slot: 1, Epoch: epoch(1, 1), State: slot.CaughtUp},
		"much lag":            {Node: node("b"), Epoch: epoch(1, 1), State: slot.CaughtUp, LagMs: slot.MaxLagMs + 1},
		"still loading":       {Node: node("b"), Epoch: epoch(1, 1), State: slot.Following},
	} {
		in.Reports = []slot.Report{r}
		_, moves := step(t, w, in)
		assert.Empty(t, moves, what)
	}
}

// A leader that also led the slot earlier does not count as serving because of
// a report at the older epoch.
func TestArrange_IgnoresServingOfEarlierLeadership(t *testing.T) {
	lead := func(w slot.Table, name string) slot.Table {
		next, _ := step(t, w, slot.Input{Live: nodes(name)})
		require.Equal(t, node(name), next.Slots[0].Leader)
		return next
	}
	w := lead(lead(one(t, 2), "b"), "a")
	in := slot.Input{Live: nodes("a"), Reports: []slot.Report{{Node: node("a"), Epoch: epoch(1, 1), State: slot.Serving}}}
	_, moves := step(t, w, in)
	assert.Empty(t, moves)
	in.Reports[0].Epoch = w.Slots[0].LeaderEpoch
	_, moves = step(t, w, in)
	assert.Equal(t, []string{"slot 0 settled  -> a@1 (leader serves)"}, moves)
}

// Each case starts from a slot that is moving from a to b.
func TestArrange_EachPartDies(t *testing.T) {
	drain := slot.Input{Live: nodes("a", "b", "c"), Forbidden: []string{"a"}}
	caughtUp := []slot.Report{{Node: node("b"), Epoch: epoch(1, 1), State: slot.CaughtUp}}
	preparing, _ := step(t, one(t, 2), drain)
	drain.Reports = caughtUp
	switching, _ := step(t, preparing, drain)
	require.Equal(t, slot.Switching, switching.Slots[0].Phase)

	for _, c := range []struct {
		name  string
		from  slot.Table
		in    slot.Input
		moves []string
		phase slot.Phase
	}{
		{"preparing, successor lost", preparing, slot.Input{Live: nodes("a", "c")},
			[]string{"slot 0 abandoned b@1 -> a@1 (successor lost)", "slot 0 followed  -> c@1 (follower missing)"}, slot.Stable},
		{"preparing, successor restarted", preparing, slot.Input{Live: []conclave.NodeID{node("a"), again("b")}},
			[]string{"slot 0 abandoned b@1 -> a@1 (successor lost)", "slot 0 followed  -> b@2 (follower missing)"}, slot.Stable},
		{"preparing, successor forbidden: it keeps its copy", preparing, slot.Input{Live: nodes("a", "b"), Forbidden: []string{"b"}, Reports: caughtUp},
			[]string{"slot 0 abandoned b@1 -> a@1 (successor forbidden)"}, slot.Stable},
		{"preparing, successor forbidden while it loads: it has no copy yet", preparing, slot.Input{Live: nodes("a", "b"), Forbidden: []string{"b"}},
			[]string{"slot 0 abandoned b@1 -> a@1 (successor forbidden)"}, slot.Stable},
		{"preparing, frozen: it waits", preparing, slot.Input{Live: nodes("a", "b"), Frozen: true, Reports: caughtUp}, nil, slot.Preparing},
		{"preparing, leader lost: the caught-up successor", preparing, slot.Input{Live: nodes("b", "c"), Reports: caughtUp},
			[]string{"slot 0 granted a@1 -> b@1 (leader lost, best copy)"}, slot.Crash},
		{"preparing, leader restarted: not to its empty memory", preparing, slot.Input{Live: []conclave.NodeID{again("a"), node("b")}},
			[]string{"slot 0 granted a@1 -> b@1 (leader lost, best copy)"}, slot.Crash},
		{"preparing, both lost", preparing, slot.Input{Live: nodes("c")},
			[]string{"slot 0 granted a@1 -> c@1 (leader lost, no copy left)"}, slot.Crash},
		{"switching, new leader lost: back to the source", switching, slot.Input{Live: nodes("a", "c")},
			[]string{"slot 0 granted b@1 -> a@1 (leader lost, best copy)"}, slot.Crash},
		{"switching, new leader lost, source forbidden", switching, slot.Input{Live: nodes("a", "c"), Forbidden: []string{"a"}},
			[]string{"slot 0 granted b@1 -> c@1 (leader lost, no copy left)"}, slot.Crash},
		{"preparing, leader lost, successor forbidden: it has the last complete copy", preparing, slot.Input{Live: nodes("b", "c"), Forbidden: []string{"b"}, Reports: caughtUp},
			[]string{"slot 0 granted a@1 -> b@1 (leader lost, last complete copy)"}, slot.Crash},
		{"preparing, leader lost, successor has not reported: it may have the copy", preparing,
			slot.Input{Live: nodes("b", "c"), Silent: nodes("b"), Forbidden: []string{"b"}}, nil, slot.Preparing},
		{"switching, new leader lost, source forbidden: it has the last complete copy", switching, slot.Input{Live: nodes("a", "c"), Forbidden: []string{"a"},
			Reports: []slot.Report{{Node: node("a"), Epoch: epoch(1, 1), State: slot.Finished}}},
			[]string{"slot 0 granted b@1 -> a@1 (leader lost, last complete copy)"}, slot.Crash},
		{"switching, source lost: the new leader will be refused, and diffs", switching, slot.Input{Live: nodes("b", "c")}, nil, slot.Switching},
		{"switching, all lost", switching, slot.Input{}, nil, slot.Switching},
		{"all live nodes are forbidden; the last report of the dead one changes nothing", switching,
			slot.Input{Live: nodes("a"), Forbidden: []string{"a"}, Reports: []slot.Report{{Node: node("b"), Epoch: switching.Epoch, State: slot.Serving}}},
			nil, slot.Switching},
	} {
		t.Run(c.name, func(t *testing.T) {
			next, moves := step(t, c.from, c.in)
			assert.Equal(t, c.moves, moves)
			assert.Equal(t, c.phase, next.Slots[0].Phase)
			keeps := strings.HasSuffix(c.name, "it keeps its copy")
			assert.Equal(t, keeps, next.Slots[0].Holds(node("b")) && next.Slots[0].Phase == slot.Stable)
		})
	}
}

// After a crash the most advanced copy leads: complete before loading, then the
// newer leader epoch, then the further position.
func TestArrange_GrantsSlotToMostAdvancedCopy(t *testing.T) {
	w := one(t, 3)
	at := func(name string, state slot.ReportState, seq, position uint64) slot.Report {
		return slot.Report{Node: node(name), Epoch: epoch(1, seq), State: state, Position: position}
	}
	for _, c := range []struct {
		why     string
		reports []slot.Report
		want    string
	}{
		{"none known: by name", nil, "b"},
		{"further", []slot.Report{at("b", slot.CaughtUp, 1, 7), at("c", slot.CaughtUp, 1, 8)}, "c"},
		{"newer epoch, though less far", []slot.Report{at("b", slot.CaughtUp, 1, 8), at("c", slot.CaughtUp, 2, 1)}, "c"},
		{"complete, though older", []slot.Report{at("b", slot.Following, 2, 9), at("c", slot.CaughtUp, 1, 1)}, "c"},
		{"the only one that reported", []slot.Report{at("c", slot.Following, 1, 1)}, "c"},
	} {
		next, _ := step(t, w, slot.Input{Live: nodes("b", "c"), Replicas: 3, Reports: c.reports})
		assert.Equal(t, node(c.want), next.Slots[0].Leader, c.why)
		assert.Len(t, next.Slots[0].Followers, 1, "the other copy stays")
	}
}

// A forbidden node gets a slot only with the last complete copy, and hands it
// on as soon as it serves.
func TestArrange_GrantsSlotToForbiddenNodeWithLastCompleteCopy(t *testing.T) {
	w := one(t, 3)
	report := func(name string, state slot.ReportState, seq uint64, lag int64) slot.Report {
		return slot.Report{Node: node(name), Epoch: epoch(1, seq), State: state, LagMs: lag, Position: 5}
	}
	for _, c := range []struct {
		why     string
		reports []slot.Report
		want    string
	}{
		{"no allowed copy is complete", []slot.Report{report("b", slot.CaughtUp, 2, 0), report("c", slot.Following, 2, 0)}, "b"},
		{"the allowed copy is of an older leader epoch", []slot.Report{report("b", slot.CaughtUp, 2, 0), report("c", slot.CaughtUp, 1, 0)}, "b"},
		{"the allowed copy has more lag", []slot.Report{report("b", slot.CaughtUp, 2, 400), report("c", slot.CaughtUp, 2, 401+slot.MaxLagMs)}, "b"},
		{"an allowed copy is as good", []slot.Report{report("b", slot.CaughtUp, 2, 0), {Node: node("c"), Epoch: epoch(1, 2), State: slot.CaughtUp, LagMs: slot.MaxLagMs}}, "c"},
		{"it has no complete copy either", []slot.Report{report("b", slot.Following, 2, 0)}, "c"},
	} {
		next, _ := step(t, w, slot.Input{Live: nodes("b", "c"), Forbidden: []string{"b"}, Replicas: 3, Reports: c.reports})
		assert.Equal(t, node(c.want), next.Slots[0].Leader, c.why)
	}

	in := slot.Input{Live: nodes("b", "c"), Forbidden: []string{"b"}, Reports: []slot.Report{report("b", slot.CaughtUp, 1, 0)}}
	w, moves := step(t, one(t, 2), in)
	require.Equal(t, []string{"slot 0 granted a@1 -> b@1 (leader lost, last complete copy)"}, moves)
	in.Reports = []slot.Report{{Node: node("b"), Epoch: w.Epoch, State: slot.Serving}}
	_, moves = step(t, w, in)
	assert.Equal(t, []string{"slot 0 settled  -> b@1 (leader serves)", "slot 0 prepared b@1 -> c@1 (drain)"}, moves, "in one write")
}

// A row whose leader is dead and has no replacement does not change: a node
// that returns with its copy still has its place.
func TestArrange_RowWithoutReplacementStays(t *testing.T) {
	w := one(t, 2)
	dead := slot.Input{Live: nodes("c"), Forbidden: []string{"c"}}
	same, moves := step(t, w, dead)
	assert.Empty(t, moves)
	assert.Equal(t, nodes("b"), same.Slots[0].Followers)
	back := slot.Input{Live: nodes("b", "c"), Forbidden: []string{"b", "c"}, Reports: []slot.Report{{Node: node("b"), Epoch: epoch(1, 1), State: slot.CaughtUp}}}
	_, moves = step(t, same, back)
	assert.Equal(t, []string{"slot 0 granted a@1 -> b@1 (leader lost, last complete copy)"}, moves)
}

// The old leader keeps its copy after a hand-over until a follower has a
// complete one; a follower that is loading does not count.
func TestArrange_SourceStaysUntilFollowerIsComplete(t *testing.T) {
	for _, complete := range []bool{false, true} {
		w := one(t, 2).Clone()
		s := &w.Slots[0]
		s.Phase, s.Source, s.SourceEpoch = slot.Switching, s.Leader, s.LeaderEpoch
		s.Leader, s.LeaderEpoch, s.Followers = node("c"), epoch(1, 2), nodes("b")
		w.Epoch = epoch(1, 2)
		in := slot.Input{Live: nodes("a", "b", "c"), Reports: []slot.Report{{Node: node("c"), Epoch: epoch(1, 2), State: slot.Serving}}}
		if complete {
			in.Reports = append(in.Reports, slot.Report{Node: node("b"), Epoch: epoch(1, 1), State: slot.CaughtUp})
		}
		next, _ := step(t, w, in)
		assert.Equal(t, !complete, next.Slots[0].Holds(node("a")))
		assert.True(t, next.Slots[0].Holds(node("b")))
	}
}

// A follower must not stop while it may become the leader.
func TestDrained_FalseWhileLeaderIsDead(t *testing.T) {
	w, forbidden := table(t, 4, 2, "a", "b"), []string{"b"}
	for i := range w.Slots {
		w.Slots[i].Phase, w.Slots[i].Leader, w.Slots[i].Followers = slot.Stable, node("a"), nodes("b")
	}
	assert.True(t, slot.Drained(w, "b", nodes("a", "b"), forbidden, 2), "no other node could have its copies")
	assert.False(t, slot.Drained(w, "b", nodes("a", "b", "c"), forbidden, 2), "c could")
	assert.True(t, slot.HandedOver(w, "b", nodes("a", "b", "c")), "but nothing is lost without its copies")
	assert.False(t, slot.HandedOver(w, "a", nodes("a", "b", "c")), "it leads")
	assert.False(t, slot.HandedOver(w, "b", nodes("b", "c")), "their leader is dead")
	assert.False(t, slot.Drained(w, "b", nodes("b"), forbidden, 2), "their leader is dead")
	assert.ErrorContains(t, slot.CanDrain(w, "b", nodes("b"), nil), "drain b, which has copies of 4 slots without a leader: no successor: no other data node is up")
	w.Slots[2].Phase = slot.Crash
	assert.False(t, slot.Drained(w, "b", nodes("a", "b"), forbidden, 2), "its leader does not serve yet")
	assert.False(t, slot.HandedOver(w, "b", nodes("a", "b", "c")), "its leader does not serve yet")
}

// Protection: without a complete copy a slot goes only to the newer incarnation of
// the same node.
func TestArrange_FrozenTableMovesOnlyToOwnNode(t *testing.T) {
	w := one(t, 2)
	in := slot.Input{Frozen: true, Live: nodes("b", "c")}
	_, moves := step(t, w, in)
	assert.Empty(t, moves, "a's slot waits, though b has a copy")

	in.Live = append(in.Live, again("a"))
	next, moves := step(t, w, in)
	assert.Equal(t, []string{"slot 0 granted a@1 -> a@2 (leader restarted while frozen)"}, moves)
	assert.Equal(t, slot.Crash, next.Slots[0].Phase)

	in.Reports = []slot.Report{{Node: again("a"), Epoch: next.Epoch, State: slot.Serving}}
	next, moves = step(t, next, in)
	assert.Equal(t, []string{"slot 0 settled  -> a@2 (leader serves)"}, moves, "a hand-over in progress may complete")

	_, moves = step(t, next, slot.Input{Frozen: true, Live: []conclave.NodeID{again("a"), again("b")}})
	assert.Equal(t, []string{"slot 0 rebound b@1 -> b@2 (follower restarted)"}, moves)

	_, moves = step(t, w, slot.Input{Frozen: true, Live: nodes("a", "b", "c"), Forbidden: []string{"a"}})
	assert.Empty(t, moves, "no drain")
	_, moves = step(t, w, slot.Input{Frozen: true, Live: []conclave.NodeID{again("a"), node("b")}, Forbidden: []string{"a"}})
	assert.Empty(t, moves, "not even to its own node, if that is forbidden")
}

// Protection: the slot of a leader that restarted goes to a complete copy in its
// row, and its own node takes the place of the follower.
func TestArrange_FrozenTableKeepsCompleteCopies(t *testing.T) {
	w := one(t, 2)
	complete := []slot.Report{{Node: node("b"), Epoch: w.Slots[0].LeaderEpoch, State: slot.CaughtUp}}
	restarted := []conclave.NodeID{again("a"), node("b"), node("c")}

	_, moves := step(t, w, slot.Input{Frozen: true, Live: nodes("b", "c"), Reports: complete})
	assert.Empty(t, moves, "a may still serve, cut off from the meta leader")

	next, moves := step(t, w, slot.Input{Frozen: true, Live: restarted, Reports: complete})
	assert.Equal(t, []string{"slot 0 granted a@1 -> b@1 (leader lost, best copy)", "slot 0 followed  -> a@2 (leader restarted while frozen)"}, moves)
	assert.Equal(t, []conclave.NodeID{node("b"), again("a")}, next.Slots[0].Holders())

	_, moves = step(t, w, slot.Input{Frozen: true, Live: restarted, Silent: []conclave.NodeID{node("b")}})
	assert.Empty(t, moves, "b has not reported to this meta leader yet")
	_, moves = step(t, w, slot.Input{Frozen: true, Live: []conclave.NodeID{again("a"), node("c")}, Reports: complete})
	assert.Equal(t, []string{"slot 0 granted a@1 -> a@2 (leader restarted while frozen)"}, moves, "b is missing, and a must not wait for it")
	_, moves = step(t, w, slot.Input{Frozen: true, Live: []conclave.NodeID{again("a"), again("b")}, Reports: complete})
	assert.Equal(t, []string{"slot 0 granted a@1 -> a@2 (leader restarted while frozen)", "slot 0 rebound b@1 -> b@2 (follower restarted)"}, moves, "all restarted: no copy is left")

	next, moves = step(t, w, slot.Input{Frozen: true, Live: restarted, Reports: complete, Forbidden: []string{"a"}})
	assert.Equal(t, []string{"slot 0 granted a@1 -> b@1 (leader lost, best copy)"}, moves, "a is given nothing")
	assert.Equal(t, nodes("b"), next.Slots[0].Holders())
	_, moves = step(t, w, slot.Input{Frozen: true, Live: restarted, Reports: complete, Forbidden: []string{"b"}})
	assert.Equal(t, []string{"slot 0 granted a@1 -> b@1 (leader lost, last complete copy)", "slot 0 followed  -> a@2 (leader restarted while frozen)"}, moves)
}

func TestArrange_VersionBaseRisesAboveReportedCounters(t *testing.T) {
	w := one(t, 2)
	for _, c := range []struct{ reported, want int64 }{
		{0, 11 * conclave.VersionBase},                         // only above the stored base
		{50 * conclave.VersionBase, 51 * conclave.VersionBase}, // above the highest reported, even if that is a base
		{1<<52 + 1, 11 * conclave.VersionBase},                 // ignored: it would use up all versions
	} {
		next, _ := step(t, w, slot.Input{Live: nodes("b"), Reports: []slot.Report{{Node: node("a"), Counter: c.reported}}})
		assert.Equal(t, c.want, next.Slots[0].VersionBase)
	}
}

func TestArrange_InvalidInputIsAnError(t *testing.T) {
	w := one(t, 2)
	good := slot.Input{Next: epoch(1, 9), Live: nodes("a", "b"), Replicas: 2}
	for want, spoil := range map[string]func(*slot.Input, *slot.Table){
		"next epoch 1.2 is not newer than the table's 1.2": func(in *slot.Input, _ *slot.Table) { in.Next = epoch(1, 2) },
		"0 replicas: want at least 1":                      func(in *slot.Input, _ *slot.Table) { in.Replicas = 0 },
		"a@1 and a@2 are both live":                        func(in *slot.Input, _ *slot.Table) { in.Live = append(nodes("a"), again("a")) },
		`live node "a@" is not a name and an incarnation`:  func(in *slot.Input, _ *slot.Table) { in.Live = []conclave.NodeID{{Name: "a"}} },
		"want no negative number and a slack below 1":      func(in *slot.Input, _ *slot.Table) { in.Limits.Slack = 1 },
		"invalid slot table: slot 0: no leader":            func(_ *slot.Input, w *slot.Table) { w.Slots[0].Leader = conclave.NodeID{} },
	} {
		in, broken := good, w.Clone()
		spoil(&in, &broken)
		next, moves, err := slot.Arrange(broken, in)
		assert.ErrorContains(t, err, want)
		assert.Empty(t, moves)
		assert.True(t, next.Equal(broken))
	}
}

// Other nodes lead the slots of a live node that most sessions do not hear. It
// keeps its copy.
func TestArrange_UnheardNodeKeepsItsCopyAndDoesNotLead(t *testing.T) {
	caughtUp := []slot.Report{{Node: node("b"), Epoch: epoch(1, 1), State: slot.CaughtUp}}
	unheard := slot.Input{Live: nodes("a", "b", "c"), Unheard: []string{"a"}, Reports: caughtUp}
	w, moves := step(t, one(t, 2), unheard)
	require.Equal(t, []string{"slot 0 granted a@1 -> b@1 (leader unheard, best copy)"}, moves)
	assert.Equal(t, slot.Crash, w.Slots[0].Phase)
	assert.Equal(t, nodes("a"), w.Slots[0].Followers, "its copy may be further: the new leader asks for it")
	unheard.Reports = []slot.Report{{Node: node("b"), Epoch: w.Epoch, State: slot.Serving}, {Node: node("a"), Epoch: w.Epoch, State: slot.CaughtUp}}
	w, moves = step(t, w, unheard)
	assert.Equal(t, []string{"slot 0 settled  -> b@1 (leader serves)"}, moves)
	_, moves = step(t, w, slot.Input{Live: nodes("a", "b", "c"), Unheard: []string{"b"}})
	assert.Equal(t, []string{"slot 0 prepared b@1 -> a@1 (drain)"}, moves, "no copy is known to be complete: the successor loads it first")

	_, moves = step(t, one(t, 2), slot.Input{Live: nodes("a", "b", "c"), Unheard: []string{"a"}, Reports: caughtUp, Frozen: true})
	assert.Empty(t, moves)
	_, moves = step(t, one(t, 3), slot.Input{Live: nodes("b", "c"), Unheard: []string{"b"}, Replicas: 3, Reports: append(caughtUp, slot.Report{Node: node("c"), Epoch: epoch(1, 1), State: slot.CaughtUp})})
	assert.Contains(t, moves[0], "granted a@1 -> c@1")
	_, moves = step(t, one(t, 3), slot.Input{Live: nodes("b", "c"), Unheard: []string{"c"}, Forbidden: []string{"b"}, Replicas: 3, Reports: append(caughtUp, slot.Report{Node: node("c"), Epoch: epoch(1, 1), State: slot.CaughtUp})})
	assert.Contains(t, moves[0], "granted a@1 -> c@1", "a forbidden node gets only the last complete copy")
	preparing, _ := step(t, one(t, 2), slot.Input{Live: nodes("a", "b", "c"), Forbidden: []string{"a"}})
	_, moves = step(t, preparing, slot.Input{Live: nodes("a", "b", "c"), Unheard: []string{"b"}, Reports: caughtUp})
	assert.Equal(t, "slot 0 abandoned b@1 -> a@1 (successor unheard)", moves[0])
}

// A node that was unheard leads again when it is heard.
func TestArrange_HeardNodeLeadsAgain(t *testing.T) {
	w := table(t, 2, 2, "a", "b")
	in := slot.Input{Live: nodes("a", "b"), Unheard: []string{"a"}}
	// until lets the nodes report until nothing moves, and returns the leaders.
	until := func() (leaders []string) {
		for range 10 {
			in.Reports = answers(w)
			var moves []string
			if w, moves = step(t, w, in); len(moves) == 0 {
				break
			}
		}
		for _, s := range w.Slots {
			require.Equal(t, slot.Stable, s.Phase)
			leaders = append(leaders, s.Leader.Name)
		}
		return leaders
	}
	require.Equal(t, []string{"b", "b"}, until())
	in.Unheard = nil
	assert.ElementsMatch(t, []string{"a", "b"}, until())
}

// An unheard node leads the fewest slots. It is given none for that, as long as a
// node is heard.
func TestArrange_UnheardNodeIsNoReplacement(t *testing.T) {
	for _, c := range []struct {
		why      string
		replicas int
		in       slot.Input
		move     string
	}{
		{"no copy left", 1, slot.Input{Live: nodes("b", "c"), Unheard: []string{"b"}}, "slot 0 granted a@1 -> c@1 (leader lost, no copy left)"},
		{"no copy left", 1, slot.Input{Live: nodes("b", "c"), Unheard: []string{"c"}}, "slot 0 granted a@1 -> b@1 (leader lost, no copy left)"},
		{"both are loading", 3, slot.Input{Live: nodes("b", "c"), Unheard: []string{"b"}}, "slot 0 granted a@1 -> c@1 (leader lost, best copy)"},
		{"it is loading, the other has no copy", 2, slot.Input{Live: nodes("b", "c"), Unheard: []string{"b"}}, "slot 0 granted a@1 -> c@1 (leader lost, no copy left)"},
		{"all are unheard, one is loading", 2, slot.Input{Live: nodes("b", "c"), Unheard: []string{"b", "c"}}, "slot 0 granted a@1 -> b@1 (leader lost, best copy)"},
		{"the other is forbidden", 1, slot.Input{Live: nodes("b", "c"), Unheard: []string{"b"}, Forbidden: []string{"c"}}, "slot 0 granted a@1 -> b@1 (leader lost, no copy left)"},
	} {
		c.in.Replicas = c.replicas
		next, moves := step(t, one(t, c.replicas), c.in)
		require.NotEmpty(t, moves, c.why)
		assert.Equal(t, c.move, moves[0], c.why)
		for _, n := range one(t, c.replicas).Slots[0].Followers {
			assert.True(t, next.Slots[0].Holds(n), "%s: %s stays in the row", c.why, n)
		}
	}
}

func TestNew_UnheardNodeOnlyFollows(t *testing.T) {
	in := slot.Input{Next: epoch(1, 1), Live: nodes("a", "b", "c"), Unheard: []string{"a"}, Replicas: 2}
	w, err := slot.New(8, in)
	require.NoError(t, err)
	require.NoError(t, w.Validate())
	assert.Empty(t, w.LedBy(in.Live[0]))
	assert.Len(t, w.LedBy(in.Live[1]), 4)
	assert.Len(t, w.LedBy(in.Live[2]), 4)
	assert.NotEmpty(t, w.HeldBy(in.Live[0]))
	in.Unheard = []string{"a", "b", "c"}
	w, err = slot.New(8, in)
	require.NoError(t, err)
	assert.True(t, w.Even(in.Live), "nothing is better than another")
}
