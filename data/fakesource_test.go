package data_test

import (
	"context"
	"net/http"
	"sync"

	"connectrpc.com/connect"
	"github.com/gorilla/mux"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/wire"
	"conclave/wire/serve"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// fakeSource is a data node whose answers the test decides: the old leader in a
// hand-over.
type fakeSource struct {
	wirev1connect.UnimplementedDataServiceHandler
	id      conclave.NodeID
	address string
	events  chan *wirev1.ReplicateEvent
	finish  func() (*wirev1.FinishedSlot, error)
	collect func(*wirev1.CollectRequest) ([]*wirev1.ReplicateEvent, error) // nil: not implemented

	mu       sync.Mutex // guards the rest
	follows  []*wirev1.Follow
	finishes []*wirev1.FinishRequest
}

func (c *cluster) source(name string) *fakeSource {
	f := &fakeSource{
		id: conclave.NodeID{Name: name, Incarnation: "fake"}, address: name + ":9622", events: make(chan *wirev1.ReplicateEvent, 16),
		finish: func() (*wirev1.FinishedSlot, error) {
			return nil, wire.Errorf(wire.CodeUnavailable, "the test set no answer")
		},
	}
	ln, err := c.net.Host(name).Listen(c.t.Context(), "tcp", ":9622")
	require.NoError(c.t, err)
	r := mux.NewRouter()
	path, h := wirev1connect.NewDataServiceHandler(f, serve.HandlerOptions(&wire.Interceptor{}))
	serve.Mount(r, path, h)
	server, served := serve.NewHTTPServer(ln, http.Handler(r), wire.PingTimeout), make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve()
	}()
	c.t.Cleanup(func() { server.Close(); <-served })
	c.join(wire.Member{Node: f.id, Role: conclave.RoleData, Address: f.address})
	return f
}

func (f *fakeSource) Replicate(ctx context.Context, s *connect.BidiStream[wirev1.ReplicateRequest, wirev1.ReplicateEvent]) error {
	ctx, cancel := context.WithCancel(ctx)
	var sending sync.WaitGroup
	sending.Go(func() {
		for {
			select {
			case e := <-f.events:
				if s.Send(e) != nil {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	defer sending.Wait()
	defer cancel()
	for {
		m, err := s.Receive()
		if err != nil {
			return nil
		}
		if a := m.GetFollow(); a != nil {
			f.mu.Lock()
			f.follows = append(f.follows, a)
			f.mu.Unlock()
		}
	}
}

func (f *fakeSource) Finish(_ context.Context, req *connect.Request[wirev1.FinishRequest]) (*connect.Response[wirev1.FinishResponse], error) {
	f.mu.Lock()
	f.finishes = append(f.finishes, req.Msg)
	f.mu.Unlock()
	res, err := f.finish()
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&wirev1.FinishResponse{Slots: []*wirev1.FinishedSlot{res}}), nil
}

func (f *fakeSource) Collect(_ context.Context, req *connect.Request[wirev1.CollectRequest], stream *connect.ServerStream[wirev1.ReplicateEvent]) error {
	if f.collect == nil {
		return wire.Errorf(wire.CodeUnavailable, "the test set no answer")
	}
	events, err := f.collect(req.Msg)
	for _, e := range events {
		if err := stream.Send(e); err != nil {
			return err
		}
	}
	return err
}

func (f *fakeSource) finished() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.finishes)
}

// copyOf returns one owner's registration as it is sent.
func copyOf(owner conclave.NodeID, p *wirev1.Publisher) *wirev1.Copy {
	return &wirev1.Copy{Publisher: p, Owner: wire.NodeOut(owner)}
}

// part returns a message of the feed of slot 0.
func part(epoch conclave.Epoch, from, position uint64, copies ...*wirev1.Copy) *wirev1.ReplicateEvent {
	return &wirev1.ReplicateEvent{
		LeaderEpoch: wire.EpochOut(epoch), Access: wirev1.Access_ACCESS_ACCEPT, From: from, Position: position, Copies: copies,
		Counter: int64(1000 + position),
	}
}

// whole returns a snapshot in one message.
func whole(epoch conclave.Epoch, position uint64, copies ...*wirev1.Copy) *wirev1.ReplicateEvent {
	e := part(epoch, 0, position, copies...)
	e.Snapshot, e.SnapshotBegin, e.SnapshotEnd = true, true, true
	return e
}
