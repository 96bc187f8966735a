package session_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/internal/logging"
	"conclave/session"
	"conclave/session/registry"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// lingering starts a client with a linger, which ends without a good-bye.
func (c *cluster) lingering(name string, linger time.Duration, sessions ...string) (x *client.Client, leave func()) {
	for i, n := range sessions {
		sessions[i] = c.sessions[n].server.Address()
	}
	x, err := client.New(client.Config{
		Sessions: sessions, Name: name, Linger: linger, Network: c.host(name), Logger: logging.Slog(c.logger(name)), Rand: c.seed(),
	})
	require.NoError(c.t, err)
	ctx, leave := context.WithCancel(c.ctx)
	c.all.Go(func() { _ = x.Run(ctx) }) // its error is that of ctx
	c.clients = append(c.clients, x)
	return x, leave
}

// A client with a linger gives up a silent session and connects to another: it
// has not sent its last message to the first one, which must not publish its
// old copies.
func TestLinger_ClientThatMovedIsHeldBack(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		c.gated("session-2")
		c.settle()
		sub := c.watch(c.client("reader", "session-1"), "svc")
		writer, _ := c.lingering("writer", time.Hour, "session-2")
		pub := c.published(writer, "svc", "old")
		c.eventually("it is seen", sub.shows("old"))

		c.net.Cut("session-2", "writer") // from the session to the client only
		c.eventually("the writer is at session-1", func() bool {
			on := writer.Connected()
			return len(on) == 1 && on[0].Name == "session-1"
		})
		require.NoError(t, pub.Update([]string{"new"}))
		c.eventually("the update is seen", sub.shows("new"))
		require.NoError(t, pub.Withdraw())
		c.eventually("the withdrawal is seen", sub.shows())
		seen := len(sub.all())

		thaw, wake := c.suspend("session-2")
		time.Sleep(time.Minute)
		thaw()
		time.Sleep(10 * time.Second)
		wake()
		time.Sleep(10 * time.Second)
		assert.Empty(t, c.stored("svc"))
		assert.Len(t, sub.all(), seen, "no withdrawn value is visible again")
	})
}

// A client with a linger moves from a suspended session to another, changes its value
// and leaves. Its linger ends, and all copies are lost. When the first session resumes,
// it may still publish its old copy, which the end of the linger must hide.
func TestLinger_ItsEndHidesAnOlderCopy(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		c.gated("session-2")
		c.settle()
		sub := c.watch(c.client("reader", "session-1"), "svc")
		writer, leave := c.lingering("writer", time.Second, "session-2")
		pub := c.published(writer, "svc", "old")
		c.eventually("it is seen", sub.shows("old"))

		thaw, wake := c.suspend("session-2")
		suspended := time.Now()
		c.eventually("the writer is at session-1", func() bool {
			on := writer.Connected()
			return len(on) == 1 && on[0].Name == "session-1"
		})
		require.NoError(t, pub.Update([]string{"new"}))
		c.eventually("the update is seen", sub.shows("new"))
		require.NoError(t, pub.Stored(t.Context()))
		leave()
		c.eventually("its linger has ended", sub.shows())
		seen := len(sub.all())

		kill(c, c.datas["data-1"])
		c.startData("data-1")
		thaw()
		require.Less(t, time.Since(suspended), registry.FreshFor(session.DefaultConfig().SessionGrace)-2*time.Second, "the old copy may be published")
		for range 30 {
			time.Sleep(200 * time.Millisecond)
			require.Empty(t, c.stored("svc"))
		}
		wake()
		time.Sleep(10 * time.Second)
		assert.Empty(t, c.stored("svc"))
		for _, d := range sub.all()[seen:] {
			assert.Empty(t, d.Values, "no older value is visible again")
		}
	})
}

// The registrations of a client with a linger that left in order are published
// for as long as it announced: its session restores them on a data node that
// lost everything, long after the client's last message.
func TestLinger_ClientThatLeftIsStillPublished(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		writer, leave := c.lingering("writer", time.Hour, "session-1")
		c.published(writer, "svc", "a")
		leave()
		time.Sleep(30 * time.Second)
		kill(c, c.datas["data-1"])
		c.startData("data-1")
		c.eventually("data has it again", func() bool { return len(c.stored("svc")) == 1 })
	})
}

// What a client with a linger has left outlives a session that stops, for the rest of
// the linger: the session hands it over. The push guard, which holds back what is lost
// with a session, has nothing to hold.
func TestLinger_OutlivesASessionThatStops(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		sub := c.watch(c.client("reader", "session-2"), "svc")
		writer, leave := c.lingering("writer", 90*time.Second, "session-1")
		want := []string{}
		for i := range 300 { // more than one message has
			want = append(want, fmt.Sprint(i))
			_, err := writer.Publish(t.Context(), "svc", want[i:])
			require.NoError(t, err)
		}
		slices.Sort(want)
		gone, err := writer.Publish(t.Context(), "svc", []string{"withdrawn"})
		require.NoError(t, err)
		require.NoError(t, gone.Stored(t.Context()))
		require.NoError(t, gone.Withdraw())
		c.eventually("all are seen", sub.shows(want...))
		leave()
		left := time.Now()
		time.Sleep(10 * time.Second)
		require.NoError(t, c.sessions["session-1"].server.Shutdown(c.ctx))
		seen := len(sub.all())

		time.Sleep(time.Until(left.Add(89 * time.Second)))
		assert.Len(t, sub.all(), seen, "no push: nothing was lost")
		c.eventually("they go when the linger has ended", sub.shows())
		assert.WithinDuration(t, left.Add(90*time.Second), time.Now(), 2*time.Second)
	})
}

