package slot_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave"
	"conclave/slot"
)

// world is a cluster of data nodes that do what the table asks, and a meta
// leader that arranges. The property tests apply faults to it.
type world struct {
	t        *rapid.T
	table    slot.Table
	term     uint64
	seq      uint64
	slots    int
	replicas int
	limits   slot.Limits
	frozen   bool

	nodes     map[string]*dataNode // every name that ever joined
	starts    int                  // incarnations started
	forbidden map[string]bool
	unheard   map[string]bool
	reported  map[conclave.NodeID][]slot.Report // from each node's newest heartbeat
	late      []beat                            // heartbeats in transit
	handBacks map[int]int                       // by slot: grants to forbidden nodes since calm began; nil before
}

type beat struct {
	from    conclave.NodeID
	reports []slot.Report
}

// dataNode does what the tables that it receives ask of it.
type dataNode struct {
	id    conclave.NodeID
	up    bool
	seen  slot.Table
	state map[int]copyState
}

type copyState struct {
	epoch conclave.Epoch   // at which it leads or has finished, or that it follows
	state slot.ReportState // "": it follows
	copy  conclave.Epoch   // the copy is complete as of this leader epoch; zero: not complete
	// Only the order of positions and counters matters.
	position uint64
	counter  int64
}

func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, term: 1,
		slots:     1 << rapid.IntRange(0, 5).Draw(t, "slots as a power of two"),
		replicas:  rapid.IntRange(1, 3).Draw(t, "replicas"),
		nodes:     make(map[string]*dataNode),
		forbidden: make(map[string]bool),
		unheard:   make(map[string]bool),
		reported:  make(map[conclave.NodeID][]slot.Report),
	}
	w.limits = rapid.SampledFrom([]slot.Limits{{}, {LeaderMoves: 1, FollowerMoves: 1, Drains: 1}, {LeaderMoves: 3, FollowerMoves: 2, Drains: 4}}).Draw(t, "limits")
	for i := range rapid.IntRange(1, 4).Draw(t, "nodes at first") {
		w.start(fmt.Sprintf("data-%d", i+1))
	}
	table, err := slot.New(w.slots, w.input())
	require.NoError(t, err)
	w.table = table
	w.check(slot.Table{}, w.input())
	w.seq++
	return w
}

func (w *world) start(name string) {
	w.starts++
	w.nodes[name] = &dataNode{
		id: conclave.NodeID{Name: name, Incarnation: fmt.Sprintf("i%d", w.starts)},
		up: true, state: make(map[int]copyState),
	}
}

func (w *world) live() []conclave.NodeID {
	var live []conclave.NodeID
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		if n := w.nodes[name]; n.up {
			live = append(live, n.id)
		}
	}
	return live
}

func (w *world) open() []conclave.NodeID {
	return slices.DeleteFunc(w.live(), func(n conclave.NodeID) bool { return w.forbidden[n.Name] })
}

func (w *world) up(id conclave.NodeID) bool { return slices.Contains(w.live(), id) }

func (w *world) mayHold(id conclave.NodeID) bool { return slices.Contains(w.open(), id) }

func (w *world) mayLead(id conclave.NodeID) bool { return w.mayHold(id) && !w.unheard[id.Name] }

