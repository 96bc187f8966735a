package session_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/session"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// startLimited starts a data node and a session with limits.
func (c *cluster) startLimited(change func(*session.Config)) {
	c.startData("data-1")
	c.startSession("session-1", change)
	c.settle()
}

// names returns the names of the clients that are connected to a session.
func (c *cluster) names(session string) (out []string) {
	for _, x := range c.list(c.sessions[session].server.Address(), "/v1/clients") {
		out = append(out, x["name"].(string))
	}
	return out
}

// metrics returns what a session exports.
func (c *cluster) metrics(session string) string {
	transport := &http.Transport{DialContext: c.host("operator").DialContext, DisableKeepAlives: true}
	res, err := (&http.Client{Transport: transport}).Get("http://" + c.sessions[session].server.Address() + "/metrics")
	require.NoError(c.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(c.t, err)
	return string(text)
}

// A client that exceeds a limit is refused that, and nothing else: what it has goes
// on, and so do other clients.
func TestLimits_ExcessIsRefusedAndNothingElse(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, c *cluster) {
		c.startLimited(func(s *session.Config) { s.MaxSubscriptions, s.MaxRegistrations = 2, 3 })
		r := c.raw("greedy", "session-1").hello("greedy")
		defer r.end()
		m := &wirev1.ClientMessage{}
		for i := range 5 {
			name := fmt.Sprintf("svc-%d#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP", i)
			m.Publishers = append(m.Publishers, &wirev1.Publisher{Id: fmt.Sprint("p", i), DataInfoId: name, Version: 1, Values: []string{"a"}})
			m.Subscribe = append(m.Subscribe, &wirev1.Subscription{Id: fmt.Sprint("s", i), DataInfoId: name})
		}
		r.send(m)
		codes, pushes, stored := map[string]string{}, map[string]int{}, 0
		r.until(func(m *wirev1.ServerMessage) bool {
			stored += len(m.GetStored())
			for _, x := range m.GetRefused() {
				codes[x.GetId()] = x.GetCode()
			}
			for _, p := range m.GetPushes() {
				for _, id := range p.GetSubscriptions() {
					pushes[id] = len(p.GetDatum().GetValues())
				}
			}
			return len(codes) == 5 && stored == 3 && pushes["s0"] == 1 && pushes["s1"] == 1
		})
		assert.Equal(t, map[string]string{"p3": "limit_reached", "p4": "limit_reached", "s2": "limit_reached", "s3": "limit_reached", "s4": "limit_reached"}, codes)

		// The SDK reports it, and its other subscriptions and registrations go on.
		x := c.client("app")
		for i := range 3 {
			c.published(x, fmt.Sprint("app-", i), "a")
		}
		over := c.publish(x, "app-3", "a")
		ctx, cancel := context.WithTimeout(c.ctx, time.Minute)
		defer cancel()
		assert.Equal(t, wire.CodeLimitReached, wire.CodeOf(over.Stored(ctx)))
		sub := c.watch(x, "app-0")
		c.eventually("it is pushed", sub.shows("a"))
		assert.Zero(t, x.Lost())
	})
}

