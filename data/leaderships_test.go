package data

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave"
	"conclave/data/store"
	"conclave/internal/signal"
	"conclave/meta/metaclient"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// leaderships drives the state machines of three data nodes, without a network,
// through leaderships of one slot: hand-overs, crashes, feeds, writes, and
// diffs that are answered, and whose answers arrive, at any later time.
type leaderships struct {
	t          *rapid.T
	nodes      []*leadershipNode
	row        slot.Slot
	registered map[conclave.NodeID]map[string]*wirev1.Publisher // the sessions' registrations, by owner and registration id
	fence      map[conclave.NodeID]conclave.Epoch               // the newest epoch that a session has written to
	diffs      []*openDiff
	now        time.Time

	handed  map[string][]store.Copy // what the source had at its Finish, by registration id
	written map[string]bool         // since the last grant
}

var (
	testOwners = []conclave.NodeID{{Name: "session-1", Incarnation: "a"}, {Name: "session-1", Incarnation: "b"}, {Name: "session-2", Incarnation: "c"}}
	testData   = conclave.DataInfoID{DataID: "x", Instance: conclave.DefaultInstance, Group: conclave.DefaultGroup}
	testIDs    = []string{"r1", "r2", "r3"}
)

type leadershipNode struct {
	*Server
	id     conclave.NodeID
	r      *replica
	row    slot.Slot // as this node knows it
	stream *feedStream
	source *replica // of the open feed
	at     *feedSlot
	leader conclave.NodeID
	epoch  conclave.Epoch
}

// openDiff is a diff whose answer has not arrived.
type openDiff struct {
	node     *leadershipNode
	job      diffJob
	req      *wirev1.DiffRequest
	held     []store.Copy
	f        *store.PendingMerge
	answer   *wirev1.DiffResponse
	answered bool
}

func newLeaderships(t *rapid.T) *leaderships {
	w := &leaderships{t: t, registered: map[conclave.NodeID]map[string]*wirev1.Publisher{}, fence: map[conclave.NodeID]conclave.Epoch{}, now: time.Now()}
	for i := range 3 {
		c := DefaultConfig()
		c.Node = conclave.NodeID{Name: fmt.Sprintf("data-%d", i+1), Incarnation: "i"}
		c.Listen, c.Metas, c.Insecure, c.Rand = c.Node.Name+":9622", []string{"meta-1:9612"}, true, rand.New(rand.NewPCG(1, uint64(i)))
		c.FinishTimeout = time.Hour
		s, err := New(c)
		require.NoError(t, err)
		s.meta = metaclient.New(metaclient.Config{Rand: rand.New(rand.NewPCG(2, uint64(i)))})
		r := &replica{id: 0, grace: c.SessionGrace, watchers: &s.service.feeds.watchers}
		list := []*replica{r}
		s.replicas.set(list)
		w.nodes = append(w.nodes, &leadershipNode{Server: s, id: c.Node, r: r, stream: &feedStream{wake: signal.New(), dirty: map[int]bool{}}})
	}
	for _, o := range testOwners {
		w.registered[o] = map[string]*wirev1.Publisher{}
	}
	w.grant(slot.Slot{Phase: slot.Crash, Leader: w.nodes[0].id})
	w.deliver(w.nodes[0])
	return w
}

func (w *leaderships) of(id conclave.NodeID) *leadershipNode {
	i := slices.IndexFunc(w.nodes, func(n *leadershipNode) bool { return n.id == id })
	if i < 0 {
		return nil
	}
	return w.nodes[i]
}

// grant writes a row with a new leader epoch.
func (w *leaderships) grant(row slot.Slot) {
	row.LeaderEpoch = conclave.Epoch{Term: 1, Seq: w.row.LeaderEpoch.Seq + 1}
	w.row, w.handed, w.written = row, nil, map[string]bool{}
	for _, n := range w.nodes {
		if n.id != row.Leader && n.id != row.Source {
			w.row.Followers = append(w.row.Followers, n.id)
		}
	}
}

