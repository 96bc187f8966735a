package hostile_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"conclave/wire"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// attack is one way to harm the cluster.
type attack struct {
	name string
	play func(ctx context.Context, t *testing.T, w *world)
}

// attacks are those of issue 16, and others.
var attacks = []attack{
	{"a compressed bomb", compressedBomb},
	{"messages that inflate", messagesThatInflate},
	{"giant fields and names", giantFields},
	{"thousands of subscriptions", thousandsOfSubscriptions},
	{"subscribing and unsubscribing, unread", subscribingInTurn},
	{"thousands of streams", thousandsOfStreams},
	{"thousands of connections", thousandsOfConnections},
	{"slow readers of a large list", slowReaders},
	{"messages in part", messagesInPart},
	{"bodies in part, without a token", bodiesInPart},
	{"versions that were never pushed", claimedVersions},
	{"a stranger's registration", strangersRegistration},
	{"web pages of others", foreignOrigins},
	{"a publisher's token as a node's", publisherAsNode},
	{"terms that no leader reaches", impossibleTerms},
	{"half-open HTTP/2", halfOpen},
	{"streams that are reset", rapidReset},
	{"floods of header fields", headerFloods},
	{"slowloris", slowloris},
	{"answers that are not read", unreadAnswers},
}

func compressedBomb(ctx context.Context, t *testing.T, w *world) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(make([]byte, 64<<20))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	for _, node := range []string{"session-1", "data-1", "meta-1"} {
		path, header := wirev1connect.NodeServiceHelloProcedure, http.Header{"Content-Type": {"application/proto"}, "Content-Encoding": {"gzip"}}
		assert.NotEqual(t, http.StatusOK, post(ctx, w.at[node], path, malloryToken, header, bytes.NewReader(packed.Bytes())), node)
	}
	header := http.Header{"Content-Type": {"application/connect+proto"}, "Connect-Content-Encoding": {"gzip"}}
	each(16, func(int) {
		call(ctx, w.at["session-1"], malloryToken, header, bytes.NewReader(enveloped(1, packed.Bytes())))
	})
}

func messagesThatInflate(ctx context.Context, t *testing.T, w *world) {
	ctx, end := lasting(ctx, 3*time.Second)
	defer end()
	for _, entries := range []int{2_000, 30_000, 60_000} {
		m := &wirev1.ClientMessage{}
		for range entries {
			m.Publishers = append(m.Publishers, &wirev1.Publisher{})
		}
		each(32, func(i int) {
			c := newConn(malloryToken)
			defer c.peers.Close()
			s := c.open(ctx, w.at["session-1"], name(i))
			defer s.cancel()
			for range 10 {
				if s.Send(m) != nil {
					return
				}
			}
			_ = s.until(func(m *wirev1.ServerMessage) bool { return len(m.GetRefused()) > 0 }) // or it was ended
		})
	}
}

func giantFields(ctx context.Context, t *testing.T, w *world) {
	long := strings.Repeat("x", 3<<20)
	ctx, end := lasting(ctx, 5*time.Second)
	defer end()
	each(8, func(i int) {
		c := newConn(malloryToken)
		defer c.peers.Close()
		s := c.open(ctx, w.at["session-1"], long)
		err := s.until(func(*wirev1.ServerMessage) bool { return true })
		assert.Error(t, err, "a hello with a giant name")
		s.cancel()
		s = c.open(ctx, w.at["session-1"], name(i))
		defer s.cancel()
		refused := 0
		for _, m := range []*wirev1.ClientMessage{
			{Publishers: []*wirev1.Publisher{{Id: long, DataInfoId: dataInfo("x"), Version: 1}}},
			{Publishers: []*wirev1.Publisher{{Id: "x", DataInfoId: long, Version: 1}}},
			{Publishers: []*wirev1.Publisher{{Id: "x", DataInfoId: dataInfo("x"), Version: 1, Values: []string{long}}}},
			{Subscribe: []*wirev1.Subscription{{Id: long, DataInfoId: dataInfo("x")}}},
			{Watch: []string{long}, Unwatch: []string{long}, Unsubscribe: []string{long}},
		} {
			if s.Send(m) != nil {
				return
			}
		}
		_ = s.until(func(m *wirev1.ServerMessage) bool {
			for _, r := range m.GetRefused() {
				refused++
				assert.LessOrEqual(t, len(r.GetId())+len(r.GetMessage()), 1024, "a refusal repeats little")
			}
			return refused >= 4
		})
	})
}

