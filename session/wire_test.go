package session_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/client"
	"conclave/session"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// raw is a client that uses client.proto without the SDK.
type raw struct {
	c      *cluster
	stream *connect.BidiStreamForClient[wirev1.ClientMessage, wirev1.ServerMessage]
	cancel context.CancelFunc
	peers  *wire.Peers
}

const svc = "svc#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"

func (c *cluster) raw(name, session string) *raw {
	ctx, cancel := context.WithCancel(c.ctx)
	peers := wire.NewPeers(c.host(name), &wire.Interceptor{}, wire.PingTimeout)
	return &raw{c: c, stream: peers.Client(c.sessions[session].server.Address()).Connect(ctx), cancel: cancel, peers: peers}
}

// send sends a message. That the session has ended the stream meanwhile shows at the
// next Receive.
func (r *raw) send(m *wirev1.ClientMessage) {
	if err := r.stream.Send(m); !errors.Is(err, io.EOF) {
		require.NoError(r.c.t, err)
	}
}

func (r *raw) hello(name string) *raw {
	r.send(&wirev1.ClientMessage{Hello: &wirev1.ClientHello{Client: name, Name: name}})
	m, err := r.stream.Receive()
	require.NoError(r.c.t, err)
	require.NotNil(r.c.t, m.GetWelcome())
	return r
}

// until receives until a message fits.
func (r *raw) until(fits func(*wirev1.ServerMessage) bool) *wirev1.ServerMessage {
	for {
		m, err := r.stream.Receive()
		require.NoError(r.c.t, err)
		if fits(m) {
			return m
		}
	}
}

func (r *raw) end() {
	r.cancel()
	_, _ = r.stream.Receive()
	r.peers.Close()
}

// A stream that does not begin with a hello is refused; the node goes on.
func TestFirstMessageMustBeHello(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		r := c.raw("odd", "session-1")
		defer r.end()
		r.send(&wirev1.ClientMessage{Ping: 1})
		_, err := r.stream.Receive()
		assert.Equal(t, wire.CodeBadRequest, wire.CodeOf(wire.FromConnect(err)), "%v", err)

		long := c.raw("long", "session-1")
		defer long.end()
		long.send(&wirev1.ClientMessage{Hello: &wirev1.ClientHello{Client: "long", Name: strings.Repeat("n", 129)}})
		_, err = long.stream.Receive()
		assert.Equal(t, wire.CodeBadRequest, wire.CodeOf(wire.FromConnect(err)), "%v", err)

		other := c.raw("mute", "session-1")
		defer other.end()
		other.send(nil)
		c.published(c.client("writer"), "svc", "a")
	})
}

// Each registration is checked on its own: invalid ones are refused by id, the
// others are accepted, and the connection stays.
func TestWrongInputIsRefusedOneByOne(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		r := c.raw("odd", "session-1").hello("odd")
		defer r.end()
		r.send(&wirev1.ClientMessage{
			Publishers: []*wirev1.Publisher{
				{Id: "no-key", DataInfoId: "svc", Version: 1},
				{Id: "no-version", DataInfoId: svc},
				{Id: "", DataInfoId: svc, Version: 1},
				{Id: "large", DataInfoId: svc, Version: 1, Values: []string{strings.Repeat("x", conclave.MaxValue+1)}},
				{Id: "good", DataInfoId: svc, Version: 3, Values: []string{"a"}},
				{Id: "good", DataInfoId: svc, Version: 2, Values: []string{"b"}},
				{Id: "good", DataInfoId: "other#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP", Version: 4},
			},
			Subscribe:   []*wirev1.Subscription{{Id: "s1", DataInfoId: "svc"}, {Id: "s2", DataInfoId: svc, Version: 1 << 53}},
			Unsubscribe: []string{"never-was"},
		})
		codes := map[string][]string{}
		accepted, refused := 0, 0
		r.until(func(m *wirev1.ServerMessage) bool {
			for _, x := range m.GetRefused() {
				codes[x.GetId()] = append(codes[x.GetId()], x.GetCode())
			}
			accepted, refused = accepted+len(m.GetAccepted()), refused+len(m.GetRefused())
			return refused == 8 && accepted == 1
		})
		assert.Equal(t, map[string][]string{
			"no-key": {"bad_request"}, "no-version": {"bad_request"}, "": {"bad_request"}, "large": {"too_large"},
			"good": {"conflict", "conflict"}, "s1": {"bad_request"}, "s2": {"bad_request"},
		}, codes)
		list := c.list(c.sessions["session-1"].server.Address(), "/v1/publishers")
		require.Len(t, list, 1)
		assert.EqualValues(t, 3, list[0]["version"])
	})
}