// Messages that arrive in part end their streams when there are too many bytes of
// them from one address. Another address is served.
func TestLimits_UnfinishedMessagesAreBounded(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, c *cluster) {
		c.startLimited(func(*session.Config) {})
		at := c.sessions["session-1"].server.Address()
		type part struct {
			body io.WriteCloser
			res  chan string
		}
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		network := c.host("hostile")
		transport := &http.Transport{Protocols: protocols, DialContext: func(ctx context.Context, n, a string) (net.Conn, error) { return network.DialContext(ctx, n, a) }}
		defer transport.CloseIdleConnections()
		open := func() part {
			read, write := io.Pipe()
			p := part{write, make(chan string, 1)}
			req, err := http.NewRequestWithContext(c.ctx, http.MethodPost, "http://"+at+wirev1connect.ClientServiceConnectProcedure, read)
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/connect+proto")
			go func() {
				res, err := transport.RoundTrip(req)
				if err != nil {
					p.res <- err.Error()
					return
				}
				defer res.Body.Close()
				b, _ := io.ReadAll(res.Body)
				p.res <- string(b)
			}()
			return p
		}
		send := func(n int) (parts []part) { // each announces 4 MiB, and sends all but one byte
			for range n {
				p := open()
				parts = append(parts, p)
				_, err := p.body.Write([]byte{0, 0, 0x40, 0, 0})
				require.NoError(t, err)
				go func() {
					_, _ = io.WriteString(p.body, strings.Repeat("x", 4<<20-1))
				}()
			}
			time.Sleep(time.Second) // in virtual time: the session has read what it will read
			return parts
		}
		// The first fill all but 4 MiB of the 64, and the others do not fit: they have four
		// bytes more each, with the five that announce them. (Of streams that arrive
		// together any number may end, as one keeps its bytes until its handler has returned.)
		fit := send(15)
		rest := send(35)
		for i, p := range fit {
			assert.Empty(t, p.res, "stream %d is within the limit", i)
		}
		for i, p := range rest {
			if assert.Len(t, p.res, 1, "stream %d of the others has ended", i) {
				assert.Contains(t, <-p.res, "too many bytes of messages")
			}
		}
		c.published(c.client("writer"), "svc", "a")
		for _, p := range append(fit, rest...) {
			p.body.Close()
		}
		time.Sleep(10 * time.Second)
	})
}

// A client that does not read its answers loses its connection with an error of its
// own. One that reads is sent lists of any size, and any number of them at a time.
func TestLimits_OutboxEndsTheConnectionOfAClientThatDoesNotRead(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, c *cluster) {
		c.startLimited(func(s *session.Config) { s.MaxOutboxBytes = 128 << 10 })
		const topics = 40
		x := c.client("writer")
		value := strings.Repeat("v", 60<<10)
		for i := range topics * 2 {
			c.published(x, fmt.Sprint("svc-", i%topics), fmt.Sprint(i, value))
		}
		for i := range 60 { // 3.6 MB
			c.published(x, "large", fmt.Sprint(i, value))
		}
		r := c.raw("reads nothing", "session-1").hello("reads nothing")
		defer r.end()
		m := &wirev1.ClientMessage{}
		for i := range topics {
			m.Subscribe = append(m.Subscribe, &wirev1.Subscription{Id: fmt.Sprint("s", i), DataInfoId: fmt.Sprintf("svc-%d#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP", i)})
		}
		r.send(m)
		time.Sleep(2 * time.Second)
		assert.ElementsMatch(t, []string{"writer", "reads nothing"}, c.names("session-1"), "the session has these lists in any case")
		for i := range 2 {
			m := &wirev1.ClientMessage{}
			for n := range 500 {
				m.Publishers = append(m.Publishers, &wirev1.Publisher{Id: fmt.Sprintf("%d-%0100d", i, n), DataInfoId: "other#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP", Version: 1})
			}
			r.send(m)
		}
		time.Sleep(2 * time.Second)
		assert.Equal(t, []string{"writer"}, c.names("session-1"))
		assert.Contains(t, c.metrics("session-1"), "conclave_session_unread_total 1\n")
		var err error
		for err == nil {
			_, err = r.stream.Receive()
		}

		reader := c.client("reader")
		subs := []*history{c.watch(reader, "large")}
		for i := range topics {
			subs = append(subs, c.watch(reader, fmt.Sprint("svc-", i)))
		}
		c.eventually("all are pushed", func() bool {
			for i, sub := range subs {
				all, want := sub.all(), 2
				if i == 0 {
					want = 60
				}
				if len(all) == 0 || len(all[len(all)-1].Values) != want {
					return false
				}
			}
			return true
		})
		assert.Zero(t, reader.Lost())
	})
}