// deliver gives a node the newest row.
func (w *leaderships) deliver(n *leadershipNode) {
	if !n.row.Equal(w.row) {
		n.row = w.row
		n.slots.step(w.row, n.r, w.now)
	}
}

func (w *leaderships) leads() (*leadershipNode, *replica) {
	n := w.of(w.row.Leader)
	if n.r.leads() && n.r.epoch == w.row.LeaderEpoch {
		return n, n.r
	}
	return nil, nil
}

// write changes what a session has and writes it to a node that leads.
func (w *leaderships) write(n *leadershipNode, owner conclave.NodeID, id string, gone bool) {
	if !n.r.leads() || n.r.epoch.Less(w.fence[owner]) {
		return
	}
	w.fence[owner] = n.r.epoch
	b := &wirev1.SlotBatch{LeaderEpoch: wire.EpochOut(n.r.epoch)}
	old, has := w.registered[owner][id]
	switch {
	case gone && has:
		b.Removals = []*wirev1.Removal{{Id: id, DataInfoId: testData.String(), Version: old.Version, Cause: wirev1.Cause_CAUSE_WITHDRAWN}}
		delete(w.registered[owner], id)
	default:
		version := int64(1)
		for _, o := range testOwners {
			version = max(version, w.registered[o][id].GetVersion()+1)
		}
		p := &wirev1.Publisher{Id: id, DataInfoId: testData.String(), Version: version, Values: []string{fmt.Sprintf("%s=%d", id, version)}}
		w.registered[owner][id] = p
		b.Puts = []*wirev1.Publisher{p}
	}
	access, _, _ := n.r.write(owner, 0, b, w.now)
	require.Equal(w.t, wirev1.Access_ACCESS_ACCEPT, access)
	if n.id == w.row.Leader && n.r.epoch == w.row.LeaderEpoch {
		w.written[id] = true
	}
}

// ask begins a diff at a leader.
func (w *leaderships) ask(n *leadershipNode, owner conclave.NodeID, summarize bool) {
	awaited := n.r.state == slot.Migrating
	if m := n.slots.running[0]; awaited && m != nil && m.phase != asking {
		return
	}
	d := &openDiff{node: n, job: diffJob{r: n.r, epoch: n.r.epoch, session: owner, awaited: awaited}}
	var ok bool
	if d.req, d.held, d.f, ok = n.differ.request(d.job, summarize); ok {
		w.diffs = append(w.diffs, d)
	}
}