// What a refusal repeats of a client's strings is bounded.
func TestRefusals_AreShort(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		r := c.raw("odd", "session-1").hello("odd")
		defer r.end()
		long := strings.Repeat("é#@#", 100_000)
		r.send(&wirev1.ClientMessage{
			Publishers: []*wirev1.Publisher{{Id: "p", DataInfoId: long, Version: 1}, {Id: long, DataInfoId: svc, Version: 1}},
			Subscribe:  []*wirev1.Subscription{{Id: "s", DataInfoId: long}, {Id: long, DataInfoId: svc}},
		})
		refused := 0
		r.until(func(m *wirev1.ServerMessage) bool {
			for _, x := range m.GetRefused() {
				refused++
				assert.LessOrEqual(t, len(x.GetId()), 128)
				assert.LessOrEqual(t, len(x.GetMessage()), 512)
			}
			return refused == 4
		})
	})
}

// A silent client's connection is broken after the client lease although it is
// still open, and its registrations are removed after another.
func TestSilentClientIsBroken(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		r := c.raw("silent", "session-1").hello("silent")
		defer r.end()
		start := time.Now()
		r.send(&wirev1.ClientMessage{Publishers: []*wirev1.Publisher{{Id: "a", DataInfoId: svc, Version: 1, Values: []string{"a"}}}})
		address := c.sessions["session-1"].server.Address()
		c.eventually("it is registered", func() bool { return len(c.list(address, "/v1/publishers")) == 1 })
		c.eventually("it is not connected any more", func() bool { return len(c.list(address, "/v1/clients")) == 0 })
		assert.InDelta(t, 5, time.Since(start).Seconds(), 0.1)
		c.eventually("its registration is removed", func() bool { return len(c.list(address, "/v1/publishers")) == 0 })
		assert.InDelta(t, 10, time.Since(start).Seconds(), 0.1)
	})
}

// A client of session-1 moves to session-2 and withdraws there, while session-1
// is slow to write the first version to data: the late write does not restore
// it.
func TestTombstone_OutlivesALateWrite(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		sub := c.watch(c.client("reader", "session-2"), "svc")
		c.eventually("the list is empty", sub.shows())
		r1, r2 := c.raw("java-1", "session-1").hello("java"), c.raw("java-2", "session-2").hello("java")
		defer r1.end()
		defer r2.end()
		stored := func(m *wirev1.ServerMessage) bool { return len(m.GetStored()) == 1 }
		r2.send(&wirev1.ClientMessage{Publishers: []*wirev1.Publisher{{Id: "R", DataInfoId: svc, Version: 2, Withdrawn: true}}})
		r2.until(stored)
		r1.send(&wirev1.ClientMessage{Publishers: []*wirev1.Publisher{{Id: "R", DataInfoId: svc, Version: 1, Values: []string{"late"}}}})
		r1.until(stored)
		time.Sleep(time.Second)
		assert.Len(t, sub.all(), 1, "the late value was never pushed")
		r1.end() // session-1's copy is removed with its client
		time.Sleep(time.Minute)
		assert.Len(t, sub.all(), 1)
		assert.Empty(t, c.list(c.sessions["session-2"].server.Address(), "/v1/publishers"), "the tombstone is forgotten in the end")
	})
}

