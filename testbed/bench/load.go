package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"conclave"
	"conclave/client"
	"conclave/internal/sleep"
)

// latency measures the time from publish to push, with one subscriber and with
// many connections.
func (r *run) latency(ctx context.Context) error {
	if err := r.publishToPush(ctx, 1, 10*r.N, "publish-to-push", Figure{
		What: "publish to push, one subscriber",
	}); err != nil {
		return err
	}
	if err := r.publishToPush(ctx, 100, 3*r.N, "publish-to-push-100", Figure{
		What: "publish to push, 100 connections",
	}); err != nil {
		return err
	}
	if !r.Sizes {
		return nil
	}
	for _, n := range []int{10, 300, 1000} {
		name := fmt.Sprintf("publish-to-push-%d", n)
		if err := r.publishToPush(ctx, n, 100, name, Figure{What: fmt.Sprintf("publish to push, %d connections", n)}); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) publishToPush(ctx context.Context, connections, updates int, name string, f Figure) error {
	took, err := r.pushes(ctx, connections, updates, name)
	if err != nil {
		return err
	}
	f.Name = name
	r.report(f, took.Values(), Limit{P50: 5, P99: 20})
	return nil
}

// pushes returns the times from publish to push of updates of one dataId, for each
// connection.
func (r *run) pushes(ctx context.Context, connections, updates int, name string) (*Dist, error) {
	sessions, err := r.addresses(ctx, "session")
	if err != nil {
		return nil, err
	}
	publisher, err := r.connect("bench publisher", sessions...)
	if err != nil {
		return nil, err
	}
	defer publisher.Leave()
	l := NewLedger()
	for i := range connections {
		s, err := r.connect("bench subscriber", sessions[i%len(sessions)])
		if err != nil {
			return nil, err
		}
		defer s.Leave()
		if err := s.Watch(l, fmt.Sprint("s", i), DataID(name, 0)); err != nil {
			return nil, err
		}
	}
	t, err := PublishAll(ctx, publisher.Client, l, name, 1, 1)
	if err != nil {
		return nil, err
	}
	if err := l.AwaitSeen(ctx); err != nil {
		return nil, err
	}
	l.Phase() // the first push includes opening connections
	for range updates {
		p := t.names[0]
		if err := t.made[p].Update([]string{l.Publishing(p, t.dataID[p])}); err != nil {
			return nil, err
		}
		if err := l.AwaitSeen(ctx); err != nil {
			return nil, err
		}
		if err := sleep.For(ctx, 20*time.Millisecond); err != nil { // longer than the push window
			return nil, err
		}
	}
	return l.Phase(), broken(l)
}

// broken returns an error if an invariant was violated, in which case the
// figures do not count.
func broken(l *Ledger) error {
	if b := l.Broken(); len(b) > 0 {
		return fmt.Errorf("%d violations of invariants, the first: %s", len(b), b[0])
	}
	return nil
}

// updates publishes 20 times a second for 30 s and counts the pushes.
func (r *run) updates(ctx context.Context) error {
	sessions, err := r.addresses(ctx, "session")
	if err != nil {
		return err
	}
	publisher, err := r.connect("bench publisher", sessions[0])
	if err != nil {
		return err
	}
	defer publisher.Leave()
	subscriber, err := r.connect("bench subscriber", sessions[len(sessions)-1])
	if err != nil {
		return err
	}
	defer subscriber.Leave()
	l := NewLedger()
	if err := subscriber.Watch(l, "s", DataID("updates", 0)); err != nil {
		return err
	}
	t, err := PublishAll(ctx, publisher.Client, l, "updates", 1, 1)
	if err != nil {
		return err
	}
	if err := l.AwaitSeen(ctx); err != nil {
		return err
	}
	before := l.Pushes()
	l.Phase()
	const updates = 600
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last time.Time
	for range updates {
		<-tick.C
		last = time.Now()
		p := t.names[0]
		if err := t.made[p].Update([]string{l.Publishing(p, t.dataID[p])}); err != nil {
			return err
		}
	}
	if err := l.AwaitSeen(ctx); err != nil {
		return err
	}
	end := time.Since(last)
	r.report(Figure{
		Name: "updates-pushes", What: "20 updates per second for 30 s: pushes seen of 600", Unit: "pushes", Target: "<= 600",
	}, One(float64(l.Pushes()-before)), Limit{Max: updates})
	r.report(Figure{Name: "updates-last", What: "the same: the last value", Unit: "ms"}, One(float64(end.Microseconds())/1000), Limit{Max: 20})
	r.report(Figure{Name: "updates-each", What: "the same: each update to its push", Unit: "ms"}, l.Phase().Values(), Limit{P50: 5, P99: 20})
	return broken(l)
}

// registrations measures how many publications of one client are stored per
// second.
func (r *run) registrations(ctx context.Context) error {
	sizes := []int{50_000}
	if r.Sizes {
		sizes = []int{1_000, 10_000, 50_000, 200_000}
	}
	sessions, err := r.addresses(ctx, "session")
	if err != nil {
		return err
	}
	for i, n := range sizes {
		rate, err := r.register(ctx, sessions[0], fmt.Sprint("reg", i), n)
		if err != nil {
			return err
		}
		f := Figure{Name: "registrations", What: "registrations per second, one client, until data has them", Unit: "per s"}
		limit := Limit{AtLeast: 50_000}
		if n != 50_000 {
			f.Name, f.What, limit = fmt.Sprintf("registrations-%d", n), fmt.Sprintf("registrations per second, %d of them", n), Limit{}
		}
		r.report(f, One(rate), limit)
	}
	return nil
}

func (r *run) register(ctx context.Context, session, prefix string, n int) (float64, error) {
	p, err := r.connect("bench registrations", session)
	if err != nil {
		return 0, err
	}
	defer p.Leave()
	warm, err := p.Publish(ctx, prefix+".warm", []string{"x"})
	if err != nil {
		return 0, err
	}
	if err := warm.Stored(ctx); err != nil {
		return 0, err
	}
	ids := DataIDs(prefix, n)
	publications := make([]*client.Publication, n)
	start := time.Now()
	for i, id := range ids {
		if publications[i], err = p.Publish(ctx, id, []string{"10.0.0.1:8080"}); err != nil {
			return 0, err
		}
	}
	for _, m := range publications {
		if err := m.Stored(ctx); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(start).Seconds(), nil
}

// fanOut measures how long the values of 10,000 publishers take to reach 10,000
// subscribers that have subscribed before.
func (r *run) fanOut(ctx context.Context) error {
	sizes := []int{10_000}
	if r.Sizes {
		sizes = []int{1_000, 10_000, 50_000}
	}
	for i, n := range sizes {
		took, empties, err := r.publishersToSubscribers(ctx, fmt.Sprint("fan", i), n)
		if err != nil {
			return err
		}
		f := Figure{Name: "fan-out", What: "10,000 publishers to 10,000 subscribers, all received"}
		limit := Limit{Max: 1000}
		if n != 10_000 {
			f.Name, f.What, limit = fmt.Sprintf("fan-out-%d", n), fmt.Sprintf("%d publishers to as many subscribers", n), Limit{}
		}
		r.report(f, One(float64(took.Microseconds())/1000), limit)
		r.report(Figure{Name: f.Name + "-empty", What: "the same: empty callbacks", Unit: "calls"},
			One(float64(empties)), Limit{Max: float64(n)})
	}
	return nil
}

func (r *run) publishersToSubscribers(ctx context.Context, prefix string, n int) (time.Duration, int64, error) {
	sessions, err := r.addresses(ctx, "session")
	if err != nil {
		return 0, 0, err
	}
	subscriber, err := r.connect("bench subscribers", sessions[len(sessions)-1])
	if err != nil {
		return 0, 0, err
	}
	defer subscriber.Leave()
	publisher, err := r.connect("bench publishers", sessions[0])
	if err != nil {
		return 0, 0, err
	}
	defer publisher.Leave()
	var empties atomic.Int64
	var first, full sync.WaitGroup
	ids := DataIDs(prefix, n)
	for _, id := range ids {
		first.Add(1)
		full.Add(1)
		var called, filled bool // callbacks of one subscription are sequential
		_, err := subscriber.Subscribe(id, client.OnPush(func(d conclave.Datum) {
			if !called {
				called = true
				first.Done()
			}
			if len(d.Values) == 0 {
				empties.Add(1)
			} else if !filled {
				filled = true
				full.Done()
			}
		}))
		if err != nil {
			return 0, 0, err
		}
	}
	if err := awaitGroup(ctx, &first, "the first callback of every subscriber"); err != nil {
		return 0, 0, err
	}
	start := time.Now()
	for _, id := range ids {
		if _, err := publisher.Publish(ctx, id, []string{"10.0.0.1:8080"}); err != nil {
			return 0, 0, err
		}
	}
	err = awaitGroup(ctx, &full, "every subscriber to receive")
	return time.Since(start), empties.Load(), err
}

// awaitGroup waits for a group until ctx ends. After a timeout its goroutine
// remains until the process ends.
func awaitGroup(ctx context.Context, g *sync.WaitGroup, what string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	done := make(chan struct{})
	go func() { g.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
	}
}
