package session

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"conclave/internal/trace"
	"conclave/session/registry"
	"conclave/wire"
	"conclave/wire/serve"
	wirev1 "conclave/wire/v1"
)

// leaseRound is the longest pause of leases.run. If more than stalled has passed
// since its last round, this process was suspended in between.
const (
	leaseRound = time.Second
	stalled    = 2 * leaseRound
)

// leases removes the registrations of broken connections whose lease has
// expired, and forgets old tombstones.
//
// A lease is the time in which a client can come back. While this process was
// suspended, no client could: when it resumes, the leases start again.
// Otherwise sessions that were all suspended would, once they resume, remove
// registrations whose clients are connecting at that moment.
type leases struct {
	config      Config
	registry    *locked
	clients     *clients
	events      *serve.Events
	expirations prometheus.Counter // of clients that had registrations
	wakeWriters func()
}

func (l *leases) run(ctx context.Context) {
	sweep := time.NewTimer(leaseRound)
	defer sweep.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-l.clients.changed.C():
		case <-sweep.C:
		}
		l.config.Trace.Claim(trace.Claim{Kind: trace.Leasing})
		now := time.Now()
		if now.Sub(last) > stalled {
			l.clients.renew(now)
		} else {
			l.clients.addRunTime(now.Sub(last))
		}
		last = now
		expired, next := l.clients.expired(now)
		l.expire(expired, now)
		l.registry.do(func(r *registry.Registry) { r.ForgetTombstones(now) })
		wait := leaseRound
		if !next.IsZero() {
			wait = min(wait, max(next.Sub(now), time.Millisecond))
		}
		sweep.Reset(wait)
	}
}

// massShare is the share of a session's registrations above which removals
// within one grace are marked as unconfirmed: so many are evidence of a fault
// in this session's own network as much as of dead clients (the original counts
// every disconnect as proof of death).
const massShare = 0.3

// expire removes the registrations of connections whose lease has expired. The
// share of removals also counts the other broken connections and the removals
// within the last grace.
func (l *leases) expire(expired []broken, now time.Time) {
	if len(expired) == 0 {
		return
	}
	l.config.Trace.Claim(trace.Claim{Kind: trace.Expiring, Count: len(expired)})
	if time.Since(now) > stalled {
		l.clients.restore(expired) // the process was suspended after reading the time: see leases
		return
	}
	var unexpected []*registry.Owner
	for _, b := range expired {
		if !b.expected() {
			unexpected = append(unexpected, b.conn.Owner)
		}
	}
	waiting := l.clients.waiting()
	var all, going int
	l.registry.do(func(r *registry.Registry) { all, going = r.Live(), r.LiveOf(append(unexpected, waiting...)...) })
	before := l.clients.addRemovals(0, now)
	cause := wirev1.Cause_CAUSE_CLIENT_GONE
	if float64(before+going) > massShare*float64(before+all) {
		cause = wirev1.Cause_CAUSE_CLIENTS_GONE
	}
	went := 0
	for _, b := range expired {
		why := cause
		switch {
		case b.conn.Announced:
			why = wirev1.Cause_CAUSE_WITHDRAWN
		case b.asked:
			why = wirev1.Cause_CAUSE_CLIENT_GONE
		}
		n := with(l.registry, func(r *registry.Registry) int { return r.Disown(b.conn.Owner, why) })
		if n > 0 {
			l.expirations.Inc()
			l.config.Logger.Info("client lease expired", "client", b.conn.Name, "registrations", n, "mass", why == wirev1.Cause_CAUSE_CLIENTS_GONE)
		}
		if !b.expected() {
			went += n
		}
	}
	l.clients.addRemovals(went, now)
	if cause == wirev1.Cause_CAUSE_CLIENTS_GONE && went > 0 {
		l.events.Add(wire.Event{
			Type: "session.clients-gone", Text: "many registrations were removed with their clients: unconfirmed, pushes may be held back",
			Data: map[string]any{"clients": len(unexpected), "registrations": went},
		})
	}
	l.wakeWriters()
}
