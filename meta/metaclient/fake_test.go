package metaclient_test

import (
	"context"
	"math/rand/v2"

	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/meta/metaclient"
	"conclave/testbed/simulated/simnet"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"

	"conclave/wire/serve"
	"github.com/gorilla/mux"
)

// fakeMeta answers as a meta in the state that the test sets.
type fakeMeta struct {
	wirev1connect.UnimplementedMetaServiceHandler
	id      conclave.NodeID
	address string
	view    *wire.View
	fence   *wire.Fence
	server  *serve.HTTPServer
	done    chan struct{}
	readers sync.WaitGroup

	mu      sync.Mutex // guards the rest
	leads   uint64     // the term that it leads; 0: does not
	knows   metaclient.Leader
	silent  bool                  // keeps streams open and sends nothing
	refuse  error                 // the answer of Join and the calls
	beats   []*wirev1.JoinRequest // received
	changed chan struct{}         // closed, and replaced, at each beat or setting
	calls   []string              // Drain, Restore, Leave
}

// bubble is the environment of a test: a network with metas and one node.
type bubble struct {
	t   *testing.T
	net *simnet.Net
}

func (b bubble) meta(name string) *fakeMeta {
	id := conclave.NodeID{Name: name, Incarnation: "i1"}
	ln, err := b.net.Host(name).Listen(b.t.Context(), "tcp", ":9615")
	require.NoError(b.t, err)
	f := &fakeMeta{
		id: id, address: ln.Addr().String(), view: wire.NewView(), fence: &wire.Fence{},
		changed: make(chan struct{}), done: make(chan struct{}),
	}
	icpt := &wire.Interceptor{Address: f.address, View: f.view, Fence: f.fence}
	r := mux.NewRouter()
	path, h := wirev1connect.NewMetaServiceHandler(f, serve.HandlerOptions(icpt))
	serve.Mount(r, path, h)
	path, h = wirev1connect.NewNodeServiceHandler(metaclient.NewNodeService(id, conclave.RoleMeta, f.view, f.fence, nil), serve.HandlerOptions(icpt))
	serve.Mount(r, path, h)
	f.server = serve.NewHTTPServer(ln, r, wire.PingTimeout)
	go func() {
		defer close(f.done)
		_ = f.server.Serve()
	}()
	b.t.Cleanup(func() { f.server.Close(); <-f.done; f.readers.Wait() })
	return f
}

func (f *fakeMeta) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.announce()
}

func (f *fakeMeta) announce() {
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeMeta) Join(ctx context.Context, s *connect.BidiStream[wirev1.JoinRequest, wirev1.JoinResponse]) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first, err := s.Receive()
	if err != nil {
		return err
	}
	f.set(func() { f.beats = append(f.beats, first) })
	f.readers.Go(func() { // ends when the handler has returned
		defer cancel()
		for {
			m, err := s.Receive()
			if err != nil {
				return
			}
			f.set(func() { f.beats = append(f.beats, m) })
		}
	})
	for tick := time.NewTimer(0); ; {
		f.mu.Lock()
		term, silent, refuse, changed, knows := f.leads, f.silent, f.refuse, f.changed, f.knows
		f.mu.Unlock()
		switch {
		case refuse != nil:
			return refuse
		case term == 0:
			return wire.NotLeader(knows.Node.Name, knows.Address)
		case !silent:
			err := s.Send(&wirev1.JoinResponse{
				Term: term, Leader: wire.NodeOut(f.id), Address: f.address, NodeLeaseMs: 3000, Registered: true, State: f.view.Since(first.Have),
			})
			if err != nil {
				return err
			}
		}
		tick.Reset(time.Second)
		select {
		case <-tick.C:
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *fakeMeta) GetLeader(context.Context, *connect.Request[wirev1.GetLeaderRequest]) (*connect.Response[wirev1.GetLeaderResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leads > 0 {
		return connect.NewResponse(&wirev1.GetLeaderResponse{Term: f.leads, Leader: wire.NodeOut(f.id), Address: f.address, Self: true}), nil
	}
	return connect.NewResponse(&wirev1.GetLeaderResponse{Term: f.knows.Term, Leader: wire.NodeOut(f.knows.Node), Address: f.knows.Address}), nil
}

func (f *fakeMeta) called(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, what)
	if f.refuse != nil {
		return f.refuse
	}
	if f.leads == 0 {
		return wire.NotLeader(f.knows.Node.Name, f.knows.Address)
	}
	return nil
}

func (f *fakeMeta) Drain(context.Context, *connect.Request[wirev1.DrainRequest]) (*connect.Response[wirev1.DrainResponse], error) {
	return connect.NewResponse(&wirev1.DrainResponse{}), f.called("drain")
}

func (f *fakeMeta) Leave(context.Context, *connect.Request[wirev1.LeaveRequest]) (*connect.Response[wirev1.LeaveResponse], error) {
	return connect.NewResponse(&wirev1.LeaveResponse{}), f.called("leave")
}

// lead makes the fake the leader of a term.
func (f *fakeMeta) lead(term uint64) { f.set(func() { f.leads = term }) }

// beatCount returns how many beats have arrived.
func (f *fakeMeta) beatCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.beats)
}

// beat returns a beat by its number; a negative one counts from the end.
func (f *fakeMeta) beat(i int) *wirev1.JoinRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i < 0 {
		i += len(f.beats)
	}
	return f.beats[i]
}

// node is the client under test, on a host of its own.
type node struct {
	*metaclient.Client
	view   *wire.View
	fence  *wire.Fence
	peers  *wire.Peers
	cancel context.CancelFunc
	err    chan error // what Run returned; one value
}

func (b bubble) node(name string, metas []string, also ...func(*metaclient.Config)) *node {
	n := &node{view: wire.NewView(), fence: &wire.Fence{}, err: make(chan error, 1)}
	icpt := &wire.Interceptor{Address: name + ":1", View: n.view, Fence: n.fence}
	n.peers = wire.NewPeers(b.net.Host(name), icpt, wire.PingTimeout)
	cfg := metaclient.Config{
		Self:  wire.Member{Node: conclave.NodeID{Name: name, Incarnation: "n1"}, Role: conclave.RoleData, Address: name + ":1"},
		Metas: metas, Peers: n.peers, View: n.view, Fence: n.fence, Rand: rand.New(rand.NewPCG(1, 2)),
		Logger: hclog.New(&hclog.LoggerOptions{Output: testWriter{b.t}, Level: hclog.Info, Name: name}),
	}
	for _, f := range also {
		f(&cfg)
	}
	n.Client = metaclient.New(cfg)
	icpt.Behind = n.Behind
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	var running sync.WaitGroup
	running.Go(func() { n.err <- n.Run(ctx) })
	b.t.Cleanup(func() { cancel(); running.Wait(); n.peers.Close() })
	return n
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(string(p[:len(p)-1]))
	return len(p), nil
}
