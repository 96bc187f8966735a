package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"conclave/internal/sleep"
	"conclave/testbed"
	"conclave/testbed/check"
)

// carry publishes the registrations of Load.Bulk, client by client, and returns
// when data nodes have stored all of them. No client reads them, and they are
// not in the history: they are what a client that reconnects has to replay.
func (l *Traffic) carry(ctx context.Context) error {
	if l.of.Bulk == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for _, w := range l.sorted(l.clients) {
		var pubs []testbed.Publication
		for i := range l.of.Bulk {
			p, err := w.client.Publish(limited, fmt.Sprintf("bulk-%d", i+1), []string{w.name})
			if err != nil {
				return fmt.Errorf("publish the bulk of %s: %w", w.name, err)
			}
			pubs = append(pubs, p)
		}
		for _, p := range pubs {
			if err := p.Stored(limited); err != nil {
				return fmt.Errorf("publish the bulk of %s: %w", w.name, err)
			}
		}
	}
	return nil
}

// Burst makes each client that stays also change values, Factor times as often
// as the scenario says, or make new registrations, until EndBurst or ctx ends. A burst that
// lasts already is ended.
func (l *Traffic) Burst(ctx context.Context, a testbed.Action) {
	l.EndBurst()
	ctx, cancel := context.WithCancel(ctx)
	l.mu.Lock()
	l.calm = cancel
	l.mu.Unlock()
	for i, w := range l.sorted(l.clients) {
		if a.Arrivals > 0 {
			l.working.Go(func() { l.arrive(ctx, w, a.Arrivals) })
			continue
		}
		r := rand.New(rand.NewPCG(l.seed, uint64(i+1)<<16))
		l.working.Go(func() { l.flood(ctx, w, max(l.of.Every/time.Duration(a.Factor), time.Microsecond), r) })
	}
}

// EndBurst ends the burst, if there is one.
func (l *Traffic) EndBurst() {
	l.mu.Lock()
	calm := l.calm
	l.calm = nil
	l.mu.Unlock()
	if calm != nil {
		calm()
	}
}

// arrive makes new registrations of a client, as fast as the client takes them.
// They are not in the history, like those of carry, and stay when ctx ends.
func (l *Traffic) arrive(ctx context.Context, w *worker, number int) {
	for i := range number {
		if _, err := w.client.Publish(ctx, fmt.Sprintf("arrivals-%d", i+1), []string{fmt.Sprintf("%*s", l.of.Bytes, w.name)}); err != nil {
			return // the burst has ended, or the client was killed
		}
	}
}

// flood makes one registration of its own under each name of a client, changes
// one of them about every pause, whatever has become of the changes before (an
// open loop), and withdraws them when ctx ends.
func (l *Traffic) flood(ctx context.Context, w *worker, pause time.Duration, r *rand.Rand) {
	var own []*registration
	for _, o := range w.pubs {
		own = append(own, &registration{name: o.name})
		if !l.register(ctx, w, own[len(own)-1]) {
			own = own[:len(own)-1]
		}
	}
	for len(own) > 0 && sleep.For(ctx, about(r, pause)) == nil {
		if !l.update(w, own[r.IntN(len(own))]) {
			return // it was killed
		}
	}
	for _, o := range own {
		l.unregister(w, o)
	}
}

// noteUsage records, at most ten times a second, what the processors of the
// nodes with a budget had to do.
func (p *player) noteUsage() {
	if p.s.Cluster.Budgets == (testbed.Budgets{}) || time.Since(p.usedAt) < sampleIdle {
		return
	}
	p.usedAt = time.Now()
	for _, u := range p.can.Usage() {
		if u.Offered > 0 || u.Queued > 0 {
			p.rec.Usage(u)
		}
	}
}

// noteRemoved records, once a burst has begun, the session and data nodes that
// run and were removed from the members. Real nodes are asked over HTTP, which a
// busy one answers late, so it is not recorded there.
func (p *player) noteRemoved(now testbed.Snapshot) {
	if p.members == nil || p.can.Usage == nil {
		return
	}
	members := []string{}
	for _, n := range slices.Concat(p.s.Cluster.NodesOf("session"), p.s.Cluster.NodesOf("data")) {
		switch joined := slices.Contains(now.Ready, n); {
		case joined:
			members = append(members, n)
		case slices.Contains(p.members, n) && slices.Contains(now.Up, n):
			p.rec.Op(check.Op{Kind: check.OpEvicted, Client: n})
		}
	}
	p.members = members
}
