package session_test

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/gorilla/mux"

	"conclave"
	"conclave/blacklist"
	"conclave/internal/signal"
	"conclave/meta/metaclient"
	"conclave/slot"
	"conclave/wire"
	"conclave/wire/serve"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// fakeMeta is a single meta leader without a database: it keeps members by
// their streams, arranges slots with the real arranger, and publishes to all.
type fakeMeta struct {
	wirev1connect.UnimplementedMetaServiceHandler
	id      conclave.NodeID
	address string
	slots   int
	data    int // data nodes to wait for before the first table
	view    *wire.View
	fence   *wire.Fence
	server  *serve.HTTPServer
	served  sync.WaitGroup
	wake    signal.Signal // there may be something to arrange

	mu      sync.Mutex // guards the rest
	seq     uint64
	members map[string]wire.Member
	gone    map[string]bool // incarnations that left or were replaced: their late beats are ignored
	beating map[string]int  // streams by incarnation
	reports map[string][]slot.Report
	ready   map[string]bool // by incarnation, as reported last
	black   blacklist.Set
	set     []wire.Switch
	config  []wire.ConfigValue
	hidden  bool         // sessions are left off the member list
	refuse  error        // refuses every further Join
	refuses int          // refuses so many calls of Restore
	onCall  func(string) // called before each Drain, Leave and Restore
}

const nodeLease = 3 * time.Second

func newFakeMeta(network wire.Network, listen string, slots, data int) *fakeMeta {
	m := &fakeMeta{
		id: conclave.NodeID{Name: "meta-1", Incarnation: "m1"}, slots: slots, data: data, view: wire.NewView(), fence: &wire.Fence{},
		wake: signal.New(), members: map[string]wire.Member{}, gone: map[string]bool{}, beating: map[string]int{}, reports: map[string][]slot.Report{}, ready: map[string]bool{},
	}
	ln, err := network.Listen(context.Background(), "tcp", listen)
	if err != nil {
		panic(err)
	}
	m.address = ln.Addr().String()
	icpt := &wire.Interceptor{Address: m.address, View: m.view, Fence: m.fence}
	r := mux.NewRouter()
	path, h := wirev1connect.NewMetaServiceHandler(m, serve.HandlerOptions(icpt))
	serve.Mount(r, path, h)
	path, h = wirev1connect.NewNodeServiceHandler(metaclient.NewNodeService(m.id, conclave.RoleMeta, m.view, m.fence, nil), serve.HandlerOptions(icpt))
	serve.Mount(r, path, h)
	m.server = serve.NewHTTPServer(ln, r, wire.PingTimeout)
	return m
}

// run serves and arranges until ctx ends.
func (m *fakeMeta) run(ctx context.Context) {
	m.served.Go(func() { _ = m.server.Serve() })
	for {
		m.arrange()
		select {
		case <-m.wake.C():
		case <-ctx.Done():
			m.server.Close()
			m.served.Wait()
			return
		}
	}
}

func (m *fakeMeta) next() conclave.Epoch { m.seq++; return conclave.Epoch{Term: 1, Seq: m.seq} }

// arrange publishes new states until there is nothing more to change.
func (m *fakeMeta) arrange() {
	for m.step() {
	}
}

func (m *fakeMeta) step() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := m.view.State()
	in := slot.Input{Next: m.next(), Replicas: 2, FloorBase: 1 << 30}
	list := wire.Members{Epoch: in.Next}
	for _, x := range m.members {
		if m.hidden && x.Role == conclave.RoleSession {
			continue
		}
		list.List = append(list.List, x)
	}
	slices.SortFunc(list.List, func(a, b wire.Member) int { return cmp.Compare(a.Node.Name, b.Node.Name) })
	for _, x := range list.List {
		if x.Role == conclave.RoleData {
			in.Live = append(in.Live, x.Node)
			in.Reports = append(in.Reports, m.reports[x.Node.String()]...)
		}
	}
	for _, e := range m.black {
		in.Forbidden = append(in.Forbidden, e.Name)
	}
	changed := false
	if !slices.Equal(list.List, state.Members.List) {
		state.Members, changed = list, true
	}
	if len(state.Table.Slots) == 0 {
		if len(in.Live) >= m.data {
			table, err := slot.New(m.slots, in)
			if err != nil {
				panic(err)
			}
			state.Table, changed = table, true
		}
	} else if table, moves, err := slot.Arrange(state.Table, in); err != nil {
		panic(err)
	} else if len(moves) > 0 {
		state.Table, changed = table, true
	}
	if !slices.Equal(m.black, state.Blacklist.Entries) {
		state.Blacklist, changed = wire.Blacklist{Epoch: in.Next, Entries: slices.Clone(m.black)}, true
	}
	if !slices.Equal(m.set, state.Switches.List) {
		state.Switches, changed = wire.Switches{Epoch: in.Next, List: slices.Clone(m.set)}, true
	}
	if !slices.Equal(m.config, state.Config.List) {
		state.Config, changed = wire.ConfigValues{Epoch: in.Next, List: slices.Clone(m.config)}, true
	}
	if changed {
		state.Replicas = 2
		m.view.Set(state)
	}
	return changed
}