// What a client with a linger has left at a session that is killed stays for at least
// the session grace, and goes then: no other session knows of the linger.
func TestLinger_SessionThatIsKilledLeavesTheGrace(t *testing.T) {
	bubble(t, 1, 2, func(t *testing.T, c *cluster) {
		grace := session.DefaultConfig().SessionGrace
		sub := c.watch(c.client("reader", "session-2"), "svc")
		writer, leave := c.lingering("writer", time.Hour, "session-1")
		c.published(writer, "svc", "a")
		c.eventually("it is seen", sub.shows("a"))
		leave()
		time.Sleep(10 * time.Second)
		kill(c, c.sessions["session-1"])
		killed := time.Now()

		time.Sleep(grace)
		assert.Len(t, c.stored("svc"), 1)
		c.eventually("data removes it", func() bool { return len(c.stored("svc")) == 0 })
		c.eventually("the push guard lets it go", sub.shows())
		assert.Less(t, time.Since(killed), 3*grace)
	})
}

// A session that stops says what it could not hand over.
func TestLinger_NoSessionTakesIt(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		writer, leave := c.lingering("writer", time.Hour, "session-1")
		c.published(writer, "svc", "a")
		leave()
		time.Sleep(time.Second)
		require.ErrorContains(t, c.sessions["session-1"].server.Shutdown(c.ctx), "what 1 clients have left stays for the session grace: no other session takes clients")
	})
}

// A session that does not answer takes no time from those that do.
func TestLinger_GoesToTheSessionThatAnswers(t *testing.T) {
	bubble(t, 1, 3, func(t *testing.T, c *cluster) {
		var leave []func()
		for i := range 200 {
			w, leaves := c.lingering(fmt.Sprint("writer-", i), time.Hour, "session-1")
			c.published(w, "svc", fmt.Sprint(i))
			leave = append(leave, leaves)
		}
		for _, leaves := range leave {
			leaves()
		}
		time.Sleep(time.Second)
		c.net.Cut("session-1", "session-2")
		c.net.Cut("session-2", "session-1")
		require.NoError(t, c.sessions["session-1"].server.Shutdown(c.ctx))
		time.Sleep(time.Minute)
		assert.Len(t, c.stored("svc"), 200)
	})
}

// A stop does not wait for a session to which data does not answer.
func TestLinger_HandingOverHasALimit(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		c.startSession("session-2", func(x *session.Config) { x.ClientLease, x.SessionGrace = 40*time.Second, time.Minute })
		c.settle()
		writer, leave := c.lingering("writer", time.Hour, "session-1")
		c.published(writer, "svc", "a")
		leave()
		time.Sleep(time.Second)
		c.net.Cut("session-2", "data-1")
		c.net.Cut("data-1", "session-2")
		start := time.Now()
		require.ErrorContains(t, c.sessions["session-1"].server.Shutdown(c.ctx), "what 1 of 1 clients have left stays for the session grace")
		assert.Less(t, time.Since(start), 10*time.Second)
	})
}

// What the other session refuses does not keep the rest from it, and a client that
// is connected there is not replaced.
func TestLinger_HandsOverTheRest(t *testing.T) {
	bubble(t, 1, 2, func(t *testing.T, c *cluster) {
		x := c.raw("shop", "session-1")
		x.send(&wirev1.ClientMessage{Hello: &wirev1.ClientHello{Client: "shop", LingerMs: 3600_000}})
		x.until(func(m *wirev1.ServerMessage) bool { return m.GetWelcome() != nil })
		for i := range 300 {
			x.answer(&wirev1.Publisher{Id: fmt.Sprintf("%03d", i), DataInfoId: svc, Version: 1, Values: []string{fmt.Sprint(i)}})
		}
		require.NoError(t, x.stream.CloseRequest())
		time.Sleep(time.Second)
		other := c.raw("other", "session-2").hello("other")
		defer other.end()
		other.answer(&wirev1.Publisher{Id: "000", DataInfoId: svc, Version: 2, Values: []string{"new"}})
		for _, departed := range []*wirev1.Departed{{}, {Identity: strings.Repeat("x", 129)}} {
			again := c.raw("again", "session-2")
			again.send(&wirev1.ClientMessage{Hello: &wirev1.ClientHello{Client: "other", Departed: departed}})
			_, err := again.stream.Receive()
			assert.Contains(t, []wire.Code{wire.CodeConflict, wire.CodeBadRequest}, wire.CodeOf(wire.FromConnect(err)), "%v", err)
			again.end()
		}
		require.ErrorContains(t, c.sessions["session-1"].server.Shutdown(c.ctx), "registration 000 is at version 2, which is above 1")
		time.Sleep(time.Minute)
		assert.Len(t, c.stored("svc"), 299, "all others; the other client does not ping")
	})
}
