package session

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"conclave/internal/signal"
	"conclave/internal/trace"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// clients holds the open connections of this session, and those that broke and
// whose lease still runs.
//
//	          hello                good-bye: withdrawn at once
//	(refused) <--+---> connected -----------------------------> removed
//	 starting,           |   ^
//	 draining     broken,|   | the client comes back, here or elsewhere: its new
//	              silent |   | connection owns what it sends again
//	                     v   |
//	                   broken ---- client lease expires ------> removed, with what
//	                                                            it still owns
type clients struct {
	grace time.Duration // removals within it are counted together

	mu       sync.Mutex // guards the rest
	refusing string     // why clients are refused; "" when they are taken
	sessions []string   // addresses given to clients
	next     uint64
	open     map[*connection]struct{}
	broken   []broken       // sorted by the end of their lease
	removals []removalCount // those within the last grace
	empty    chan struct{}  // closed when open is empty
	changed  signal.Signal  // broken has grown
	ran      time.Duration  // how long this process has run, not counting times in which it was suspended
}

// connection is one Connect stream of a client.
type connection struct {
	number     uint64 // counts the connections of this session
	client     string // the client's id, random per process
	name       string
	remote     string
	since      time.Time
	linger     time.Duration // how long its registrations stay after it broke
	announced  bool          // the client asked for the linger itself: their removal afterwards is intended
	authorized bool
	fresh      freshness // whether its registrations may be published
	out        *outbox
	abort      func()                   // ends the stream from this side; may be called by any goroutine
	settled    signal.Signal            // data has more of what it registered
	subs       map[string]*subscription // used by its receiving goroutine only
	ended      atomic.Bool              // its stream has ended
	asked      bool                     // asked to move; guarded by clients.mu
}

type broken struct {
	conn  *connection
	until time.Time     // end of its lease
	asked bool          // it left because it was asked to move
	ran   time.Duration // clients.ran when it broke
}

// expected reports whether this end was expected, and is therefore no evidence
// of a fault.
func (b broken) expected() bool { return b.asked || b.conn.announced }

type removalCount struct {
	at    time.Time
	count int
}

func newClients(grace time.Duration) *clients {
	c := &clients{grace: grace, refusing: "starting", open: map[*connection]struct{}{},
		empty: make(chan struct{}), changed: signal.New()}
	close(c.empty)
	return c
}

// admit adds a connection, or returns why it is refused.
func (c *clients) admit(conn *connection) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusing != "" {
		return wire.Errorf(wire.CodeUnavailable, "this session takes no clients: %s", c.refusing)
	}
	if len(c.open) == 0 {
		c.empty = make(chan struct{})
	}
	c.next++
	conn.number = c.next
	c.open[conn] = struct{}{}
	conn.out.add(func() { conn.out.sessions = c.sessions })
	return nil
}

// release removes a connection that has ended. With holds, it leaves
// registrations, which are kept for the client to come back until its lease
// ends. With left, its client ended the stream in order, so that an announced
// linger counts.
func (c *clients) release(conn *connection, holds, left bool, now time.Time) {
	c.mu.Lock()
	delete(c.open, conn)
	if left && conn.announced && !conn.asked {
		conn.fresh.linger(now.Add(conn.linger))
	}
	if len(c.open) == 0 {
		close(c.empty)
	}
	if holds {
		b := broken{conn: conn, until: now.Add(conn.linger), asked: conn.asked, ran: c.ran}
		at, _ := slices.BinarySearchFunc(c.broken, b, func(a, b broken) int { return cmp.Or(a.until.Compare(b.until), -1) })
		c.broken = slices.Insert(c.broken, at, b)
	}
	c.mu.Unlock()
	if holds {
		c.changed.Set()
	}
}

// refuse makes admit refuse new clients for the given reason; "" admits them
// again.
func (c *clients) refuse(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusing = why
}

// askToMove asks every connected client to go to another session.
func (c *clients) askToMove(reason string) (asked int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.inOrder() {
		conn.asked = true
		conn.out.add(func() { conn.out.move = reason })
	}
	return len(c.open)
}

// advertise sends every client the addresses of the sessions that take clients.
func (c *clients) advertise(sessions []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Equal(c.sessions, sessions) {
		return
	}
	c.sessions = sessions
	for _, conn := range c.inOrder() {
		conn.out.add(func() { conn.out.sessions = sessions })
	}
}

// none returns a channel that is closed when no client is connected.
func (c *clients) none() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.empty
}

func (c *clients) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// expired removes and returns the broken connections whose lease has expired,
// and returns the end of the next lease.
func (c *clients) expired(now time.Time) (expired []broken, next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for n < len(c.broken) && !c.broken[n].until.After(now) {
		n++
	}
	expired, c.broken = slices.Clone(c.broken[:n]), c.broken[n:]
	if len(c.broken) > 0 {
		next = c.broken[0].until
	}
	return expired, next
}