// answer computes the session's answer to an open diff.
func (w *leaderships) answer(d *openDiff) {
	if d.answered || d.job.epoch.Less(w.fence[d.job.session]) {
		return
	}
	w.fence[d.job.session] = d.job.epoch
	d.answered, d.answer = true, &wirev1.DiffResponse{Session: wire.NodeOut(d.job.session)}
	if !d.req.GetSummarized() {
		d.answer.Summarize = true
		return
	}
	theirs := map[string]int64{}
	mine := w.registered[d.job.session]
	for _, e := range d.req.GetEntries() {
		theirs[e.GetId()] = e.GetVersion()
		if _, ok := mine[e.GetId()]; !ok {
			d.answer.Removed = append(d.answer.Removed, e)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(mine)) {
		if theirs[id] < mine[id].Version {
			d.answer.Puts = append(d.answer.Puts, mine[id])
		}
	}
}

// arrive delivers the answer to a diff, or its failure.
func (w *leaderships) arrive(i int) {
	d := w.diffs[i]
	w.diffs = slices.Delete(w.diffs, i, i+1)
	if !d.answered {
		d.node.r.abandon(d.f)
		return
	}
	_, _, _, _ = d.node.differ.apply(d.job, d.f, d.held, d.answer)
}

// finish sends Finish to the source of a hand-over, as its successor does.
func (w *leaderships) finish(n *leadershipNode) {
	m := n.slots.running[0]
	if m == nil || m.phase != finishing {
		return
	}
	source := w.of(m.source)
	res, err := source.service.Finish(w.t.Context(), connect.NewRequest(&wirev1.FinishRequest{
		Successor: wire.NodeOut(n.id), Slots: []*wirev1.FinishSlot{{LeaderEpoch: wire.EpochOut(m.epoch)}},
	}))
	require.NoError(w.t, err)
	if res.Msg.GetSlots()[0].GetAccess() == wirev1.Access_ACCESS_ACCEPT {
		w.handed = byID(source.r.store)
	}
	n.slots.finished(m, res.Msg.GetSlots()[0], nil)
}

// carryOn runs a node's loop once, and checks that a slot which was handed over
// is served with everything that its source had.
func (w *leaderships) carryOn(n *leadershipNode) {
	m := n.slots.running[0]
	n.slots.round(w.now)
	if m == nil || m.phase != applying || n.r.state != slot.Serving || m.epoch != w.row.LeaderEpoch {
		return
	}
	served := byID(n.r.store)
	for id := range w.written {
		delete(served, id)
		delete(w.handed, id)
	}
	assert.Equal(w.t, w.handed, served, "what %s serves, except for what was written to it, is what %s had", n.id.Name, m.source.Name)
}

func byID(s *store.Store) map[string][]store.Copy {
	out := map[string][]store.Copy{}
	for _, c := range s.All() {
		out[c.ID] = append(out[c.ID], c)
	}
	return out
}

// pull transfers the feed from the leader that a node follows; the stream may
// break.
func (w *leaderships) pull(n *leadershipNode, breaks bool) {
	if n.r.leader.IsZero() {
		return
	}
	if n.at == nil || n.leader != n.r.leader || n.epoch != n.r.leaderEpoch || n.at.sent != n.r.resume(n.r.leaderEpoch) {
		w.hangUp(n)
		n.leader, n.epoch, n.source = n.r.leader, n.r.leaderEpoch, w.of(n.r.leader).r
		n.at = &feedSlot{epoch: n.epoch, sent: n.r.resume(n.epoch)}
		n.source.mu.Lock()
		n.source.attach(n.stream, 0)
		n.source.mu.Unlock()
	}
	for more := true; more; {
		var events []*wirev1.ReplicateEvent
		var gone bool
		events, more, gone = n.source.next(n.stream, n.at)
		if breaks {
			w.hangUp(n)
			return
		}
		for _, e := range events {
			_, _, _ = n.r.feed(n.leader, e, w.now)
		}
		if gone {
			w.hangUp(n)
			return
		}
	}
}

func (w *leaderships) hangUp(n *leadershipNode) {
	if n.at == nil {
		return
	}
	w.of(n.leader).service.detach(n.stream, 0)
	n.replicas.detach(n.leader)
	n.at = nil
}

// check checks what must hold at all times.
func (w *leaderships) check(t *rapid.T) {
	for _, n := range w.nodes {
		r := n.r
		if r.store != nil && !r.leads() {
			assert.False(t, r.store.Pending(), "%s does not lead: it has no pending merge", n.id.Name)
			assert.Nil(t, r.takeover, n.id.Name)
		}
		if r.state != "" || r.leader.IsZero() || r.leaderEpoch != r.copyEpoch {
			continue
		}
		l := w.of(r.leader).r
		if led := l.state == slot.Serving || l.state == slot.Finished; led && l.epoch == r.copyEpoch && l.store.Position() == r.copyPosition {
			assert.Equal(t, l.store.All(), r.store.All(), "%s has all of %s up to %d", n.id.Name, r.leader.Name, r.copyPosition)
		}
	}
	for owner := range w.registered {
		for _, n := range w.nodes {
			if n.r.store != nil {
				count, _ := n.r.store.Digest(owner)
				assert.Len(t, n.r.store.Of(owner), int(count))
			}
		}
	}
}

// Whatever is pending when a leadership of the slot ends, in whichever way: a
// copy that follows a feed up to a position equals the leader's at that
// position, and what is handed over is what is served.
func TestPendingMerge_NeverOutlivesItsLeadership(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newLeaderships(t)
		node := func(t *rapid.T) *leadershipNode { return w.nodes[rapid.IntRange(0, len(w.nodes)-1).Draw(t, "node")] }
		owner := func(t *rapid.T) conclave.NodeID { return rapid.SampledFrom(testOwners).Draw(t, "owner") }
		diff := func(t *rapid.T) int {
			if len(w.diffs) == 0 {
				t.Skip("no diff is open")
			}
			return rapid.IntRange(0, len(w.diffs)-1).Draw(t, "diff")
		}
		settle := func() {
			for range 3 {
				for _, n := range w.nodes {
					w.deliver(n)
					w.finish(n)
					w.pull(n, false)
					w.carryOn(n)
				}
			}
		}
		// handOver is chosen often enough that a run has several.
		handOver := func(t *rapid.T) {
			n, r := w.leads()
			if n == nil || r.state != slot.Serving {
				t.Skip("nothing to hand over")
			}
			to := node(t)
			if to == n || to.r.copyEpoch != r.epoch {
				t.Skip("no successor")
			}
			w.grant(slot.Slot{Phase: slot.Switching, Leader: to.id, Source: n.id, SourceEpoch: r.epoch})
		}
		write := func(t *rapid.T) {
			w.write(node(t), owner(t), rapid.SampledFrom(testIDs).Draw(t, "id"), rapid.Bool().Draw(t, "gone"))
		}
		t.Repeat(map[string]func(*rapid.T){
			"write":       write,
			"write again": write,
			"hand over":   handOver,
			"hand over and settle": func(t *rapid.T) {
				settle()
				handOver(t)
				write(t)
				settle()
			},
			"crash": func(t *rapid.T) {
				w.grant(slot.Slot{Phase: slot.Crash, Leader: node(t).id})
			},
			"stable": func(t *rapid.T) {
				n, r := w.leads()
				if n == nil || r.state != slot.Serving || w.row.Phase == slot.Stable {
					t.Skip("not served")
				}
				w.row.Phase, w.row.Source, w.row.SourceEpoch, w.row.Followers = slot.Stable, conclave.NodeID{}, conclave.Epoch{}, nil
				dropped := rapid.IntRange(0, 9).Draw(t, "dropped") // a node that holds no copy any more, if below 3
				for i, f := range w.nodes {
					if f != n && i != dropped {
						w.row.Followers = append(w.row.Followers, f.id)
					}
				}
			},
			"deliver": func(t *rapid.T) { w.deliver(node(t)) },
			"finish":  func(t *rapid.T) { w.finish(node(t)) },
			"feed":    func(t *rapid.T) { w.pull(node(t), rapid.IntRange(0, 9).Draw(t, "breaks") == 0) },
			"silent source": func(t *rapid.T) {
				n := node(t)
				if m := n.slots.running[0]; m != nil && (m.phase == finishing || m.phase == applying) && rapid.IntRange(0, 3).Draw(t, "silent") == 0 {
					n.slots.leaveSource(m, "the test")
				}
			},
			"carry on": func(t *rapid.T) { w.carryOn(node(t)) },
			"settle":   func(*rapid.T) { settle() },
			"ask":      func(t *rapid.T) { w.ask(node(t), owner(t), rapid.Bool().Draw(t, "summarize")) },
			"answer":   func(t *rapid.T) { w.answer(w.diffs[diff(t)]) },
			"arrive":   func(t *rapid.T) { w.arrive(diff(t)) },
			"":         w.check,
		})
	})
}