func thousandsOfSubscriptions(ctx context.Context, t *testing.T, w *world) {
	ctx, end := lasting(ctx, 10*time.Second)
	defer end()
	var refused atomic.Int64
	each(8, func(i int) {
		c := newConn(malloryToken)
		defer c.peers.Close()
		s := c.open(ctx, w.at["session-1"], name(i))
		defer s.cancel()
		go func() { // ends with the stream
			for part := range 10 {
				m := &wirev1.ClientMessage{}
				for n := range 1000 {
					id := fmt.Sprint(i, "-", part, "-", n)
					m.Subscribe = append(m.Subscribe, &wirev1.Subscription{Id: id, DataInfoId: dataInfo(id), Publishers: make([]uint32, 100)})
				}
				if s.Send(m) != nil {
					return
				}
			}
		}()
		seen := 0
		err := s.until(func(m *wirev1.ServerMessage) bool {
			for _, r := range m.GetRefused() {
				assert.Equal(t, string(wire.CodeLimitReached), r.GetCode())
				seen++
			}
			return seen >= 5000
		})
		assert.NoError(t, err, "%d are refused", seen)
		refused.Add(int64(seen))
	})
	assert.GreaterOrEqual(t, refused.Load(), int64(8*5000))
}

// subscribingInTurn makes a session read a large list again and again for
// subscriptions that end before it is sent.
func subscribingInTurn(ctx context.Context, t *testing.T, w *world) {
	w.large(ctx, t)
	ctx, end := lasting(ctx, 2*time.Second)
	defer end()
	each(16, func(i int) {
		c := newConn(malloryToken)
		defer c.peers.Close()
		s := c.open(ctx, w.at["session-1"], name(i))
		defer s.cancel()
		for n := 0; ctx.Err() == nil; n++ {
			if s.Send(&wirev1.ClientMessage{Subscribe: []*wirev1.Subscription{{Id: fmt.Sprint(n), DataInfoId: dataInfo("large")}}}) != nil {
				return
			}
			if s.Send(&wirev1.ClientMessage{Unsubscribe: []string{fmt.Sprint(n)}, Ping: 1}) != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
}

func thousandsOfStreams(ctx context.Context, t *testing.T, w *world) {
	ctx, end := lasting(ctx, 4*time.Second)
	defer end()
	c := newConn(malloryToken)
	defer c.peers.Close()
	var streams []stream
	for i := range 3000 {
		if ctx.Err() != nil {
			break
		}
		streams = append(streams, c.open(ctx, w.at["session-1"], name(i)))
	}
	t.Logf("%d streams", len(streams))
	<-ctx.Done()
	for _, s := range streams {
		s.cancel()
	}
}

func thousandsOfConnections(ctx context.Context, t *testing.T, w *world) {
	var open []net.Conn
	for range 3000 {
		if c := dial(ctx, w.at["session-1"]); c != nil {
			open = append(open, c)
		}
	}
	// Those beyond the limit are closed at once. The others are closed when no header
	// has come.
	time.Sleep(time.Second)
	closed := 0
	for _, c := range open {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond)) // a connection cannot refuse it
		if _, err := c.Read(make([]byte, 1)); err != nil && !isTimeout(err) {
			closed++
		}
	}
	t.Logf("%d connections, %d closed", len(open), closed)
	assert.GreaterOrEqual(t, closed, len(open)-2000)
	for _, c := range open {
		c.Close()
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error) //nolint:errorlint // as net returns it
	return ok && e.Timeout()
}

// large registers a list of 3 MB, as an honest publisher may.
func (w *world) large(ctx context.Context, t *testing.T) {
	if w.hasLarge {
		return
	}
	w.hasLarge = true
	ctx, end := lasting(ctx, 30*time.Second)
	defer end()
	for i := range 50 {
		p, err := w.writers[0].Publish(ctx, "large", []string{fmt.Sprint(i, strings.Repeat("l", 60<<10))})
		require.NoError(t, err)
		require.NoError(t, p.Stored(ctx))
	}
}

// slowReaders subscribe to a large list, ping, and read nothing.
func slowReaders(ctx context.Context, t *testing.T, w *world) {
	w.large(ctx, t)
	ctx, end := lasting(ctx, 3*time.Second)
	defer end()
	each(200, func(i int) {
		c := dial(ctx, w.at["session-1"])
		if c == nil {
			return
		}
		defer c.Close()
		message := func(m *wirev1.ClientMessage) string {
			b, err := proto.Marshal(m)
			assert.NoError(t, err)
			return frame(frameData, 0, 1, string(enveloped(0, b)))
		}
		// A window that has room for a welcome, and not for a list.
		_, _ = io.WriteString(c, preface+settings(4, 4096)+frame(frameHeaders, flagEndHeaders, 1, connectFields(malloryToken))+
			message(&wirev1.ClientMessage{Hello: &wirev1.ClientHello{Client: name(i), Name: name(i)}})+
			message(&wirev1.ClientMessage{Subscribe: []*wirev1.Subscription{{Id: "s", DataInfoId: dataInfo("large")}}}))
		for n := uint64(1); ctx.Err() == nil; n++ {
			time.Sleep(500 * time.Millisecond)
			if _, err := io.WriteString(c, message(&wirev1.ClientMessage{Ping: n})); err != nil {
				return
			}
		}
	})
}

// messagesInPart sends all of 4 MiB but the end, on many streams.
func messagesInPart(ctx context.Context, t *testing.T, w *world) {
	ctx, end := lasting(ctx, 3*time.Second)
	defer end()
	body := append([]byte{0, 0, 0x3f, 0xff, 0xff}, make([]byte, 4<<20-16)...)
	each(250, func(int) {
		read, write := io.Pipe()
		defer write.Close()
		go func() {
			_, _ = write.Write(body) // until the end of the request
		}()
		header := http.Header{"Content-Type": {"application/connect+proto"}}
		call(ctx, w.at["session-1"], malloryToken, header, read)
	})
}

func bodiesInPart(ctx context.Context, t *testing.T, w *world) {
	ctx, end := lasting(ctx, 4*time.Second)
	defer end()
	each(90, func(i int) {
		read, write := io.Pipe()
		defer write.Close()
		go func() {
			_, _ = write.Write(make([]byte, 15<<20)) // until the end of the request
		}()
		node := []string{"meta-1", "data-1", "session-1"}[i%3]
		header := http.Header{"Content-Type": {"application/proto"}}
		assert.NotEqual(t, http.StatusOK, post(ctx, w.at[node], wirev1connect.NodeServiceHelloProcedure, "", header, read))
	})
}

func claimedVersions(ctx context.Context, t *testing.T, w *world) {
	ctx, end := lasting(ctx, 5*time.Second)
	defer end()
	c := newConn(readerToken)
	defer c.peers.Close()
	s := c.open(ctx, w.at["session-1"], "claims")
	defer s.cancel()
	for i, version := range []int64{1 << 52, 1<<53 - 1, math.MaxInt64, -1} {
		_ = s.Send(&wirev1.ClientMessage{Subscribe: []*wirev1.Subscription{{Id: fmt.Sprint(i), DataInfoId: dataInfo("honest"), Version: version, Hash: 1}}})
	}
	refused := map[string]bool{}
	err := s.until(func(m *wirev1.ServerMessage) bool {
		for _, r := range m.GetRefused() {
			refused[r.GetId()] = true
		}
		return len(refused) == 4
	})
	assert.NoError(t, err, "refused: %v", refused)
}

func strangersRegistration(ctx context.Context, t *testing.T, w *world) {
	ctx, end := lasting(ctx, 5*time.Second)
	defer end()
	p, err := w.writers[0].Publish(ctx, "strangers", []string{"mine"})
	require.NoError(t, err)
	require.NoError(t, p.Stored(ctx))
	c := newConn(malloryToken)
	defer c.peers.Close()
	s := c.open(ctx, w.at["session-1"], "mallory")
	defer s.cancel()
	_ = s.Send(&wirev1.ClientMessage{Publishers: []*wirev1.Publisher{{Id: p.ID(), DataInfoId: dataInfo("strangers"), Version: 1 << 40, Withdrawn: true}}})
	assert.NoError(t, s.until(func(m *wirev1.ServerMessage) bool {
		assert.Empty(t, m.GetAccepted())
		return len(m.GetRefused()) == 1
	}))
	sub, err := w.readers[1].Subscribe("strangers")
	require.NoError(t, err)
	defer sub.Close()
	assert.Eventually(t, func() bool { d, ok := sub.Last(); return ok && len(d.Values) == 1 }, 5*time.Second, 10*time.Millisecond)
}

func foreignOrigins(ctx context.Context, t *testing.T, w *world) {
	header := http.Header{"Origin": {"http://evil.example"}, "Content-Type": {"text/plain"}, "Sec-Fetch-Site": {"cross-site"}}
	for node, paths := range map[string][]string{
		"meta-1":    {"/v1/leader/resign", "/v1/election/quit", "/v1/stopping"},
		"data-1":    {"/v1/stopping", wirev1connect.DataServiceFinishProcedure},
		"session-1": {"/v1/stopping", wirev1connect.ClientServicePingProcedure},
	} {
		for _, path := range paths {
			for _, token := range []string{"", operatorToken} {
				assert.Equal(t, http.StatusForbidden, post(ctx, w.at[node], path, token, header, strings.NewReader("{}")), "%s %s", node, path)
			}
		}
	}
}

func publisherAsNode(ctx context.Context, t *testing.T, w *world) {
	c := newConn(malloryToken)
	defer c.peers.Close()
	for _, meta := range []string{"meta-1", "meta-2"} {
		_, err := c.peers.Meta(w.at[meta]).Witness(ctx, connect.NewRequest(&wirev1.WitnessRequest{Term: 1, Lock: "x"}))
		assert.Equal(t, wire.CodeForbidden, wire.CodeOf(wire.FromConnect(err)), "%v", err)
		_, err = c.peers.Meta(w.at[meta]).Wake(ctx, connect.NewRequest(&wirev1.WakeRequest{Term: 1}))
		assert.Equal(t, wire.CodeForbidden, wire.CodeOf(wire.FromConnect(err)), "%v", err)
	}
	_, err := c.peers.Data(w.at["data-1"]).Finish(ctx, connect.NewRequest(&wirev1.FinishRequest{}))
	assert.Equal(t, wire.CodeForbidden, wire.CodeOf(wire.FromConnect(err)), "%v", err)
	_, err = c.peers.Session(w.at["session-1"]).Diff(ctx, connect.NewRequest(&wirev1.DiffRequest{}))
	assert.Equal(t, wire.CodeForbidden, wire.CodeOf(wire.FromConnect(err)), "%v", err)
	assert.Equal(t, http.StatusForbidden, post(ctx, w.at["meta-1"], "/v1/leader/resign", malloryToken, nil, nil))
}

// impossibleTerms are sent with the token of a node.
func impossibleTerms(ctx context.Context, t *testing.T, w *world) {
	ctx, end := lasting(ctx, 10*time.Second)
	defer end()
	c := newConn(nodeToken)
	defer c.peers.Close()
	epoch := &wirev1.Epoch{Term: math.MaxUint64, Seq: math.MaxUint64}
	mallory := &wirev1.Node{Name: "data-9", Incarnation: "x"}
	high := wire.WithTerm(ctx, math.MaxUint64)
	for node, address := range w.at {
		_, err := c.peers.Node(address).Announce(high, connect.NewRequest(&wirev1.AnnounceRequest{Term: math.MaxUint64, Leader: mallory, Address: attackerIP + ":1"}))
		assert.Error(t, err, "announced to %s", node)
	}
	for slot := range uint32(16) {
		for _, data := range []string{"data-1", "data-2"} {
			_, _ = c.peers.Data(w.at[data]).Finish(ctx, connect.NewRequest(&wirev1.FinishRequest{Successor: mallory, Slots: []*wirev1.FinishSlot{{Slot: slot, LeaderEpoch: epoch}}}))
			_, _ = c.peers.Data(w.at[data]).Finish(high, connect.NewRequest(&wirev1.FinishRequest{Successor: mallory, Slots: []*wirev1.FinishSlot{{Slot: slot, LeaderEpoch: epoch}}}))
		}
		for _, session := range []string{"session-1", "session-2"} {
			_, _ = c.peers.Session(w.at[session]).Diff(ctx, connect.NewRequest(&wirev1.DiffRequest{Asker: mallory, AskerAddress: attackerIP + ":1", Slot: slot, LeaderEpoch: epoch}))
		}
	}
	for _, meta := range []string{"meta-1", "meta-2"} {
		_, _ = c.peers.Meta(w.at[meta]).Wake(ctx, connect.NewRequest(&wirev1.WakeRequest{Term: math.MaxUint64}))
		_, _ = c.peers.Meta(w.at[meta]).Witness(high, connect.NewRequest(&wirev1.WitnessRequest{Term: math.MaxUint64, Lock: "x"}))
	}
	// Every slot still takes writes.
	for i := range 32 {
		p, err := w.writers[1].Publish(ctx, fmt.Sprint("after-", i), []string{"a"})
		require.NoError(t, err)
		require.NoError(t, p.Stored(ctx), "after-%d", i)
	}
	time.Sleep(4 * time.Second) // longer than the leases
}

func halfOpen(ctx context.Context, t *testing.T, w *world) {
	ctx, end := lasting(ctx, 3*time.Second)
	defer end()
	beginnings := []string{
		"", preface, preface + settings(), preface[:10],
		preface + settings() + frame(frameHeaders, 0, 1, connectFields(malloryToken)),              // no end of the headers
		preface + settings(4, 0) + frame(frameHeaders, flagEndHeaders, 1, connectFields("")),       // and no window
		preface + settings(4, 0) + frame(frameHeaders, flagEndHeaders, 1, connectFields("t-shop")), // no hello
		preface + settings() + frame(frameData, 0, 99, "x") + strings.Repeat("\xff", 9),
	}
	each(400, func(i int) {
		node := []string{"meta-1", "data-1", "session-1", "session-2"}[i%4]
		if c := dial(ctx, w.at[node]); c != nil {
			defer c.Close()
			_, _ = io.WriteString(c, beginnings[i/4%len(beginnings)])
			<-ctx.Done()
		}
	})
}

func rapidReset(ctx context.Context, t *testing.T, w *world) {
	ctx, end := lasting(ctx, 3*time.Second)
	defer end()
	each(2, func(int) {
		c := dial(ctx, w.at["session-1"])
		if c == nil {
			return
		}
		defer c.Close()
		go func() { _, _ = io.Copy(io.Discard, c) }()
		_, err := io.WriteString(c, preface+settings())
		for id := uint32(1); err == nil && ctx.Err() == nil; id += 2 {
			_, err = io.WriteString(c, frame(frameHeaders, flagEndHeaders, id, connectFields(malloryToken))+frame(frameReset, 0, id, "\x00\x00\x00\x08"))
		}
	})
}

func headerFloods(ctx context.Context, t *testing.T, w *world) {
	ctx, end := lasting(ctx, 3*time.Second)
	defer end()
	field := fields("x-filler= " + strings.Repeat("f", 100))
	each(8, func(i int) {
		c := dial(ctx, w.at[[]string{"meta-1", "session-1"}[i%2]])
		if c == nil {
			return
		}
		defer c.Close()
		go func() { _, _ = io.Copy(io.Discard, c) }()
		var err error
		if i < 4 { // HTTP/1.1
			_, err = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
			for n := 0; err == nil && ctx.Err() == nil; n++ {
				_, err = fmt.Fprintf(c, "X-Filler-%d: %s\r\n", n, strings.Repeat("f", 1000))
			}
			assert.Error(t, err, "a header without end")
			return
		}
		_, err = io.WriteString(c, preface+settings()+frame(frameHeaders, 0, 1, connectFields("")))
		for err == nil && ctx.Err() == nil {
			_, err = io.WriteString(c, frame(frameContinuation, 0, 1, strings.Repeat(field, 100)))
		}
		assert.Error(t, err, "a header without end, in frames")
	})
}

func slowloris(ctx context.Context, t *testing.T, w *world) {
	ctx, end := lasting(ctx, 6500*time.Millisecond)
	defer end()
	var ended atomic.Int64
	const n = 400
	each(n, func(i int) {
		c := dial(ctx, w.at[[]string{"meta-1", "data-1", "session-1", "session-2"}[i%4]])
		if c == nil {
			return
		}
		defer c.Close()
		_, err := io.WriteString(c, "GET /v1/leader HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
		for err == nil && ctx.Err() == nil {
			time.Sleep(200 * time.Millisecond)
			_, err = io.WriteString(c, "s")
		}
		if err != nil {
			ended.Add(1)
		}
	})
	assert.Greater(t, ended.Load(), int64(n/2), "a header takes five seconds at most")
}

func unreadAnswers(ctx context.Context, t *testing.T, w *world) {
	ctx, end := lasting(ctx, 3*time.Second)
	defer end()
	paths := map[string][]string{
		"session-1": {"/v1/publishers", "/v1/clients", "/v1/subscribers", "/metrics", "/v1/events"},
		"data-1":    {"/v1/datums", "/v1/slots", "/metrics"},
		"meta-1":    {"/v1/elections", "/v1/slots", "/v1/nodes", "/metrics", "/v1/events"},
	}
	each(300, func(i int) {
		node := []string{"session-1", "data-1", "meta-1"}[i%3]
		c := dial(ctx, w.at[node])
		if c == nil {
			return
		}
		defer c.Close()
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(1024) // as little as the kernel allows
		}
		path := paths[node][i/3%len(paths[node])]
		for ctx.Err() == nil {
			_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)) // the node has stopped reading by then
			if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", path, readerToken); err != nil {
				<-ctx.Done()
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}
