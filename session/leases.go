package session

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"conclave/internal/trace"
	"conclave/lease"
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
// expired, renews the leases of those that were registered for longer (Consul's), and
// forgets old tombstones.
//
// A lease is the time in which a client can come back. While this process was
// suspended, no client could: when it resumes, the leases start again. If it is
// only late, because it has no processor, the leases end as much later.
// Otherwise sessions that were all suspended would, once they resume, remove
// registrations whose clients are connecting at that moment. Only the linger of a
// client that has left ends when it was announced to end.
type leases struct {
	config           Config
	registry         *locked
	clients          *clients
	events           *serve.Events
	metaLeaderSilent func() bool        // no meta leader has answered for a lease
	cutOff           func() bool        // see Server.isCutOff
	expirations      prometheus.Counter // of clients that had registrations
	wakeWriters      func()
}

func (l *leases) run(ctx context.Context) {
	pace := min(leaseRound, registry.FreshFor(l.config.SessionGrace)/renewals) // often enough to keep the shortest lease
	sweep := time.NewTimer(pace)
	defer sweep.Stop()
	lateness := lease.NewLateness(time.Now(), pace)
	kept := time.Now()
	for last := kept; ; {
		select {
		case <-ctx.Done():
			return
		case <-l.clients.changed.C():
		case <-sweep.C:
		}
		l.config.Trace.Claim(trace.Claim{Kind: trace.Leasing})
		now := time.Now()
		if late := lateness.Take(now); now.Sub(last) > stalled {
			l.clients.renew(now, l.config.ClientLease)
		} else {
			l.clients.addRunTime(now.Sub(last)-late, late)
		}
		last = now
		if now.Sub(kept) >= pace && !l.cutOff() { // else its clients may have gone on at another session
			kept = now
			l.registry.do(func(*registry.Registry) { l.clients.keep(now) })
		}
		expired, next := l.clients.expired(now)
		l.expire(expired, now)
		l.registry.do(func(r *registry.Registry) { r.ForgetTombstones(now) })
		wait := pace
		if !next.IsZero() {
			wait = min(wait, max(next.Sub(now), time.Millisecond))
		}
		sweep.Reset(wait)
		lateness.Tick(now, wait) // what the round took is late in the next one
	}
}

// massShare is the share of a session's registrations above which removals
// within one grace are marked as unconfirmed: so many are evidence of a fault
// in this session's own network as much as of dead clients (the original counts
// every disconnect as proof of death).
const massShare = 0.3

// expire removes the registrations of connections whose lease has expired, and
// withdraws those of clients that have left as they had announced. If
// that is a mass of them, the clients get one more lease to come back, once:
// what looks like the death of many clients at the same moment may be a fault of
// this session or of its network.
func (l *leases) expire(expired []broken, now time.Time) {
	if len(expired) == 0 {
		return
	}
	l.config.Trace.Claim(trace.Claim{Kind: trace.Expiring, Count: len(expired)})
	if time.Since(now) > stalled {
		l.clients.restore(expired) // the process was suspended after reading the time: see leases
		return
	}
	expired = l.confirm(expired)
	mass, clients := l.lossWith(expired, now)
	if mass && clients > 1 {
		due := l.clients.postpone(expired, now)
		if n := len(expired) - len(due); n > 0 {
			l.config.Logger.Warn("many clients are gone at once: they have one more lease to come back", "clients", n)
		}
		expired = due
	}
	cause := wirev1.Cause_CAUSE_CLIENT_GONE
	if mass {
		cause = wirev1.Cause_CAUSE_CLIENTS_GONE
	}
	gone, went := 0, 0
	for _, b := range expired {
		why := cause
		switch {
		case b.conn.Announced:
			why = wirev1.Cause_CAUSE_WITHDRAWN
		case b.asked, b.seen:
			why = wirev1.Cause_CAUSE_CLIENT_GONE
		}
		n := 0
		if b.conn.HasLeft() {
			n = l.registry.inParts(b.conn.Owner, func(r *registry.Registry, h *registry.Holdings) (int, bool) { return r.Withdraw(h, partAtOnce) })
		}
		n += l.registry.inParts(b.conn.Owner, func(r *registry.Registry, h *registry.Holdings) (int, bool) { return r.Disown(h, why, partAtOnce) })
		l.registry.do(func(*registry.Registry) { b.conn.End() })
		if n > 0 {
			l.expirations.Inc()
			l.config.Logger.Info("client lease expired", "client", b.conn.Name, "registrations", n, "mass", why == wirev1.Cause_CAUSE_CLIENTS_GONE)
		}
		if !b.expected() && !b.seen {
			gone, went = gone+1, went+n
			l.clients.removed(b.conn.Client, n, now)
		}
	}
	if cause == wirev1.Cause_CAUSE_CLIENTS_GONE && went > 0 {
		l.events.Add(wire.Event{
			Type: "session.clients-gone", Text: "many registrations were removed with their clients: unconfirmed, pushes may be held back",
			Data: map[string]any{"clients": gone, "registrations": went},
		})
	}
	l.wakeWriters()
}