// Join serves one node's stream.
func (m *fakeMeta) Join(ctx context.Context, stream *connect.BidiStream[wirev1.JoinRequest, wirev1.JoinResponse]) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	self := wire.MemberIn(first.GetMember())
	self.Dialable = true
	m.mu.Lock()
	refuse := m.refuse
	if refuse == nil {
		m.beating[self.Node.String()]++
	}
	m.mu.Unlock()
	if refuse != nil {
		return refuse
	}
	defer m.broke(self)

	ctx, cancel := context.WithCancel(ctx)
	var sender sync.WaitGroup
	defer sender.Wait()
	defer cancel()
	have := first.GetHave()
	sender.Go(func() {
		for beat := uint64(1); ; beat++ {
			changed := m.view.Changed()
			state := m.view.State()
			missing := wire.StateOut(state, have)
			have = wire.EpochsOf(state)
			if stream.Send(&wirev1.JoinResponse{
				Term: 1, Leader: wire.NodeOut(m.id), Address: m.address, Beat: beat, LeaseMs: 3000, NodeLeaseMs: wire.Ms(nodeLease),
				State: missing, Registered: state.Members.Has(self.Node),
			}) != nil {
				return
			}
			timer := time.NewTimer(time.Second)
			select {
			case <-changed:
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
			timer.Stop()
		}
	})
	for req := first; ; {
		m.beat(self, req)
		if req, err = stream.Receive(); err != nil {
			return err
		}
	}
}

// beat records a beat.
func (m *fakeMeta) beat(self wire.Member, req *wirev1.JoinRequest) {
	m.mu.Lock()
	self.Draining = req.GetMember().GetDraining()
	if !m.gone[self.Node.String()] {
		if had, ok := m.members[self.Node.Name]; ok && had.Node != self.Node {
			m.gone[had.Node.String()] = true
		}
		m.members[self.Node.Name] = self
	}
	var reports []slot.Report
	for _, r := range req.GetReports() {
		reports = append(reports, slot.Report{
			Node: self.Node, Slot: int(r.GetSlot()), Epoch: wire.EpochIn(r.GetLeaderEpoch()), State: slot.ReportState(r.GetState()),
			Position: r.GetPosition(), LagMs: r.GetLagMs(), Counter: r.GetCounter(),
		})
	}
	if req.GetAllReports() {
		m.reports[self.Node.String()], m.ready[self.Node.String()] = reports, req.GetReady()
	}
	m.mu.Unlock()
	m.wake.Set()
}

// broke takes a node off the list a moment after its stream broke.
func (m *fakeMeta) broke(self wire.Member) {
	m.mu.Lock()
	m.beating[self.Node.String()]--
	m.mu.Unlock()
	time.AfterFunc(200*time.Millisecond, func() {
		m.mu.Lock()
		if m.beating[self.Node.String()] == 0 && m.members[self.Node.Name].Node == self.Node {
			delete(m.members, self.Node.Name)
		}
		m.mu.Unlock()
		m.wake.Set()
	})
}

func (m *fakeMeta) GetLeader(context.Context, *connect.Request[wirev1.GetLeaderRequest]) (*connect.Response[wirev1.GetLeaderResponse], error) {
	return connect.NewResponse(&wirev1.GetLeaderResponse{Term: 1, Leader: wire.NodeOut(m.id), Address: m.address, Self: true}), nil
}

