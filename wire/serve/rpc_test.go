package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/slot"
	"conclave/testbed/simulated/simnet"
	"conclave/wire"
	"conclave/wire/rights"
	"conclave/wire/serve"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

var d1 = conclave.NodeID{Name: "data-1", Incarnation: "a"}

// state returns a state whose slot table has an epoch of term 1.
func state(seq uint64) *wirev1.State {
	e := conclave.Epoch{Term: 1, Seq: seq}
	return &wirev1.State{Table: wire.TableOut(slot.Table{Epoch: e, Slots: []slot.Slot{{Phase: slot.Stable, Leader: d1, LeaderEpoch: e}}}, 2)}
}

// node is a listening node whose handlers are functions of the test.
type node struct {
	view     *wire.View
	fence    *wire.Fence
	events   *serve.Events
	peers    *wire.Peers
	server   *serve.HTTPServer
	address  string
	announce func(*wirev1.AnnounceRequest) error
	helloed  func(http.Header) // called with the headers of each Hello, if not nil
	behind   chan string
}

func (n *node) Hello(_ context.Context, r *connect.Request[wirev1.HelloRequest]) (*connect.Response[wirev1.HelloResponse], error) {
	if n.helloed != nil {
		n.helloed(r.Header())
	}
	return connect.NewResponse(&wirev1.HelloResponse{Node: wire.NodeOut(d1), Role: "data"}), nil
}

func (n *node) Announce(_ context.Context, r *connect.Request[wirev1.AnnounceRequest]) (*connect.Response[wirev1.AnnounceResponse], error) {
	if err := n.announce(r.Msg); err != nil {
		return nil, err
	}
	return connect.NewResponse(&wirev1.AnnounceResponse{}), nil
}

func (n *node) FetchState(context.Context, *connect.Request[wirev1.FetchStateRequest]) (*connect.Response[wirev1.FetchStateResponse], error) {
	panic("a bug in a handler")
}

var _ wirev1connect.NodeServiceHandler = (*node)(nil)

// start runs a node on a host of net and returns it with the function that
// stops it.
func start(t *testing.T, net *simnet.Net, host, token string) (*node, func()) {
	n := &node{
		view: wire.NewView(), fence: &wire.Fence{}, events: serve.NewEvents(host, time.Now),
		behind: make(chan string, 8), announce: func(*wirev1.AnnounceRequest) error { return nil },
	}
	network := net.Host(host)
	ln, err := network.Listen(t.Context(), "tcp", ":80")
	require.NoError(t, err)
	n.address = ln.Addr().String()
	i := &wire.Interceptor{Address: n.address, View: n.view, Fence: n.fence, Token: func(string) string { return token }, Behind: func(a string, _ conclave.Epoch) { n.behind <- a }}
	n.peers = wire.NewPeers(network, i, wire.PingTimeout)
	r := serve.NewRouter(serve.RouterConfig{
		Node: d1, Role: conclave.RoleData, Version: "test", Tokens: rights.Fixed(token), Metrics: prometheus.NewRegistry(), Events: n.events,
		Ready: func() (bool, []string) { return false, []string{"starting"} },
	})
	path, h := wirev1connect.NewNodeServiceHandler(n, serve.HandlerOptions(i))
	serve.Mount(r, path, h)
	n.server = serve.NewHTTPServer(ln, r, wire.PingTimeout)
	done := make(chan error, 1)
	go func() { done <- n.server.Serve() }()
	return n, func() {
		n.peers.Close()
		n.server.Close()
		assert.NoError(t, <-done)
	}
}

func TestErrors_KeepTheirCodeAcrossNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := simnet.New(1)
		a, stopA := start(t, net, "a", "")
		defer stopA()
		b, stopB := start(t, net, "b", "")
		defer stopB()
		call := func(fail error) error {
			b.announce = func(*wirev1.AnnounceRequest) error { return fail }
			_, err := a.peers.Node(b.address).Announce(t.Context(), connect.NewRequest(&wirev1.AnnounceRequest{}))
			return wire.FromConnect(err)
		}

		var e *wire.Error
		require.ErrorAs(t, call(wire.NotLeader("meta-2", "m:1")), &e)
		assert.Equal(t, wire.CodeNotLeader, e.Code)
		assert.Equal(t, "meta-2", e.Leader)
		assert.Equal(t, "m:1", e.Address)
		assert.Equal(t, wire.CodeNoLeader, wire.CodeOf(call(wire.NotLeader("", ""))))
		assert.Equal(t, wire.CodeInternal, wire.CodeOf(call(io.ErrUnexpectedEOF)), "an error without a code is a fault of the node")

		_, err := a.peers.Node(b.address).FetchState(t.Context(), connect.NewRequest(&wirev1.FetchStateRequest{}))
		assert.Equal(t, wire.CodeInternal, wire.CodeOf(wire.FromConnect(err)), "a panic is answered and does not end the node")
		require.NoError(t, call(nil))
	})
}

func TestRefused_DistinguishesRefusedDialFromTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := simnet.New(1)
		a, stopA := start(t, net, "a", "")
		defer stopA()
		b, _ := start(t, net, "b", "")
		id, role, err := a.peers.Knock(t.Context(), b.address)
		require.NoError(t, err)
		assert.Equal(t, d1, id)
		assert.Equal(t, conclave.RoleData, role)

		net.Kill("b")
		_, _, err = a.peers.Knock(t.Context(), b.address)
		assert.True(t, wire.Refused(err), "%v", err)
		synctest.Wait() // the pooled connection has been closed
		_, err = a.peers.Node(b.address).Hello(t.Context(), connect.NewRequest(&wirev1.HelloRequest{}))
		assert.True(t, wire.Refused(wire.FromConnect(err)), "also through the client: %v", err)
		assert.Equal(t, wire.CodeUnavailable, wire.CodeOf(wire.FromConnect(err)))
		assert.False(t, wire.Refused(context.DeadlineExceeded), "a timeout is not a refusal")
		b.peers.Close()
		b.server.Close()
	})
}

func TestInterceptor_FencesAndComparesTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := simnet.New(1)
		a, stopA := start(t, net, "a", "")
		defer stopA()
		b, stopB := start(t, net, "b", "")
		defer stopB()
		call := func(ctx context.Context) error {
			_, err := a.peers.Node(b.address).Announce(ctx, connect.NewRequest(&wirev1.AnnounceRequest{}))
			return wire.FromConnect(err)
		}

		// I4: a command of an older term is refused and counted.
		require.NoError(t, call(wire.WithTerm(t.Context(), 7)))
		assert.Equal(t, wire.CodeStaleEpoch, wire.CodeOf(call(wire.WithTerm(t.Context(), 6))))
		require.NoError(t, call(t.Context()), "a call that is not a command carries no term")
		assert.EqualValues(t, 1, b.fence.Refused())

		// The node with the older table is notified of the peer with the newer
		// one, on either side of the call.
		_, err := a.view.Apply(state(1))
		require.NoError(t, err)
		require.NoError(t, call(t.Context()))
		assert.Equal(t, a.address, <-b.behind)
		_, err = b.view.Apply(state(2))
		require.NoError(t, err)
		require.NoError(t, call(t.Context()))
		assert.Equal(t, b.address, <-a.behind)
	})
}

// The identity of a node is asked for at an address that another one has named: the
// token is not sent there. A request without one changes nothing.
func TestInterceptor_HelloIsWithoutTokenAndMovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := simnet.New(1)
		a, stopA := start(t, net, "a", "secret")
		defer stopA()
		b, stopB := start(t, net, "b", "secret")
		defer stopB()
		shown := make(chan string, 1)
		b.helloed = func(h http.Header) { shown <- wire.TokenOf(h) }
		_, err := a.view.Apply(state(9))
		require.NoError(t, err)
		_, err = a.peers.Node(b.address).Hello(wire.WithTerm(t.Context(), 7), connect.NewRequest(&wirev1.HelloRequest{}))
		require.NoError(t, err)
		assert.Empty(t, <-shown)
		b.helloed = nil
		assert.Zero(t, b.fence.Highest(), "a term of a stranger")
		assert.Empty(t, b.behind, "a table of a stranger")
		_, err = b.view.Apply(state(10))
		require.NoError(t, err)
		_, err = a.peers.Node(b.address).Hello(t.Context(), connect.NewRequest(&wirev1.HelloRequest{}))
		require.NoError(t, err)
		assert.Empty(t, a.behind, "the answer of a stranger: what it has would be fetched with the token")

		_, err = a.peers.Node(b.address).Announce(wire.WithTerm(t.Context(), 7), connect.NewRequest(&wirev1.AnnounceRequest{}))
		require.NoError(t, err)
		assert.EqualValues(t, 7, b.fence.Highest())
		assert.Equal(t, b.address, <-a.behind, "the answer of a node")
		_, err = a.view.Apply(state(11))
		require.NoError(t, err)
		_, err = a.peers.Node(b.address).Announce(t.Context(), connect.NewRequest(&wirev1.AnnounceRequest{}))
		require.NoError(t, err)
		assert.Equal(t, a.address, <-b.behind)
	})
}

