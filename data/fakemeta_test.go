package data_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/gorilla/mux"

	"conclave"
	"conclave/blacklist"
	"conclave/slot"
	"conclave/wire"
	"conclave/wire/serve"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// fakeMeta is the meta leader: it publishes what the test sets, and with auto
// it lets the real arranger decide from the nodes' reports.
type fakeMeta struct {
	wirev1connect.UnimplementedMetaServiceHandler
	id      conclave.NodeID
	address string
	server  *serve.HTTPServer
	served  chan struct{}

	mu      sync.Mutex // guards the rest
	term    uint64
	seq     uint64
	state   wire.State
	reports map[conclave.NodeID][]slot.Report
	absent  map[conclave.NodeID]bool // evicted, or replaced by another incarnation: a late beat does not register them again
	auto    bool
	admits  bool // Drain is granted
	changed chan struct{}

	onRestore func()
	refuses   atomic.Int32 // how many calls of Restore it refuses
	restored  int
}

func (c *cluster) newMeta(name string, term uint64, state wire.State) *fakeMeta {
	m := &fakeMeta{
		id:   conclave.NodeID{Name: name, Incarnation: "m"},
		term: term, state: state, admits: true, reports: map[conclave.NodeID][]slot.Report{}, absent: map[conclave.NodeID]bool{},
		changed: make(chan struct{}),
	}
	m.start(c)
	c.t.Cleanup(m.stop)
	return m
}

func (m *fakeMeta) start(c *cluster) {
	ln := c.listen(m.id.Name, ":9615")
	m.address = ln.Addr().String()
	r := mux.NewRouter()
	path, h := wirev1connect.NewMetaServiceHandler(m, serve.HandlerOptions(&wire.Interceptor{}))
	serve.Mount(r, path, h)
	server, served := serve.NewHTTPServer(ln, r, wire.PingTimeout), make(chan struct{})
	m.server, m.served = server, served
	go func() {
		defer close(served)
		_ = server.Serve()
	}()
}

func (m *fakeMeta) stop() { m.server.Close(); <-m.served }

// replaceMeta stops the meta node. Another one of the next term continues with
// the stored state and knows nothing else.
func (c *cluster) replaceMeta() {
	c.fakeMeta.stop()
	c.mu.Lock()
	c.term++
	c.seq = 0
	c.reports = map[conclave.NodeID][]slot.Report{}
	c.mu.Unlock()
	c.start(c)
}

// change alters the state under the next epoch and publishes it. mu is held.
func (m *fakeMeta) change(alter func(*wire.State, conclave.Epoch)) {
	m.seq++
	alter(&m.state, conclave.Epoch{Term: m.term, Seq: m.seq})
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *fakeMeta) set(alter func(*wire.State, conclave.Epoch)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.change(alter)
	m.arrange()
}

// row changes one slot's row. If the leader changes, the row's LeaderEpoch is
// the table's new epoch.
func (m *fakeMeta) row(id int, alter func(*slot.Slot)) conclave.Epoch {
	var e conclave.Epoch
	m.set(func(s *wire.State, epoch conclave.Epoch) {
		s.Table = s.Table.Clone().At(epoch)
		was := s.Table.Slots[id].Leader
		alter(&s.Table.Slots[id])
		if s.Table.Slots[id].Leader != was {
			s.Table.Slots[id].LeaderEpoch = epoch
			s.Table.Slots[id].VersionBase += conclave.VersionBase
		}
		e = epoch
	})
	return e
}

func (m *fakeMeta) join(member wire.Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state.Members.Has(member.Node) || m.absent[member.Node] {
		return
	}
	m.change(func(s *wire.State, e conclave.Epoch) {
		s.Members = wire.Members{Epoch: e, List: append(m.without(s.Members.List, member.Node.Name), member), Lost: s.Members.Lost}
	})
	m.arrange()
}

func (m *fakeMeta) evict(name string) {
	m.set(func(s *wire.State, e conclave.Epoch) {
		s.Members = wire.Members{Epoch: e, List: m.without(s.Members.List, name), Lost: s.Members.Lost}
	})
}

// lose removes a session that is not known to be dead.
func (m *fakeMeta) lose(name string) {
	m.set(func(s *wire.State, e conclave.Epoch) {
		lost, _ := s.Members.Find(name)
		s.Members = wire.Members{Epoch: e, List: m.without(s.Members.List, name), Lost: append(slices.Clone(s.Members.Lost), lost)}
	})
}