func (m *fakeMeta) Leave(_ context.Context, req *connect.Request[wirev1.LeaveRequest]) (*connect.Response[wirev1.LeaveResponse], error) {
	m.called("leave " + req.Msg.GetNode().GetName())
	m.mu.Lock()
	delete(m.members, req.Msg.GetNode().GetName())
	m.gone[wire.NodeIn(req.Msg.GetNode()).String()] = true
	m.mu.Unlock()
	m.arrange()
	return connect.NewResponse(&wirev1.LeaveResponse{Members: wire.EpochOut(m.view.State().Members.Epoch)}), nil
}

func (m *fakeMeta) Drain(_ context.Context, req *connect.Request[wirev1.DrainRequest]) (*connect.Response[wirev1.DrainResponse], error) {
	m.called("drain " + req.Msg.GetNode().GetName())
	if req.Msg.GetRole() == string(conclave.RoleSession) && !m.otherSession(req.Msg.GetNode().GetName()) {
		return nil, wire.ToConnect(wire.Errorf(wire.CodeNoSuccessor, "no other session takes clients"))
	}
	m.forbid(blacklist.Drain(wire.NodeIn(req.Msg.GetNode()), conclave.Role(req.Msg.GetRole()), time.Now()))
	return connect.NewResponse(&wirev1.DrainResponse{}), nil
}

func (m *fakeMeta) Restore(_ context.Context, req *connect.Request[wirev1.RestoreRequest]) (*connect.Response[wirev1.RestoreResponse], error) {
	m.called("restore " + req.Msg.GetNode().GetName())
	m.mu.Lock()
	if m.refuses > 0 {
		m.refuses--
		m.mu.Unlock()
		return nil, wire.ToConnect(wire.Errorf(wire.CodeConflict, "not now"))
	}
	m.black = slices.DeleteFunc(m.black, func(e blacklist.Entry) bool { return e.Name == req.Msg.GetNode().GetName() && e.Own() })
	m.mu.Unlock()
	m.arrange()
	return connect.NewResponse(&wirev1.RestoreResponse{}), nil
}

// otherSession reports whether a session besides the named one may take clients.
func (m *fakeMeta) otherSession(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range m.members {
		onBlacklist := m.black.Has(x.Node.Name)
		if x.Role == conclave.RoleSession && x.Node.Name != name && !x.Draining && !onBlacklist {
			return true
		}
	}
	return false
}

func (m *fakeMeta) called(what string) {
	m.mu.Lock()
	onCall := m.onCall
	m.mu.Unlock()
	if onCall != nil {
		onCall(what)
	}
}

// setOnCall sets the function that is called before each Drain, Leave and
// Restore.
func (m *fakeMeta) setOnCall(onCall func(string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onCall = onCall
}

// reject makes every further Join fail.
func (m *fakeMeta) reject(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuse = err
}

// remove takes a node off the member list for good, whatever it sends.
func (m *fakeMeta) remove(name string) {
	m.mu.Lock()
	m.gone[m.members[name].Node.String()] = true
	delete(m.members, name)
	m.mu.Unlock()
	m.arrange()
}

// hideSessions leaves sessions off the member list.
func (m *fakeMeta) hideSessions(on bool) {
	m.mu.Lock()
	m.hidden = on
	m.mu.Unlock()
	m.arrange()
}

func (m *fakeMeta) forbid(e blacklist.Entry) {
	m.mu.Lock()
	if !m.black.Has(e.Name) {
		m.black = append(m.black, e)
		slices.SortFunc(m.black, func(a, b blacklist.Entry) int { return strings.Compare(a.Name, b.Name) })
	}
	m.mu.Unlock()
	m.arrange()
}

func (m *fakeMeta) allow(name string) {
	m.mu.Lock()
	m.black = slices.DeleteFunc(m.black, func(e blacklist.Entry) bool { return e.Name == name })
	m.mu.Unlock()
	m.arrange()
}

// setConfig sets all configuration values, sorted by id.
func (m *fakeMeta) setConfig(values ...wire.ConfigValue) {
	m.mu.Lock()
	for i := range values {
		values[i].Epoch = m.next()
	}
	m.config = values
	m.mu.Unlock()
	m.arrange()
}

func (m *fakeMeta) setSwitch(key, value string) {
	m.mu.Lock()
	m.set = append(slices.DeleteFunc(slices.Clone(m.set), func(s wire.Switch) bool { return s.Key == key }), wire.Switch{Key: key, Value: value, Version: 1})
	m.mu.Unlock()
	m.arrange()
}