func (w *world) names(up bool) []string {
	var names []string
	for name, n := range w.nodes {
		if n.up == up {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (w *world) input() slot.Input {
	in := slot.Input{
		Next: conclave.Epoch{Term: w.term, Seq: w.seq + 1}, Live: w.live(),
		Forbidden: slices.Sorted(maps.Keys(w.forbidden)),
		Unheard:   slices.Sorted(maps.Keys(w.unheard)),
		Replicas:  w.replicas, Frozen: w.frozen, FloorBase: 5 * conclave.VersionBase, Limits: w.limits,
	}
	for _, id := range w.live() {
		if _, reported := w.reported[id]; !reported {
			in.Silent = append(in.Silent, id)
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(w.reported), conclave.NodeID.Compare) {
		in.Reports = append(in.Reports, w.reported[id]...)
	}
	return in
}

// arrange is one round of the meta leader: arrange, check, write. It reports
// whether anything moved.
func (w *world) arrange() (moved bool) {
	in := w.input()
	before := w.table.Clone()
	next, moves, err := slot.Arrange(w.table, in)
	require.NoError(w.t, err)
	require.True(w.t, before.Equal(w.table), "Arrange changed its argument")

	again, movesAgain, err := slot.Arrange(w.table, w.shuffled(in))
	require.NoError(w.t, err)
	require.Equal(w.t, next, again, "the same input in another order made another table")
	require.Equal(w.t, moves, movesAgain)

	if len(moves) == 0 {
		require.True(w.t, next.Equal(before), "a table changed without a move")
		return false
	}
	w.seq++
	w.table = next
	w.check(before, in)
	w.checkMoves(before, in, moves)
	return true
}

// shuffled returns the same input in another order. The order of a node's
// reports about different slots has no meaning either.
func (w *world) shuffled(in slot.Input) slot.Input {
	in.Live, in.Silent, in.Forbidden, in.Reports = slices.Clone(in.Live), slices.Clone(in.Silent), slices.Clone(in.Forbidden), slices.Clone(in.Reports)
	in.Unheard = slices.Clone(in.Unheard)
	slices.Reverse(in.Unheard)
	slices.Reverse(in.Silent)
	slices.Reverse(in.Live)
	slices.Reverse(in.Forbidden)
	slices.Reverse(in.Reports)
	return in
}

// deliver sends the present table to a node, which takes its places in it as
// package data does: a copy stays complete as of the epoch at which it was
// built until the snapshot of another epoch has arrived.
func (w *world) deliver(n *dataNode) {
	n.seen = w.table
	for _, s := range n.seen.Slots {
		c := n.state[s.ID]
		leads := c.state == slot.Serving || c.state == slot.Migrating
		switch {
		case s.Leader == n.id && c.epoch == s.LeaderEpoch && leads:
			continue
		case s.Leader == n.id:
			c = copyState{epoch: s.LeaderEpoch, state: slot.Migrating, copy: c.copy, position: c.position, counter: max(c.counter, s.VersionBase)}
		case s.Source == n.id:
			c.state, c.epoch = slot.Finished, s.SourceEpoch
		case s.Holds(n.id) && c.state == "" && c.epoch == s.LeaderEpoch:
			continue
		case s.Holds(n.id), s.Phase == slot.Crash, s.Phase == slot.Switching:
			c.state, c.epoch = "", s.LeaderEpoch
			if !s.Holds(n.id) {
				c.epoch = conclave.Epoch{}
			}
		default:
			delete(n.state, s.ID)
			continue
		}
		n.state[s.ID] = c
	}
}

// work lets a node finish what it is doing in the slots for which pick returns
// true.
func (w *world) work(n *dataNode, pick func(slot int) bool) {
	for id := range w.slots {
		c, have := n.state[id]
		if !have || !pick(id) {
			continue
		}
		switch c.state {
		case slot.Migrating:
			c.state, c.copy = slot.Serving, c.epoch
		case "":
			leader := n.seen.Slots[id].Leader
			if l := w.nodes[leader.Name]; l.id != leader || !l.up || l.state[id].state != slot.Serving || l.state[id].epoch != c.epoch {
				continue // no leader to load from
			}
			c.copy = c.epoch
		}
		c.position++
		c.counter++
		n.state[id] = c
	}
}

// reports returns what the node's heartbeat carries.
func (n *dataNode) reports() []slot.Report {
	rs := []slot.Report{}
	for _, id := range slices.Sorted(maps.Keys(n.state)) {
		c := n.state[id]
		r := slot.Report{Node: n.id, Slot: id, Epoch: c.epoch, State: c.state, Position: c.position, Counter: c.counter}
		switch {
		case c.state != "":
		case !c.copy.IsZero():
			r.State, r.Epoch = slot.CaughtUp, c.copy
		default:
			r.State = slot.Following
		}
		rs = append(rs, r)
	}
	return rs
}

// settle lets every live node work and report until nothing moves any more.
func (w *world) settle() {
	for round := range 200 + 20*w.slots {
		for _, id := range w.live() {
			w.deliver(w.nodes[id.Name])
		}
		for _, id := range w.live() {
			w.work(w.nodes[id.Name], func(int) bool { return true })
		}
		for _, id := range w.live() { // followers of leaders that have only just begun to serve
			w.work(w.nodes[id.Name], func(int) bool { return true })
			w.reported[id] = w.nodes[id.Name].reports()
		}
		if !w.arrange() {
			w.t.Logf("settled after %d rounds", round)
			return
		}
	}
	w.t.Fatalf("the moves do not end: %+v", w.table)
}

// check checks what must hold for every table that follows another.
func (w *world) check(old slot.Table, in slot.Input) {
	t, next := w.t, w.table
	require.NoError(t, next.Validate(), "no slot without leader, no leader among its followers, fitting phases")
	require.NoError(t, slot.Monotone(old, next), "epochs only rise")
	require.Equal(t, in.Next, next.Epoch)
	if len(old.Slots) == 0 {
		for _, s := range next.Slots {
			for _, n := range s.Holders() {
				require.True(t, w.mayHold(n), "a new table gives slot %d to %s", s.ID, n)
			}
		}
		return
	}
	for i, s := range next.Slots {
		o := old.Slots[i]
		require.Equal(t, o.Leader != s.Leader, o.LeaderEpoch != s.LeaderEpoch, "slot %d: leader epoch changes exactly when the leader does: %+v -> %+v", i, o, s)
		if s.Leader != o.Leader {
			w.checkGrant(o, s, in)
		}
		if !s.Successor.IsZero() {
			// The row of a dead leader stays as it is until there is a replacement.
			waits := !w.up(s.Leader)
			require.True(t, in.Frozen || waits || w.mayLead(s.Successor), "slot %d: successor %s may not lead", i, s.Successor)
		}
		for _, n := range s.Holders() {
			require.True(t, o.Holds(n) || w.mayHold(n), "slot %d: %s, which is dead or forbidden, was given a copy", i, n)
		}
		if o.Phase == slot.Switching && s.Leader == o.Leader && s.Phase == slot.Switching {
			require.Equal(t, o.Source, s.Source, "slot %d: the source left before the new leader served", i)
		}
		serving := s.Phase == slot.Stable || s.Phase == slot.Preparing
		if serving && (o.Phase == slot.Switching || o.Phase == slot.Crash) {
			require.True(t, slices.ContainsFunc(in.Reports, func(r slot.Report) bool {
				return r.Slot == i && r.Node == s.Leader && r.Epoch == s.LeaderEpoch && r.State == slot.Serving
			}), "slot %d: %s though its leader has not reported that it serves", i, s.Phase)
		}
		w.checkCopies(o, s, in)
	}
}

func (w *world) checkGrant(o, s slot.Slot, in slot.Input) {
	t := w.t
	require.True(t, w.up(s.Leader), "slot %d was given to %s, which is dead", s.ID, s.Leader)
	require.Equal(t, in.Next, s.LeaderEpoch)
	require.Greater(t, s.VersionBase, o.VersionBase)
	for _, r := range in.Reports {
		require.False(t, r.Slot == s.ID && r.Counter >= s.VersionBase, "slot %d: version base %d is not above the reported %d", s.ID, s.VersionBase, r.Counter)
	}
	switch s.Phase {
	case slot.Crash:
		if w.up(o.Leader) {
			require.True(t, w.unheard[o.Leader.Name] && !in.Frozen, "slot %d was taken from %s, which is alive and heard, as crash", s.ID, o.Leader)
			require.True(t, w.mayLead(s.Leader), "slot %d was taken from %s, which is unheard, and given to %s", s.ID, o.Leader, s.Leader)
		}
		if in.Frozen {
			w.checkFrozen(o, s)
		}
		for _, n := range o.Holders() {
			require.True(t, !w.up(n) || s.Holds(n), "slot %d: the live copy on %s was dropped in a crash", s.ID, n)
		}
		w.checkReplacement(o, s, in)
	case slot.Switching:
		require.True(t, w.mayLead(s.Leader), "slot %d was handed to %s, which is forbidden or unheard", s.ID, s.Leader)
		require.False(t, in.Frozen, "slot %d moved while frozen", s.ID)
		require.Equal(t, o.Successor, s.Leader)
		require.Equal(t, o.Leader, s.Source)
		require.Equal(t, o.LeaderEpoch, s.SourceEpoch)
		require.True(t, w.reportedCaughtUp(o, s.Leader, in), "slot %d: switched to %s, which has not reported that it caught up", s.ID, s.Leader)
	default:
		require.Fail(t, "a leader changed into phase "+string(s.Phase))
	}
}

// checkFrozen checks that a frozen slot is granted only when its leader's node is
// back as another incarnation, that it stays with the nodes of its row, and that
// the leader's node is one of them unless it is forbidden.
func (w *world) checkFrozen(o, s slot.Slot) {
	back := slices.ContainsFunc(w.live(), func(n conclave.NodeID) bool { return n.Name == o.Leader.Name && n != o.Leader })
	require.True(w.t, back, "slot %d was taken from %s, which is only missing, while frozen", s.ID, o.Leader)
	for _, n := range s.Holders() {
		require.True(w.t, o.Names(n.Name), "slot %d was given to %s, which is not in its row, while frozen", s.ID, n)
	}
	require.True(w.t, s.Names(o.Leader.Name) || w.forbidden[o.Leader.Name], "slot %d: %s lost its place while frozen", s.ID, o.Leader)
}

// checkReplacement checks that the slot of a dead leader goes to one of the
// live complete copies of the newest epoch, to an unheard node only if no node
// that may lead has one, and to a forbidden node only if no allowed node has
// one. If no copy is complete, the slot must wait for the holders that have not
// reported yet, and must not go to a forbidden node, nor to an unheard one if
// another may lead. The slot of an unheard leader goes to a complete copy on a
// node that may lead.
func (w *world) checkReplacement(o, s slot.Slot, in slot.Input) {
	t := w.t
	holders := slices.DeleteFunc(o.Holders()[1:], func(n conclave.NodeID) bool { return !w.up(n) || w.up(o.Leader) && !w.mayLead(n) })
	complete := make(map[conclave.NodeID]conclave.Epoch)
	var newest conclave.Epoch
	for _, r := range in.Reports {
		if slices.Contains(holders, r.Node) && r.Slot == s.ID && (r.State == slot.CaughtUp || r.State == slot.Finished || r.State == slot.Serving) {
			complete[r.Node] = r.Epoch
			if newest.Less(r.Epoch) {
				newest = r.Epoch
			}
		}
	}
	require.True(t, len(complete) > 0 || !w.up(o.Leader), "slot %d was taken from %s, though no copy is complete", s.ID, o.Leader)
	if len(complete) > 0 {
		require.Equal(t, newest, complete[s.Leader], "slot %d went to %s, though these copies are complete: %v", s.ID, s.Leader, complete)
		for n, epoch := range complete {
			require.False(t, epoch == newest && w.mayHold(n) && !w.mayHold(s.Leader), "slot %d went to %s, which is forbidden, though %s is complete too", s.ID, s.Leader, n)
			require.False(t, epoch == newest && w.mayLead(n) && !w.mayLead(s.Leader), "slot %d went to %s, which is unheard, though %s is complete too", s.ID, s.Leader, n)
		}
		if w.handBacks != nil && !w.mayHold(s.Leader) {
			w.handBacks[s.ID]++
			require.Equal(t, 1, w.handBacks[s.ID], "slot %d went to a forbidden node again, though nothing died since", s.ID)
		}
		return
	}
	require.True(t, w.mayHold(s.Leader), "slot %d went to %s, which is forbidden, and has no complete copy", s.ID, s.Leader)
	for _, n := range holders {
		require.NotContains(t, in.Silent, n, "slot %d went to %s before %s had reported", s.ID, s.Leader, n)
	}
	if in.Frozen {
		require.Equal(t, o.Leader.Name, s.Leader.Name, "slot %d moved to a copy that is not complete while frozen", s.ID)
		return
	}
	may := w.mayHold
	if slices.ContainsFunc(w.open(), w.mayLead) {
		may = w.mayLead
		require.True(t, may(s.Leader), "slot %d went to %s, which is unheard, and has no complete copy", s.ID, s.Leader)
	}
	open := slices.DeleteFunc(holders, func(n conclave.NodeID) bool { return !may(n) })
	require.True(t, len(open) == 0 || slices.Contains(open, s.Leader), "slot %d went to %s, though %v have begun to load it", s.ID, s.Leader, open)
}

// checkCopies checks that a live follower leaves only when enough allowed
// others have caught up.
func (w *world) checkCopies(o, s slot.Slot, in slot.Input) {
	if o.Phase != slot.Stable {
		return
	}
	for _, f := range o.Followers {
		if !w.up(f) || s.Holds(f) {
			continue
		}
		enough := 0
		for _, n := range s.Holders()[1:] {
			if w.mayHold(n) && w.reportedCaughtUp(s, n, in) {
				enough++
			}
		}
		require.GreaterOrEqual(w.t, enough, w.replicas-1, "slot %d: follower %s left too early", s.ID, f)
	}
}

func (w *world) reportedCaughtUp(s slot.Slot, n conclave.NodeID, in slot.Input) bool {
	return slices.ContainsFunc(in.Reports, func(r slot.Report) bool {
		return r.Slot == s.ID && r.Node == n && r.Epoch == s.LeaderEpoch && r.State == slot.CaughtUp
	})
}

// checkMoves checks that every changed row has a move, and that a write starts
// no more than the limits allow.
func (w *world) checkMoves(old slot.Table, in slot.Input, moves []slot.Move) {
	l := in.Limits
	if (l == slot.Limits{}) {
		l = slot.DefaultLimits()
	}
	moved := make(map[int]bool)
	leaders, followers, drains := 0, 0, 0
	for _, m := range moves {
		moved[m.Slot] = true
		switch {
		case m.Kind == slot.Prepared && m.Why == "balance":
			leaders++
		case m.Kind == slot.Prepared:
			drains++
		case m.Kind == slot.Followed && m.Why == "balance":
			followers++
		}
	}
	inProgress := 0
	for i, s := range w.table.Slots {
		require.Equal(w.t, !s.Equal(old.Slots[i]), moved[i], "slot %d: moves and changes differ", i)
		if s.Phase == slot.Preparing || s.Phase == slot.Switching {
			inProgress++
		}
	}
	require.LessOrEqual(w.t, leaders, l.LeaderMoves)
	require.LessOrEqual(w.t, followers, l.FollowerMoves)
	if drains > 0 {
		require.LessOrEqual(w.t, inProgress, l.Drains)
	}
	require.False(w.t, leaders > 0 && followers > 0, "followers are balanced before leaders are even")
	if leaders+followers > 0 {
		require.Equal(w.t, leaders, inProgress, "balancing while something is not stable")
	}
}