// without returns the list without a name, whose incarnation cannot join again.
// mu is held.
func (m *fakeMeta) without(list []wire.Member, name string) []wire.Member {
	return slices.DeleteFunc(slices.Clone(list), func(x wire.Member) bool {
		if x.Node.Name == name {
			m.absent[x.Node] = true
		}
		return x.Node.Name == name
	})
}

// arrange lets the real arranger take every step that is due. mu is held.
func (m *fakeMeta) arrange() {
	for m.auto && len(m.state.Table.Slots) > 0 {
		in := slot.Input{Next: conclave.Epoch{Term: m.term, Seq: m.seq + 1}, Replicas: m.state.Replicas}
		for _, x := range m.state.Members.Of(conclave.RoleData) {
			in.Live = append(in.Live, x.Node)
			in.Reports = append(in.Reports, m.reports[x.Node]...)
		}
		for _, e := range m.state.Blacklist.Entries {
			in.Forbidden = append(in.Forbidden, e.Name)
		}
		next, moves, err := slot.Arrange(m.state.Table, in)
		if err != nil {
			panic(err)
		}
		if len(moves) == 0 {
			return
		}
		m.change(func(s *wire.State, e conclave.Epoch) { s.Table = next })
	}
}

// make makes a new table of n slots over the data nodes that have joined.
func (m *fakeMeta) make(n int) {
	m.set(func(s *wire.State, e conclave.Epoch) {
		in := slot.Input{Next: e, Replicas: s.Replicas, FloorBase: conclave.VersionBase}
		for _, x := range s.Members.Of(conclave.RoleData) {
			in.Live = append(in.Live, x.Node)
		}
		t, err := slot.New(n, in)
		if err != nil {
			panic(err)
		}
		s.Table = t
	})
}

func (m *fakeMeta) table() slot.Table {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Table
}

func (m *fakeMeta) members() wire.Members {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Members
}

func (m *fakeMeta) blacklist() []blacklist.Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Blacklist.Entries
}

func (m *fakeMeta) report(n conclave.NodeID, id int) (slot.Report, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.reports[n] {
		if r.Slot == id {
			return r, true
		}
	}
	return slot.Report{}, false
}