// Two sessions have the same version: the one that loses the connection removes
// its own copy only.
func TestRemovalTouchesItsOwnersCopyOnly(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		sub := c.watch(c.client("reader", "session-2"), "svc")
		r1, r2 := c.raw("java-1", "session-1").hello("java"), c.raw("java-2", "session-2").hello("java")
		defer r2.end()
		for _, r := range []*raw{r1, r2} {
			r.send(&wirev1.ClientMessage{Publishers: []*wirev1.Publisher{{Id: "R", DataInfoId: svc, Version: 1, Values: []string{"a"}}}})
			r.until(func(m *wirev1.ServerMessage) bool { return len(m.GetStored()) == 1 })
		}
		c.eventually("it is seen", sub.shows("a"))
		r1.end()
		for range 20 {
			time.Sleep(time.Second)
			r2.send(&wirev1.ClientMessage{Ping: 1})
		}
		assert.Empty(t, c.list(c.sessions["session-1"].server.Address(), "/v1/publishers"))
		assert.True(t, sub.shows("a")())
	})
}

// A good-bye withdraws everything at once, and the stream ends when data has
// that.
func TestGoodbyeOnTheWire(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		sub := c.watch(c.client("reader"), "svc")
		r := c.raw("polite", "session-1").hello("polite")
		defer r.end()
		r.send(&wirev1.ClientMessage{Publishers: []*wirev1.Publisher{
			{Id: "a", DataInfoId: svc, Version: 1, Values: []string{"a"}}, {Id: "b", DataInfoId: svc, Version: 7, Values: []string{"b"}},
		}})
		c.eventually("both are seen", sub.shows("a", "b"))
		r.send(&wirev1.ClientMessage{Goodbye: true})
		for {
			if _, err := r.stream.Receive(); err != nil {
				break
			}
		}
		c.eventually("both are gone", sub.shows())
		list := c.list(c.sessions["session-1"].server.Address(), "/v1/publishers")
		require.Len(t, list, 2)
		assert.Equal(t, true, list[0]["withdrawn"])
		assert.EqualValues(t, 2, list[0]["version"])
	})
}

// If a token is configured, registering requires it; with public reads, subscribing
// does not.
func TestTokenIsForRegistering(t *testing.T) {
	bubble(t, 1, 0, func(t *testing.T, c *cluster) {
		c.startSession("session-1", func(s *session.Config) { s.Token, s.PublicReads = "secret", true })
		c.settle()
		without := c.client("without")
		sub := c.watch(without, "svc")
		c.eventually("subscribing works", sub.shows())
		p := c.publish(without, "svc", "a")
		ctx, cancel := context.WithTimeout(c.ctx, time.Second)
		defer cancel()
		assert.Equal(t, wire.CodeUnauthorized, wire.CodeOf(p.Accepted(ctx)))
		assert.Equal(t, wire.CodeUnauthorized, wire.CodeOf(p.Err()))
		assert.Equal(t, wire.CodeUnauthorized, wire.CodeOf(p.Update([]string{"b"})))

		x, err := client.New(client.Config{Sessions: []string{c.sessions["session-1"].server.Address()}, Token: "secret", Network: c.host("with"), Rand: c.seed()})
		require.NoError(t, err)
		x.Start()
		c.published(x, "svc", "b")
		c.eventually("it is seen", sub.shows("b"))
		require.NoError(t, x.Close(ctx))
	})
}