func TestRouter_AnswersAsInContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := simnet.New(1)
		n, stop := start(t, net, "a", "secret")
		defer stop()
		ask := func(method, path string, body string, header ...string) (int, map[string]any) {
			req, err := http.NewRequestWithContext(t.Context(), method, "http://"+n.address+path, strings.NewReader(body))
			require.NoError(t, err)
			if len(header) == 2 {
				req.Header.Set(header[0], header[1])
			}
			res, err := n.peers.HTTP().Do(req)
			require.NoError(t, err)
			defer res.Body.Close()
			raw, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			var doc map[string]any
			_ = json.Unmarshal(raw, &doc)
			return res.StatusCode, doc
		}
		code := func(doc map[string]any) any {
			e, _ := doc["error"].(map[string]any)
			return e["code"]
		}

		status, doc := ask(http.MethodGet, "/healthz", "")
		assert.Equal(t, 200, status)
		assert.Equal(t, "data-1", doc["name"])
		status, doc = ask(http.MethodGet, "/readyz", "")
		assert.Equal(t, 503, status)
		assert.Equal(t, []any{"starting"}, doc["reasons"])
		status, doc = ask(http.MethodGet, "/nowhere", "")
		assert.Equal(t, 404, status)
		assert.Equal(t, "not_found", code(doc))
		status, _ = ask(http.MethodDelete, "/healthz", "", "Authorization", "Bearer secret")
		assert.Equal(t, 405, status)

		// A request needs the token unless it is open.
		status, doc = ask(http.MethodPost, "/conclave.v1.NodeService/Announce", "{}")
		assert.Equal(t, 401, status)
		assert.Equal(t, "unauthorized", code(doc))
		status, _ = ask(http.MethodPost, "/conclave.v1.NodeService/Announce", "{}", "Authorization", "Bearer guess")
		assert.Equal(t, 401, status)
		_, err := n.peers.Node(n.address).Announce(t.Context(), connect.NewRequest(&wirev1.AnnounceRequest{}))
		assert.NoError(t, err, "a node's clients send the token")
	})
}

func TestEvents_ContinueAfterLastEventID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := simnet.New(1)
		n, stop := start(t, net, "a", "")
		defer stop()
		for i := range 3 {
			n.events.Add(wire.Event{Type: "test", Text: fmt.Sprint(i)})
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.address+"/v1/events", nil)
		require.NoError(t, err)
		req.Header.Set("Last-Event-ID", "1")
		res, err := n.peers.HTTP().Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		n.events.Add(wire.Event{Type: "test", Text: "3", Term: 9})

		var texts []string
		scan := bufio.NewScanner(res.Body)
		for len(texts) < 3 && scan.Scan() {
			if data, ok := strings.CutPrefix(scan.Text(), "data: "); ok {
				var ev wire.Event
				require.NoError(t, json.Unmarshal([]byte(data), &ev))
				texts = append(texts, ev.Text)
			}
		}
		assert.Equal(t, []string{"1", "2", "3"}, texts)
	})
}

func TestCheckListen_RequiresTokenBeyondLoopback(t *testing.T) {
	assert.NoError(t, serve.CheckListen("127.0.0.1:0", false, false))
	assert.NoError(t, serve.CheckListen("[::1]:9615", false, false))
	assert.NoError(t, serve.CheckListen("0.0.0.0:9615", true, false))
	assert.NoError(t, serve.CheckListen("0.0.0.0:9615", false, true))
	assert.ErrorContains(t, serve.CheckListen("0.0.0.0:9615", false, false), "0.0.0.0:9615")
	assert.ErrorContains(t, serve.CheckListen(":9615", false, false), "token")
	assert.ErrorContains(t, serve.CheckListen("nonsense", false, false), "nonsense")
	assert.ErrorContains(t, serve.CheckListen(":99999", false, true), "a port of 0 to 65535")
}

// Broken frames, oversized bodies and other invalid input get an answer or a
// closed connection, and the node continues to serve.
func TestServer_SurvivesInvalidInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := simnet.New(1)
		n, stop := start(t, net, "a", "")
		defer stop()
		raw := func(request string) string {
			conn, err := net.Host("b").DialContext(t.Context(), "tcp", n.address)
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, request)
			require.NoError(t, err)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
			answer, _ := io.ReadAll(conn) // whether it ends with an error is up to the server
			return string(answer)
		}
		post := "POST /conclave.v1.NodeService/Announce HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/proto\r\n"
		assert.Contains(t, raw(post+"Content-Length: 4\r\n\r\n\xff\xff\xff\xff"), "400 Bad Request", "no protobuf")
		assert.Contains(t, raw(post+fmt.Sprintf("Content-Length: %d\r\n\r\n", conclave.MaxRequest+1)), "413", "too large")
		assert.Contains(t, raw("no HTTP at all\r\n\r\n"), "400 Bad Request")
		assert.NotContains(t, raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\xff\xff\xff\xff\xff\xff\xff\xff"), "goroutine", "a broken HTTP/2 frame")

		_, err := n.peers.Node(n.address).Hello(t.Context(), connect.NewRequest(&wirev1.HelloRequest{}))
		assert.NoError(t, err, "the node continues to serve")
	})
}