// restore puts back connections that expired has returned.
func (c *clients) restore(expired []broken) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = append(expired, c.broken...) // their leases end before all others'
}

// addRunTime records that the process has run for a while.
func (c *clients) addRunTime(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ran += d
}

// renewedFor limits how often the lease of a broken connection starts again:
// until this process has run for renewedFor leases since the connection broke.
// Without the limit a session that is suspended again and again would keep the
// registrations of dead clients for ever.
const renewedFor = 3

// renew starts the leases of the broken connections again, except those whose
// clients had announced a linger and those that have reached renewedFor.
func (c *clients) renew(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, b := range c.broken {
		had := c.ran - b.ran
		if until := now.Add(b.conn.linger); !b.conn.announced && had < renewedFor*b.conn.linger && until.After(b.until) {
			c.broken[i].until = until
		}
	}
	slices.SortStableFunc(c.broken, func(a, b broken) int { return a.until.Compare(b.until) })
}

// waiting returns the broken connections whose lease still runs, except those
// whose end was expected.
func (c *clients) waiting() (out []*connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.broken {
		if !b.expected() {
			out = append(out, b.conn)
		}
	}
	return out
}

// addRemovals records removed registrations and returns how many there were
// within the last grace.
func (c *clients) addRemovals(count int, now time.Time) (within int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removals = slices.DeleteFunc(c.removals, func(d removalCount) bool { return now.Sub(d.at) > c.grace })
	if count > 0 {
		c.removals = append(c.removals, removalCount{now, count})
	}
	for _, d := range c.removals {
		within += d.count
	}
	return within
}

// snapshot returns the open connections in the order in which they were
// admitted.
func (c *clients) snapshot() []*connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inOrder()
}

func (c *clients) inOrder() []*connection {
	out := make([]*connection, 0, len(c.open))
	for conn := range c.open {
		out = append(out, conn)
	}
	slices.SortFunc(out, func(a, b *connection) int { return cmp.Compare(a.number, b.number) })
	return out
}

// leaseRound is the longest pause of runLeases. If more than stalled has passed
// since its last round, this process was suspended in between.
const (
	leaseRound = time.Second
	stalled    = 2 * leaseRound
)

// runLeases removes the registrations of broken connections whose lease has
// expired, and forgets old tombstones.
//
// A lease is the time in which a client can come back. While this process was
// suspended, no client could: when it resumes, the leases start again.
// Otherwise sessions that were all suspended would, once they resume, remove
// registrations whose clients are connecting at that moment.
func (s *Server) runLeases(ctx context.Context) {
	sweep := time.NewTimer(leaseRound)
	defer sweep.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-s.clients.changed.C():
		case <-sweep.C:
		}
		s.Trace.Claim(trace.Claim{Kind: trace.Leasing})
		now := time.Now()
		if now.Sub(last) > stalled {
			s.clients.renew(now)
		} else {
			s.clients.addRunTime(now.Sub(last))
		}
		last = now
		expired, next := s.clients.expired(now)
		s.expire(expired, now)
		s.registry.forgetTombstones(now)
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
func (s *Server) expire(expired []broken, now time.Time) {
	if len(expired) == 0 {
		return
	}
	s.Trace.Claim(trace.Claim{Kind: trace.Expiring, Count: len(expired)})
	if time.Since(now) > stalled {
		s.clients.restore(expired) // the process was suspended after reading the time: see runLeases
		return
	}
	var unexpected []*connection
	for _, b := range expired {
		if !b.expected() {
			unexpected = append(unexpected, b.conn)
		}
	}
	all, going := s.registry.counts(append(unexpected, s.clients.waiting()...)...)
	before := s.clients.addRemovals(0, now)
	cause := wirev1.Cause_CAUSE_CLIENT_GONE
	if float64(before+going) > massShare*float64(before+all) {
		cause = wirev1.Cause_CAUSE_CLIENTS_GONE
	}
	went := 0
	for _, b := range expired {
		why := cause
		switch {
		case b.conn.announced:
			why = wirev1.Cause_CAUSE_WITHDRAWN
		case b.asked:
			why = wirev1.Cause_CAUSE_CLIENT_GONE
		}
		n := s.registry.disown(b.conn, why)
		if n > 0 {
			s.log.Info("client lease expired", "client", b.conn.name, "registrations", n, "mass", why == wirev1.Cause_CAUSE_CLIENTS_GONE)
		}
		if !b.expected() {
			went += n
		}
	}
	s.clients.addRemovals(went, now)
	if cause == wirev1.Cause_CAUSE_CLIENTS_GONE && went > 0 {
		s.events.Add(wire.Event{
			Type: "session.clients-gone", Text: "many registrations were removed with their clients: unconfirmed, pushes may be held back",
			Data: map[string]any{"clients": len(unexpected), "registrations": went},
		})
	}
	s.nodes.wakeWriters()
}