// A client that reads nothing delays no other, and when it reads again it gets
// the newest list, not all versions.
func TestSlowClient_DelaysNoOther(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		slow := c.raw("slow", "session-1").hello("slow")
		defer slow.end()
		slow.send(&wirev1.ClientMessage{Subscribe: []*wirev1.Subscription{{Id: "s", DataInfoId: svc}}})
		sub := c.watch(c.client("reader"), "svc")
		large := strings.Repeat("x", conclave.MaxValue-10)
		p := c.published(c.client("writer"), "svc", large)
		const n = 200 // 12 MiB: more than the windows of the connection hold
		for i := range n {
			require.NoError(t, p.Update([]string{fmt.Sprint(i, large)}))
			time.Sleep(20 * time.Millisecond)
			slow.send(&wirev1.ClientMessage{Ping: 1})
		}
		c.eventually("the other sees the last", sub.shows(fmt.Sprint(n-1, large)))
		got, versions := 0, int64(0)
		slow.until(func(m *wirev1.ServerMessage) bool {
			last := ""
			for _, x := range m.GetPushes() {
				got++
				assert.Greater(t, x.GetDatum().GetVersion(), versions)
				versions, last = x.GetDatum().GetVersion(), strings.Join(x.GetDatum().GetValues(), "")
			}
			return strings.HasPrefix(last, fmt.Sprint(n-1))
		})
		assert.Less(t, got, n/2)
	})
}

// A client that pings, or has said good-bye, and does not read is given up after
// sendLimit.
func TestUnreadMessages_EndTheConnection(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		address := c.sessions["session-1"].server.Address()
		names := func() []string {
			out := []string{}
			for _, x := range c.list(address, "/v1/clients") {
				out = append(out, x["name"].(string))
			}
			return out
		}
		pings, leaves := c.raw("pings", "session-1").hello("pings"), c.raw("leaves", "session-1").hello("leaves")
		defer pings.end()
		defer leaves.end()
		for _, r := range []*raw{pings, leaves} {
			r.send(&wirev1.ClientMessage{Subscribe: []*wirev1.Subscription{{Id: "s", DataInfoId: svc}}})
		}
		large := strings.Repeat("x", conclave.MaxValue-10)
		p := c.published(c.client("writer"), "svc", large)
		for i := range 200 { // more than the windows of a connection hold
			require.NoError(t, p.Update([]string{fmt.Sprint(i, large)}))
			time.Sleep(20 * time.Millisecond)
			pings.send(&wirev1.ClientMessage{Ping: 1})
			leaves.send(&wirev1.ClientMessage{Ping: 1})
		}
		leaves.send(&wirev1.ClientMessage{Goodbye: true})
		for range 20 {
			pings.send(&wirev1.ClientMessage{Ping: 1})
			time.Sleep(time.Second)
		}
		assert.Subset(t, names(), []string{"pings", "leaves"})
		for range 12 {
			_ = pings.stream.Send(&wirev1.ClientMessage{Ping: 1})
			time.Sleep(time.Second)
		}
		assert.Equal(t, []string{"writer"}, names())
	})
}

// A dataId whose values exceed the size of a request is still pushed.
func TestLargeDatum(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		sub := c.watch(c.client("reader"), "svc")
		x := c.client("writer")
		var last *client.Publication
		const n = 150 // 9.6 MB
		for i := range n {
			last = c.publish(x, "svc", fmt.Sprint(i, " ", strings.Repeat("x", conclave.MaxValue-10)))
		}
		ctx, cancel := context.WithTimeout(c.ctx, time.Minute)
		defer cancel()
		require.NoError(t, last.Stored(ctx))
		c.eventually("all are seen", func() bool { return len(sub.last()) == n })
	})
}

// A living process has the name already: the session ends with an error.
func TestStart_EndsIfTheNameIsTaken(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		c.meta.reject(wire.Errorf(wire.CodeConflict, "session-2 lives elsewhere"))
		c.startSession("session-2")
		<-c.sessions["session-2"].done
		assert.Equal(t, wire.CodeConflict, wire.CodeOf(c.sessions["session-2"].err))
		assert.ErrorContains(t, c.sessions["session-2"].err, "session-2 lives elsewhere")
	})
}

