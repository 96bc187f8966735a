package client_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/testbed/simulated/simnet"
	"conclave/wire"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// fakeSession records what clients send, and answers as configured: by default
// it accepts and stores everything.
type fakeSession struct {
	name    string
	address string
	server  *http.Server
	served  sync.WaitGroup

	mu     sync.Mutex // guards the rest
	links  []*fakeLink
	silent bool                            // accepts nothing, stores nothing, answers no ping
	accept bool                            // accepts, but does not store
	full   bool                            // answers pings, and no registrations
	called []*wirev1.PingRequest           // received
	refuse error                           // refuses every Connect
	lease  int64                           // of its clients, in milliseconds; 0: 5,000
	waits  bool                            // sends each client that it must wait, and welcomes none
	check  func(id string) *wirev1.Refusal // may refuse registrations and subscriptions
	alone  map[string]*wirev1.Publisher    // if not nil, what is registered here is pushed
	pushed int64
}

// fakeLink is one Connect stream at a fake session.
type fakeLink struct {
	session *fakeSession
	out     chan *wirev1.ServerMessage

	mu       sync.Mutex // guards the rest
	received []*wirev1.ClientMessage
	ended    bool
	last     bool // the client ended its request in order
}

// world is what the tests share: a network in memory.
type world struct {
	t   *testing.T
	net *simnet.Net
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, run func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) { run(t, &world{t: t, net: simnet.New(1)}) })
}

func (w *world) session(name string) *fakeSession {
	ln, err := w.net.Host(name).Listen(w.t.Context(), "tcp", ":9603")
	require.NoError(w.t, err)
	s := newFakeSession(name, ln)
	w.t.Cleanup(s.stop)
	return s
}

func newFakeSession(name string, ln net.Listener) *fakeSession {
	s := &fakeSession{name: name, address: ln.Addr().String()}
	r := http.NewServeMux()
	r.Handle(wirev1connect.NewClientServiceHandler(s, connect.WithInterceptors(&wire.Interceptor{})))
	s.server = &http.Server{Handler: r, Protocols: new(http.Protocols)}
	s.server.Protocols.SetUnencryptedHTTP2(true)
	s.served.Go(func() { _ = s.server.Serve(ln) })
	return s
}

// startSession starts a session for the example, on a real port; alone it does
// what a cluster does.
func startSession() *fakeSession {
	ln, err := wire.NewTCP().Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s := newFakeSession("session-1", ln)
	s.alone = map[string]*wirev1.Publisher{}
	return s
}

func (s *fakeSession) stop() {
	s.server.Close()
	s.served.Wait()
}

func (w *world) client(sessions ...*fakeSession) *client.Client {
	var addresses []string
	for _, s := range sessions {
		addresses = append(addresses, s.address)
	}
	return w.configured(client.Config{Sessions: addresses})
}

func (w *world) configured(c client.Config) *client.Client {
	c.Network, c.Rand = w.net.Host("app"), rand.New(rand.NewPCG(1, 2))
	c.Logger = slog.New(slog.NewTextHandler(testWriter{w.t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	x, err := client.New(c)
	require.NoError(w.t, err)
	x.Start()
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = x.Close(ctx) // fails in the tests that leave it without a session
	})
	return x
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

// subscribed returns a subscription to "svc" that the session has received.
func (w *world) subscribed(c *client.Client, s *fakeSession) *client.Subscription {
	w.t.Helper()
	sub, err := c.Subscribe("svc")
	require.NoError(w.t, err)
	w.eventually("subscribed", func() bool { return s.link() != nil && len(s.link().subscriptions()) == 1 })
	return sub
}

// eventually waits until a condition holds, in small steps of virtual time. It
// checks when every goroutine is blocked, so that the order of goroutines at
// one moment does not matter.
func (w *world) eventually(what string, condition func() bool) {
	w.t.Helper()
	for range 5000 {
		if synctest.Wait(); condition() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	w.t.Fatalf("within 5 s this did not happen: %s", what)
}

func (s *fakeSession) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// link returns the newest stream that has not ended, or nil.
func (s *fakeSession) link() *fakeLink {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.links) - 1; i >= 0; i-- {
		if !s.links[i].isEnded() {
			return s.links[i]
		}
	}
	return nil
}

func (s *fakeSession) attempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.links)
}

func (l *fakeLink) isEnded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// end reports whether the stream has ended, and whether the client ended it in
// order.
func (l *fakeLink) end() (ended, inOrder bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended, l.last
}

// registered returns the registrations received, the newest version of each id.
func (l *fakeLink) registered() map[string]*wirev1.Publisher {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]*wirev1.Publisher{}
	for _, m := range l.received {
		for _, p := range m.GetPublishers() {
			out[p.GetId()] = p
		}
	}
	return out
}

func (l *fakeLink) subscriptions() (out []*wirev1.Subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.received {
		out = append(out, m.GetSubscribe()...)
	}
	return out
}

func (l *fakeLink) messages() []*wirev1.ClientMessage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*wirev1.ClientMessage(nil), l.received...)
}

