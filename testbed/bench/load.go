package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"conclave"
	"conclave/internal/sleep"
	"conclave/testbed/load"
)

// The cluster without TLS and the one with it are measured in turns, tlsRounds times,
// so that other work on the machine disturbs both. Each turn stores tlsRegistrations.
const (
	tlsRounds        = 3
	tlsRegistrations = 50_000
)

// tls compares a cluster that uses TLS with the one that does not, both with tokens:
// publish to push, and registrations per second of one client.
func (r *run) tls(ctx context.Context) error {
	return r.onAnother(ctx, true, func(other *cluster) error {
		if err := other.settled(ctx); err != nil {
			return err
		}
		return r.compareWith(ctx, other)
	})
}

// compareWith takes the turns, and reports the figures of the cluster with TLS, whose
// targets are relative to those of the other one.
func (r *run) compareWith(ctx context.Context, other *cluster) error {
	var pushes, rates [2]*load.Dist
	for round := range tlsRounds {
		for i, one := range []*cluster{r.cluster, other} {
			if round == 0 {
				pushes[i], rates[i] = load.NewDist(), load.NewDist()
			}
			took, err := one.pushes(ctx, 1, 5*r.N, fmt.Sprint("tls-push-", round))
			if err != nil {
				return err
			}
			pushes[i].Merge(took)
			rate, err := one.register(ctx, fmt.Sprint("tls-registrations-", round), tlsRegistrations)
			if err != nil {
				return err
			}
			rates[i].AddMs(rate)
		}
	}
	push, rate := pushes[0].Values(), rates[0].Values()
	r.report(Figure{
		Name: "tls-publish-to-push", What: "with TLS: publish to push, one subscriber",
		Note: fmt.Sprintf("p50 without TLS in the same run: %s ms", number(push.P50)),
	}, pushes[1].Values(), Limit{P50: push.P50 + 1})
	r.report(Figure{
		Name: "tls-registrations", What: "with TLS: registrations per second, one client", Unit: "per s",
		Note: fmt.Sprintf("without TLS in the same run: %s", number(rate.P50)),
	}, rates[1].Values(), Limit{AtLeast: rate.P50 * 3 / 4})
	return nil
}

// traffic are publishers of a cluster, and subscribers of all their dataIds.
type traffic struct {
	*load.Traffic
	clients []load.Client
}

// traffic starts n publishers in one client, per of them under each dataId of prefix,
// and a subscriber at each of the given sessions, and returns when all subscribers have
// received all values.
func (c *cluster) traffic(ctx context.Context, prefix string, n, per int, publishAt string, subscribeAt ...string) (t *traffic, err error) {
	t = &traffic{Traffic: load.NewTraffic()}
	defer func() {
		if err != nil {
			t.leave()
		}
	}()
	publisher, err := t.start(c, "bench publishers", publishAt)
	if err != nil {
		return nil, err
	}
	if err := t.Publish(ctx, prefix, n, per, publisher); err != nil {
		return nil, err
	}
	for i, at := range subscribeAt {
		s, err := t.start(c, "bench subscriber", at)
		if err != nil {
			return nil, err
		}
		if err := t.Watch(s, fmt.Sprint("s", i), prefix, (n+per-1)/per); err != nil {
			return nil, err
		}
	}
	if err := t.AwaitSeen(ctx); err != nil {
		return nil, err
	}
	t.Phase() // the first pushes include opening connections
	return t, nil
}

func (t *traffic) start(c *cluster, name, session string) (load.Client, error) {
	client, err := c.client(name, session)
	if err == nil {
		t.clients = append(t.clients, client)
	}
	return client, err
}

func (t *traffic) leave() {
	for _, c := range t.clients {
		load.Leave(c)
	}
}

// broken returns an error if an invariant was violated, in which case the
// figures do not count.
func (t *traffic) broken() error {
	if b := t.Broken(); len(b) > 0 {
		return fmt.Errorf("%d violations of invariants, the first: %s", len(b), b[0])
	}
	return nil
}

// latency measures the time from publish to push, with one subscriber and with
// many connections.
func (r *run) latency(ctx context.Context) error {
	for _, s := range []struct {
		connections, updates int
		name, what           string
	}{
		{1, 10 * r.N, "publish-to-push", "publish to push, one subscriber"},
		{100, 3 * r.N, "publish-to-push-100", "publish to push, 100 connections"},
	} {
		took, err := r.pushes(ctx, s.connections, s.updates, s.name)
		if err != nil {
			return err
		}
		r.report(Figure{Name: s.name, What: s.what}, took.Values(), Limit{P50: 5, P99: 20})
	}
	return nil
}