// confirm returns the connections whose registrations may be removed now. It puts
// those back for the rest of the lease whose end was seen but does not prove that
// the client is gone: the client is back here, others were lost at the same time,
// or this session has no contact with the cluster, which may be a fault of its
// network.
func (l *leases) confirm(expired []broken) (due []broken) {
	if !slices.ContainsFunc(expired, func(b broken) bool { return b.seen }) {
		return expired
	}
	owns := map[*connection]bool{} // only these count
	lost := append(l.clients.waiting(), expired...)
	l.registry.do(func(r *registry.Registry) {
		lost = slices.DeleteFunc(lost, func(b broken) bool {
			owns[b.conn] = r.LiveOf(b.conn.Owner) > 0
			return b.expected() || !owns[b.conn]
		})
	})
	unproven, back := lostTogether(lost, massSpan(l.config.ClientLease)), map[string]bool{}
	for _, conn := range l.clients.snapshot() {
		back[conn.Client] = true
	}
	alone := l.metaLeaderSilent()
	var kept []broken
	for _, b := range expired {
		if b.seen && owns[b.conn] && (alone || unproven[b.conn] || back[b.conn.Client]) {
			kept = append(kept, b)
		} else {
			due = append(due, b)
		}
	}
	l.clients.awaitLease(kept)
	return due
}

// lostTogether returns those connections that broke within a span before or after
// one of another client. It sorts them by that time.
func lostTogether(lost []broken, span time.Duration) map[*connection]bool {
	slices.SortFunc(lost, func(a, b broken) int { return a.at.Compare(b.at) })
	together := map[*connection]bool{}
	for first, next := 0, 0; first < len(lost); first = next {
		for next = first; next < len(lost) && lost[next].conn.Client == lost[first].conn.Client; {
			next++
		}
		for _, b := range lost[first:next] { // of one client, between those of two others
			together[b.conn] = first > 0 && b.at.Sub(lost[first-1].at) <= span || next < len(lost) && lost[next].at.Sub(b.at) <= span
		}
	}
	return together
}

// lossWith reports whether the share of this session's registrations that expire
// is above massShare, and how many clients with registrations have gone at the
// same time: those that expire, and those that expire within massSpan. To the share
// all broken connections and the removals within the last grace are counted,
// except those of clients whose end was confirmed.
func (l *leases) lossWith(expired []broken, now time.Time) (mass bool, clients int) {
	gone := l.clients.waiting()
	for _, b := range expired {
		if !b.expected() && !b.seen {
			gone = append(gone, b)
		}
	}
	together := now.Add(massSpan(l.config.ClientLease))
	lost, silent := map[string]int{}, map[string]bool{}
	l.clients.removedLately(lost, now)
	var left int
	l.registry.do(func(r *registry.Registry) {
		left = r.Live()
		for _, b := range gone {
			n := r.LiveOf(b.conn.Owner)
			lost[b.conn.Client] += n
			if left -= n; n > 0 && !b.until.After(together) {
				silent[b.conn.Client] = true // one without a connection has a lease for each registration
			}
		}
	})
	return isMass(slices.Collect(maps.Values(lost)), left), len(silent)
}

// isMass reports whether the loss of clients with these numbers of registrations
// is a mass loss for a session that has some left. One client's silence is no
// evidence against the session, however much the client has registered: the
// largest one counts no more than the second.
func isMass(lost []int, left int) bool {
	slices.Sort(lost)
	last, sum := len(lost)-1, 0
	if last < 1 {
		return false
	}
	lost[last] = lost[last-1]
	for _, n := range lost {
		sum += n
	}
	return float64(sum) > massShare*float64(sum+left)
}