// push sends a datum to every subscription to its dataId.
func (l *fakeLink) push(dataID string, version int64, values ...string) {
	key := dataID + "#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"
	push := &wirev1.Push{Datum: &wirev1.Datum{DataInfoId: key, Version: version, Values: values}, Hash: list.ContentHash(values)}
	for _, s := range l.subscriptions() {
		if s.GetDataInfoId() == key {
			push.Subscriptions = append(push.Subscriptions, s.GetId())
		}
	}
	l.out <- &wirev1.ServerMessage{Pushes: []*wirev1.Push{push}}
}

func (s *fakeSession) Connect(ctx context.Context, stream *connect.BidiStream[wirev1.ClientMessage, wirev1.ServerMessage]) error {
	l := &fakeLink{session: s, out: make(chan *wirev1.ServerMessage, 1000)}
	s.mu.Lock()
	lease := cmp.Or(s.lease, 5000)
	if s.alone != nil { // in real time a slow machine must not make a client look silent
		lease = 120_000
	}
	if s.waits {
		l.out <- &wirev1.ServerMessage{WaitMs: time.Hour.Milliseconds()}
	} else {
		l.out <- &wirev1.ServerMessage{Welcome: &wirev1.Welcome{Session: &wirev1.Node{Name: s.name, Incarnation: "i"}, ClientLeaseMs: lease, RememberMs: 15000, Connection: uint64(len(s.links) + 1)}}
	}
	s.links = append(s.links, l) // after the welcome, so that a push sent on it comes later
	refuse := s.refuse
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	var sender sync.WaitGroup
	defer func() {
		cancel()
		sender.Wait()
		l.mu.Lock()
		l.ended = true
		l.mu.Unlock()
	}()
	if refuse != nil {
		return refuse
	}
	sender.Go(func() {
		for {
			select {
			case m := <-l.out:
				if stream.Send(m) != nil {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	for {
		m, err := stream.Receive()
		if err != nil {
			l.mu.Lock()
			l.last = errors.Is(err, io.EOF)
			l.mu.Unlock()
			if s.hangs() {
				<-ctx.Done()
			}
			return nil
		}
		l.mu.Lock()
		l.received = append(l.received, m)
		l.mu.Unlock()
		s.pushAll(m) // before the answer, so that a later subscriber gets what is stored
		if answer := s.answer(m); answer != nil {
			l.out <- answer
		}
		if m.GetGoodbye() && !s.hangs() {
			return nil
		}
	}
}

// hangs reports whether the session does not even end a stream.
func (s *fakeSession) hangs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.silent
}

// pushAll does what a cluster does: it pushes every change to all subscribers.
func (s *fakeSession) pushAll(m *wirev1.ClientMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alone == nil || len(m.GetPublishers())+len(m.GetSubscribe()) == 0 {
		return
	}
	for _, p := range m.GetPublishers() {
		s.alone[p.GetId()] = p
	}
	s.pushed++
	for _, l := range s.links {
		for _, sub := range l.subscriptions() {
			d := &wirev1.Datum{DataInfoId: sub.GetDataInfoId(), Version: s.pushed}
			for _, p := range s.alone {
				if p.GetDataInfoId() == sub.GetDataInfoId() {
					d.Values = append(d.Values, p.GetValues()...)
				}
			}
			l.out <- &wirev1.ServerMessage{Pushes: []*wirev1.Push{{Subscriptions: []string{sub.GetId()}, Datum: d, Hash: list.ContentHash(d.Values)}}}
		}
	}
}

// Ping answers a ping that does not travel on the stream.
func (s *fakeSession) Ping(ctx context.Context, req *connect.Request[wirev1.PingRequest]) (*connect.Response[wirev1.PingResponse], error) {
	s.mu.Lock()
	s.called = append(s.called, req.Msg)
	silent := s.silent
	s.mu.Unlock()
	if silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return connect.NewResponse(&wirev1.PingResponse{}), nil
}

// calls returns the pings that did not travel on the stream.
func (s *fakeSession) calls() []*wirev1.PingRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.called)
}

func (s *fakeSession) answer(m *wirev1.ClientMessage) *wirev1.ServerMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent || s.waits {
		return nil
	}
	out := &wirev1.ServerMessage{Pong: m.GetPing()}
	if s.full && len(m.GetPublishers()) > 0 {
		return nil
	}
	for _, p := range m.GetPublishers() {
		if s.check != nil {
			if r := s.check(p.GetId()); r != nil {
				out.Refused = append(out.Refused, r)
				continue
			}
		}
		a := &wirev1.Ack{Id: p.GetId(), Version: p.GetVersion()}
		out.Accepted = append(out.Accepted, a)
		if !s.accept {
			out.Stored = append(out.Stored, a)
		}
	}
	for _, x := range m.GetSubscribe() {
		if s.check != nil {
			if r := s.check(x.GetId()); r != nil {
				out.Refused = append(out.Refused, r)
			}
		}
	}
	return out
}