// pushes returns the times from publish to push of updates of one dataId, for each
// connection.
func (c *cluster) pushes(ctx context.Context, connections, updates int, name string) (*load.Dist, error) {
	sessions := c.addresses("session")
	var subscribers []string
	for i := range connections {
		subscribers = append(subscribers, sessions[i%len(sessions)])
	}
	t, err := c.traffic(ctx, name, 1, 1, sessions[len(sessions)-1], subscribers...) // one subscriber is at the other session
	if err != nil {
		return nil, err
	}
	defer t.leave()
	for range updates {
		if err := t.Update(0); err != nil {
			return nil, err
		}
		if err := t.AwaitSeen(ctx); err != nil {
			return nil, err
		}
		if err := sleep.For(ctx, 20*time.Millisecond); err != nil { // longer than the push window
			return nil, err
		}
	}
	return t.Phase(), t.broken()
}

// updates publishes 20 times a second for 30 s and counts the pushes.
func (r *run) updates(ctx context.Context) error {
	sessions := r.addresses("session")
	t, err := r.traffic(ctx, "updates", 1, 1, sessions[0], sessions[len(sessions)-1])
	if err != nil {
		return err
	}
	defer t.leave()
	before := t.Pushes()
	const updates = 600
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last time.Time
	for range updates {
		<-tick.C
		last = time.Now()
		if err := t.Update(0); err != nil {
			return err
		}
	}
	if err := t.AwaitSeen(ctx); err != nil {
		return err
	}
	end := time.Since(last)
	r.report(Figure{
		Name: "updates-pushes", What: "20 updates per second for 30 s: pushes seen of 600", Unit: "pushes", Target: "<= 600",
	}, load.One(float64(t.Pushes()-before)), Limit{Max: updates})
	r.report(Figure{Name: "updates-last", What: "the same: the last value", Unit: "ms"}, one(end), Limit{Max: 20})
	r.report(Figure{Name: "updates-each", What: "the same: each update to its push", Unit: "ms"}, t.Phase().Values(), Limit{P50: 5, P99: 20})
	return t.broken()
}

// registrations measures how many publications of one client are stored per
// second.
func (r *run) registrations(ctx context.Context) error {
	rate, err := r.register(ctx, "reg", 50_000)
	if err != nil {
		return err
	}
	r.report(Figure{Name: "registrations", What: "registrations per second, one client, until data has them", Unit: "per s"},
		load.One(rate), Limit{AtLeast: 50_000})
	return nil
}

func address(int) string { return "10.0.0.1:8080" }

func (c *cluster) register(ctx context.Context, prefix string, n int) (float64, error) {
	p, err := c.client("bench registrations", c.addresses("session")[0])
	if err != nil {
		return 0, err
	}
	defer load.Leave(p)
	one := load.Clients{p}
	if _, _, err := one.Publish(ctx, 1, load.DataIDs(prefix+".warm"), address); err != nil {
		return 0, err
	}
	start := time.Now()
	_, _, err = one.Publish(ctx, n, load.DataIDs(prefix), address)
	return float64(n) / time.Since(start).Seconds(), err
}

// fanOut measures how long the values of 10,000 publishers take to reach 10,000
// subscribers that have subscribed before.
func (r *run) fanOut(ctx context.Context) error {
	const n, prefix = 10_000, "fan"
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	sessions := r.addresses("session")
	subscriber, err := r.client("bench subscribers", sessions[len(sessions)-1])
	if err != nil {
		return err
	}
	defer load.Leave(subscriber)
	publisher, err := r.client("bench publishers", sessions[0])
	if err != nil {
		return err
	}
	defer load.Leave(publisher)
	var empties atomic.Int64
	first, full := load.NewArrivals(n), load.NewArrivals(n)
	for i := range n {
		var called, filled bool // callbacks of one subscription are sequential
		err := subscriber.Subscribe(load.DataID(prefix, i), func(d conclave.Datum) {
			if !called {
				called = true
				first.One()
			}
			if len(d.Values) == 0 {
				empties.Add(1)
			} else if !filled {
				filled = true
				full.One()
			}
		})
		if err != nil {
			return err
		}
	}
	if err := first.Await(ctx, "subscribers had no callback"); err != nil {
		return err
	}
	start := time.Now()
	for i := range n {
		if _, err := publisher.Publish(ctx, load.DataID(prefix, i), []string{address(i)}); err != nil {
			return err
		}
	}
	if err := full.Await(ctx, "subscribers have received nothing"); err != nil {
		return err
	}
	r.report(Figure{Name: "fan-out", What: "10,000 publishers to 10,000 subscribers, all received"}, one(time.Since(start)), Limit{Max: 1000})
	r.report(Figure{Name: "fan-out-empty", What: "the same: empty callbacks", Unit: "calls"}, load.One(float64(empties.Load())), Limit{Max: n})
	return nil
}
