package session_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// While as many clients are being welcomed as may be, another one is sent that
// it waits, and is welcomed as soon as one of them has sent what it has. One that
// gives up frees nothing that it does not have.
func TestArrivals_OthersWaitInOrder(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		const places = 64
		start := time.Now()
		var first []*raw
		for i := range places {
			first = append(first, c.raw(fmt.Sprint("c", i), "session-1").hello(fmt.Sprint("c", i)))
			defer first[i].end()
		}
		waits := func(name string) *raw {
			r := c.raw(name, "session-1")
			r.send(&wirev1.ClientMessage{Hello: &wirev1.ClientHello{Client: name, Name: name}})
			m, err := r.stream.Receive()
			require.NoError(t, err)
			require.Nil(t, m.GetWelcome())
			require.Equal(t, 3*time.Second, wire.FromMs(m.GetWaitMs()))
			synctest.Wait() // it is in the queue before the next one
			return r
		}
		gone, next, last := waits("gone"), waits("next"), waits("last")
		defer next.end()
		defer last.end()
		gone.end()
		synctest.Wait() // the session has noticed
		require.Less(t, time.Since(start), 100*time.Millisecond)
		first[0].send(&wirev1.ClientMessage{Publishers: []*wirev1.Publisher{{Id: "a", DataInfoId: svc, Version: 1, Values: []string{"a"}}}})
		next.until(func(m *wirev1.ServerMessage) bool { return m.GetWelcome() != nil })
		require.Less(t, time.Since(start), 100*time.Millisecond)
		last.until(func(m *wirev1.ServerMessage) bool { return m.GetWelcome() != nil })
		assert.InDelta(t, 100, time.Since(start).Milliseconds(), 30, "the others are connected, with nothing to send")
		assert.Len(t, c.list(c.sessions["session-1"].server.Address(), "/v1/clients"), places+2)
	})
}

// Many clients connect at once: each is welcomed, and none of them gives up.
func TestArrivals_AllAreServed(t *testing.T) {
	bubble(t, 2, 1, func(t *testing.T, c *cluster) {
		var all []*client.Client
		for i := range 400 {
			all = append(all, c.client(fmt.Sprint("c", i), "session-1"))
		}
		ctx, cancel := context.WithTimeout(c.ctx, 10*time.Second)
		defer cancel()
		for i, x := range all {
			pub, err := x.Publish(ctx, fmt.Sprint("svc-", i), []string{"a"})
			require.NoError(t, err)
			require.NoError(t, pub.Stored(ctx))
		}
	})
}