// A client whose stream is full pings by calls: its connection stays, and what
// it has registered may be published. No other call counts for it.
func TestPing_KeepsAConnectionWhoseStreamIsFull(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		r := c.raw("full", "session-1")
		defer r.end()
		r.send(&wirev1.ClientMessage{Hello: &wirev1.ClientHello{Client: "full", Name: "full"}})
		m, err := r.stream.Receive()
		require.NoError(t, err)
		number := m.GetWelcome().GetConnection()
		r.send(&wirev1.ClientMessage{Publishers: []*wirev1.Publisher{{Id: "a", DataInfoId: svc, Version: 1, Values: []string{"a"}}}})
		address := c.sessions["session-1"].server.Address()
		ping := func(client string, number uint64) error {
			_, err := r.peers.Client(address).Ping(c.ctx, connect.NewRequest(&wirev1.PingRequest{Client: client, Connection: number}))
			return wire.FromConnect(err)
		}
		for range 30 {
			time.Sleep(time.Second)
			require.NoError(t, ping("full", number))
		}
		assert.Len(t, c.list(address, "/v1/clients"), 1)
		kill(c, c.datas["data-1"])
		c.startData("data-1")
		for range 10 {
			time.Sleep(time.Second)
			require.NoError(t, ping("full", number))
		}
		assert.Equal(t, []any{"a"}, c.stored("svc"), "it is published again, to a node that has lost its copy")

		for range 8 {
			time.Sleep(time.Second)
			assert.Equal(t, wire.CodeUnavailable, wire.CodeOf(ping("other", number)))
			assert.Equal(t, wire.CodeUnavailable, wire.CodeOf(ping("full", number+1)))
		}
		assert.Empty(t, c.list(address, "/v1/clients"), "the client itself was silent")
		assert.Equal(t, wire.CodeUnavailable, wire.CodeOf(ping("full", number)))
	})
}

// A ping that comes a lease after the one before it may have waited while the
// session was suspended: it ends the connection, as on the stream.
func TestPing_TooLateEndsTheConnection(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		r := c.raw("late", "session-1")
		defer r.end()
		r.send(&wirev1.ClientMessage{Hello: &wirev1.ClientHello{Client: "late", Name: "late"}})
		m, err := r.stream.Receive()
		require.NoError(t, err)
		number := m.GetWelcome().GetConnection()
		for range 6 { // registrations keep the stream, but they are no pings
			time.Sleep(time.Second)
			r.send(&wirev1.ClientMessage{Publishers: []*wirev1.Publisher{{Id: "a", DataInfoId: svc, Version: 1, Values: []string{"a"}}}})
		}
		address := c.sessions["session-1"].server.Address()
		assert.Len(t, c.list(address, "/v1/clients"), 1)
		_, err = r.peers.Client(address).Ping(c.ctx, connect.NewRequest(&wirev1.PingRequest{Client: "late", Connection: number}))
		assert.Equal(t, wire.CodeUnavailable, wire.CodeOf(wire.FromConnect(err)))
		c.eventually("its connection has ended", func() bool { return len(c.list(address, "/v1/clients")) == 0 })
	})
}

// A ping by a call may arrive while its stream ends, from either side: it does
// not touch a request whose handler has returned (the race detector notices).
func TestPing_MayOverlapTheEndOfTheStream(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		address := c.sessions["session-1"].server.Address()
		caller := wire.NewPeers(c.host("caller"), &wire.Interceptor{}, wire.PingTimeout)
		defer caller.Close()
		for i := range 30 {
			name := fmt.Sprint("c", i)
			r := c.raw(name, "session-1")
			r.send(&wirev1.ClientMessage{Hello: &wirev1.ClientHello{Client: name, Name: name}})
			m, err := r.stream.Receive()
			require.NoError(t, err)
			var calls sync.WaitGroup
			for range 4 {
				calls.Go(func() {
					_, _ = caller.Client(address).Ping(c.ctx, connect.NewRequest(&wirev1.PingRequest{Client: name, Connection: m.GetWelcome().GetConnection()}))
				})
			}
			r.end()
			calls.Wait()
		}
		c.eventually("all have left", func() bool { return len(c.list(address, "/v1/clients")) == 0 })
	})
}
