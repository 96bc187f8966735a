package session

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"

	"conclave"
	_ "conclave/internal/bubble"
	"conclave/session/registry"
	"conclave/wire/admit"
	wirev1 "conclave/wire/v1"
)

// subscriber is a connection from an address, and the pongs that it was sent.
type subscriber struct {
	conn    *connection
	pongs   []uint64
	refused int
}

func (c *clientService) subscriber(host string) *subscriber {
	s := &subscriber{conn: &connection{Owner: &registry.Owner{Client: host, Host: host}, abort: func() {}}}
	s.conn.subscribing = &backlog[*wirev1.Subscription]{size: subscriptionSize, intake: c.subscriptions, host: host}
	s.conn.out = &outbox{unread: func() {}, failed: func() {}, full: func() {}, send: func(m *wirev1.ServerMessage) error {
		if m.GetPong() > 0 {
			s.pongs = append(s.pongs, m.Pong)
		}
		s.refused += len(m.GetRefused())
		return nil
	}}
	return s
}

// paced runs a test with a service that takes subscriptions, in virtual time.
func paced(t *testing.T, run func(t *testing.T, ctx context.Context, c *clientService)) {
	synctest.Test(t, func(t *testing.T) {
		r := registry.New(time.Hour, 0, nil)
		r.Resize(1, time.Now())
		r.Adopt(0, conclave.Epoch{Term: 1}, "data-1", time.Now())
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		run(t, ctx, &clientService{
			registry: &locked{Registry: r}, clients: newClients(time.Hour), pace: newPace(), subscriptions: admit.New(intakeAll, intakeEach),
			refusals: prometheus.NewCounter(prometheus.CounterOpts{}), wakeReaders: func() {},
		})
	})
}

func subscriptionsOf(n int) (out []*wirev1.Subscription) {
	for i := range n {
		out = append(out, &wirev1.Subscription{Id: fmt.Sprint(i), DataInfoId: fmt.Sprint("a", i, "#@#b#@#c")})
	}
	return out
}

// has returns how many subscriptions of a connection the session has taken.
func (c *clientService) has(s *subscriber) int {
	synctest.Wait()
	return with(c.registry, func(r *registry.Registry) int { return len(r.Subscribed(s.conn.Owner)) })
}

// An address with thousands of subscriptions is given them at a pace, in turn of its
// clients; another address does not wait for it, and nothing is lost.
func TestSubscribe_EachAddressHasItsPace(t *testing.T) {
	paced(t, func(t *testing.T, ctx context.Context, c *clientService) {
		one, two, other := c.subscriber("many"), c.subscriber("many"), c.subscriber("few")
		c.subscribe(ctx, one.conn, subscriptionsOf(5000))
		c.subscribe(ctx, two.conn, subscriptionsOf(5000))
		c.subscribe(ctx, other.conn, subscriptionsOf(200))
		assert.Equal(t, 200, c.has(other))
		assert.Less(t, c.has(one)+c.has(two), 500)
		time.Sleep(500 * time.Millisecond)
		assert.InDelta(t, 5000, c.has(one)+c.has(two), 500)
		assert.InDelta(t, c.has(one), c.has(two), 400, "they take turns")
		time.Sleep(520 * time.Millisecond)
		assert.Equal(t, 10_000, c.has(one)+c.has(two))
		assert.Zero(t, one.refused+two.refused)
		assert.True(t, c.subscriptions.Empty())
		one.conn.subscribing.serving.Wait() // it ends with what waits
		two.conn.subscribing.serving.Wait()
	})
}

// What a client ends while it waits is not taken.
func TestSubscribe_WhatIsEndedWhileItWaitsIsNotTaken(t *testing.T) {
	paced(t, func(t *testing.T, ctx context.Context, c *clientService) {
		s := c.subscriber("many")
		c.subscribe(ctx, s.conn, subscriptionsOf(2000))
		ids := []string{}
		for i := range 1999 {
			ids = append(ids, fmt.Sprint(i))
		}
		c.unsubscribe(s.conn, ids)
		time.Sleep(time.Second)
		assert.Equal(t, 1, c.has(s))
		assert.True(t, c.subscriptions.Empty())
		s.conn.subscribing.serving.Wait()
	})
}

// Pings are answered while the subscriptions before them wait, whatever else of the same
// address waits.
func TestSubscribe_PingsDoNotWaitBehindIt(t *testing.T) {
	paced(t, func(t *testing.T, ctx context.Context, c *clientService) {
		for range 8 {
			c.subscribe(ctx, c.subscriber("many").conn, subscriptionsOf(5000))
		}
		s, began := c.subscriber("many"), time.Now()
		for i := range 5 {
			hold := c.handle(ctx, s.conn, &wirev1.ClientMessage{Subscribe: subscriptionsOf(5000), Ping: uint64(i + 1)})
			time.Sleep(hold)
			synctest.Wait()
			assert.Len(t, s.pongs, i+1)
		}
		assert.LessOrEqual(t, time.Since(began), 5*subscribeHold)
		assert.Less(t, c.has(s), 5000, "most of them wait")
		time.Sleep(5 * time.Second)
		assert.Equal(t, 5000, c.has(s))
	})
}