func (m *fakeMeta) Join(ctx context.Context, s *connect.BidiStream[wirev1.JoinRequest, wirev1.JoinResponse]) error {
	ctx, cancel := context.WithCancel(ctx)
	first, err := s.Receive()
	if err != nil {
		cancel()
		return err
	}
	m.received(first)
	var sending sync.WaitGroup
	sending.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		have := first.GetHave()
		for {
			m.mu.Lock()
			changed, state, term := m.changed, m.state, m.term
			m.mu.Unlock()
			out := &wirev1.JoinResponse{
				Term: term, Leader: wire.NodeOut(m.id), Address: m.address, NodeLeaseMs: 3000, State: wire.StateOut(state, have),
				Registered: state.Members.Has(wire.NodeIn(first.GetMember().GetNode())),
			}
			if s.Send(out) != nil {
				return
			}
			have = wire.EpochsOf(state)
			select {
			case <-changed:
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	defer sending.Wait()
	defer cancel()
	for {
		b, err := s.Receive()
		if err != nil {
			return nil
		}
		m.received(b)
	}
}

func (m *fakeMeta) received(b *wirev1.JoinRequest) {
	member := wire.MemberIn(b.GetMember())
	m.join(member)
	m.mu.Lock()
	defer m.mu.Unlock()
	var reports []slot.Report
	for _, r := range b.GetReports() {
		reports = append(reports, slot.Report{
			Node: member.Node, Slot: int(r.GetSlot()), Epoch: wire.EpochIn(r.GetLeaderEpoch()), State: slot.ReportState(r.GetState()),
			Position: r.GetPosition(), LagMs: r.GetLagMs(), Counter: r.GetCounter(),
		})
	}
	if b.GetAllReports() {
		m.reports[member.Node] = reports
	}
	m.arrange()
}

func (m *fakeMeta) GetLeader(context.Context, *connect.Request[wirev1.GetLeaderRequest]) (*connect.Response[wirev1.GetLeaderResponse], error) {
	return connect.NewResponse(&wirev1.GetLeaderResponse{Term: m.nowTerm(), Leader: wire.NodeOut(m.id), Address: m.address, Self: true}), nil
}

func (m *fakeMeta) nowTerm() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.term
}

func (m *fakeMeta) Drain(_ context.Context, req *connect.Request[wirev1.DrainRequest]) (*connect.Response[wirev1.DrainResponse], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.admits {
		return nil, wire.Errorf(wire.CodeNoSuccessor, "no other data node is up")
	}
	m.change(func(s *wire.State, e conclave.Epoch) {
		s.Blacklist.Epoch = e
		s.Blacklist.Entries = append(slices.Clone(s.Blacklist.Entries), blacklist.Entry{
			Name: req.Msg.GetNode().GetName(), Role: conclave.RoleData, Reason: "drain", By: req.Msg.GetNode().GetName(),
			Incarnation: req.Msg.GetNode().GetIncarnation(),
		})
	})
	epoch := m.state.Blacklist.Epoch
	m.arrange()
	return connect.NewResponse(&wirev1.DrainResponse{Blacklist: wire.EpochOut(epoch)}), nil
}

func (m *fakeMeta) Restore(context.Context, *connect.Request[wirev1.RestoreRequest]) (*connect.Response[wirev1.RestoreResponse], error) {
	if m.refuses.Add(-1) >= 0 {
		return nil, wire.ToConnect(wire.Errorf(wire.CodeConflict, "not now"))
	}
	if m.onRestore != nil {
		m.onRestore()
	}
	return connect.NewResponse(&wirev1.RestoreResponse{}), nil
}

func (m *fakeMeta) Leave(_ context.Context, req *connect.Request[wirev1.LeaveRequest]) (*connect.Response[wirev1.LeaveResponse], error) {
	m.evict(req.Msg.GetNode().GetName())
	return connect.NewResponse(&wirev1.LeaveResponse{}), nil
}

// stable sets a table in which one node leads every slot and all are stable.
func (m *fakeMeta) stable(slots int, leader conclave.NodeID, followers ...conclave.NodeID) (epoch conclave.Epoch) {
	m.set(func(s *wire.State, e conclave.Epoch) {
		t := slot.Table{Epoch: e}
		for i := range slots {
			t.Slots = append(t.Slots, slot.Slot{ID: i, Phase: slot.Stable, Leader: leader, LeaderEpoch: e, VersionBase: conclave.VersionBase, Followers: followers})
		}
		s.Table, epoch = t, e
	})
	return epoch
}

// The steps of a hand-over, as the arranger writes them.

func (m *fakeMeta) prepare(id int, successor conclave.NodeID) {
	m.row(id, func(s *slot.Slot) {
		s.Phase, s.Successor = slot.Preparing, successor
		s.Followers = slices.DeleteFunc(slices.Clone(s.Followers), func(n conclave.NodeID) bool { return n == successor })
	})
}

func (m *fakeMeta) switchTo(id int, successor conclave.NodeID) conclave.Epoch {
	return m.row(id, func(s *slot.Slot) {
		s.Phase, s.Source, s.SourceEpoch = slot.Switching, s.Leader, s.LeaderEpoch
		s.Leader, s.Successor = successor, conclave.NodeID{}
		s.Followers = slices.DeleteFunc(slices.Clone(s.Followers), func(n conclave.NodeID) bool { return n == successor })
	})
}

func (m *fakeMeta) settle(id int) {
	m.row(id, func(s *slot.Slot) {
		s.Phase, s.Source, s.SourceEpoch = slot.Stable, conclave.NodeID{}, conclave.Epoch{}
	})
}

// crash grants a slot to successor as after a crash, with the given followers.
func (m *fakeMeta) crash(id int, successor conclave.NodeID, followers ...conclave.NodeID) conclave.Epoch {
	return m.row(id, func(s *slot.Slot) {
		s.Phase, s.Source, s.SourceEpoch, s.Successor = slot.Crash, conclave.NodeID{}, conclave.Epoch{}, conclave.NodeID{}
		s.Followers = followers
		if s.Leader == successor { // granted again
			s.Leader = conclave.NodeID{}
			s.LeaderEpoch, s.VersionBase = conclave.Epoch{Term: m.term, Seq: m.seq}, s.VersionBase+conclave.VersionBase
		}
		s.Leader = successor
	})
}

func forbid(name string) blacklist.Entry {
	return blacklist.Entry{Name: name, Role: conclave.RoleData, Reason: "test", By: "operator"}
}
