package session

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"conclave/internal/trace"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// clients are the connections of this session, and those that broke lately.
//
//	          hello                good-bye: withdrawn at once
//	(refused) <--+---> connected -----------------------------> gone
//	 starting,           |   ^
//	 draining     broken,|   | the client comes back, here or elsewhere: it owns
//	              silent |   | what it shows again, under its new connection
//	                     v   |
//	                   broken ---- client lease over ---------> gone: what it
//	                                                            still owns goes
type clients struct {
	grace time.Duration // removals within it count as one mass

	mu       sync.Mutex // guards the rest
	refusing string     // why no client is taken; "" when they are
	sessions []string   // addresses told to clients
	next     uint64
	open     map[*connection]struct{}
	broken   []broken      // by the time at which their lease is over
	gone     []departure   // removals of the last grace
	empty    chan struct{} // closed while open is empty
	changed  chan struct{} // one token: broken grew
	ran      time.Duration // how long this process has run, without the times in which it was suspended
}

// connection is one Connect stream of a client.
type connection struct {
	number     uint64 // in the order in which they came
	client     string // the client's id, random per process
	name       string
	remote     string
	since      time.Time
	linger     time.Duration // how long what it owns stays when it broke
	announced  bool          // it said so itself: what goes then was meant to go
	authorized bool
	word       voucher // how long it vouches for what it registered
	out        *outbox
	kick       func()                   // ends the stream from this side; may be called from anywhere
	settled    chan struct{}            // one token: data has more of what it registered
	subs       map[string]*subscription // touched by its receiving goroutine only
	over       atomic.Bool              // its stream has ended
	asked      bool                     // asked to move; guarded by clients.mu
}

type broken struct {
	who   *connection
	until time.Time     // when its lease is over
	asked bool          // it left because it was asked to: no part of a mass
	ran   time.Duration // of clients, when it broke
}

// meant says that this end was expected: it is no evidence of anything.
func (b broken) meant() bool { return b.asked || b.who.announced }

type departure struct {
	at    time.Time
	count int
}

func newClients(grace time.Duration) *clients {
	c := &clients{grace: grace, refusing: "starting", open: map[*connection]struct{}{},
		empty: make(chan struct{}), changed: make(chan struct{}, 1)}
	close(c.empty)
	return c
}

// admit takes a connection, or says why not.
func (c *clients) admit(who *connection) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusing != "" {
		return wire.Errorf(wire.CodeUnavailable, "this session takes no clients: %s", c.refusing)
	}
	if len(c.open) == 0 {
		c.empty = make(chan struct{})
	}
	c.next++
	who.number = c.next
	c.open[who] = struct{}{}
	who.out.add(func() { who.out.sessions = c.sessions })
	return nil
}

// release notes that a connection ended; holds says that it leaves
// registrations that wait for its client to come back, or, when the client left
// as it had announced, for the time that it named.
func (c *clients) release(who *connection, holds, left bool, now time.Time) {
	c.mu.Lock()
	delete(c.open, who)
	if left && who.announced && !who.asked {
		who.word.stand(now.Add(who.linger))
	}
	if len(c.open) == 0 {
		close(c.empty)
	}
	if holds {
		b := broken{who: who, until: now.Add(who.linger), asked: who.asked, ran: c.ran}
		at, _ := slices.BinarySearchFunc(c.broken, b, func(a, b broken) int { return cmp.Or(a.until.Compare(b.until), -1) })
		c.broken = slices.Insert(c.broken, at, b)
	}
	c.mu.Unlock()
	if holds {
		select {
		case c.changed <- struct{}{}:
		default:
		}
	}
}

// refuse turns new clients away from now on; "" takes them again.
func (c *clients) refuse(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusing = why
}

// askToMove asks every connected client to go to another session.
func (c *clients) askToMove(reason string) (asked int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, who := range c.inOrder() {
		who.asked = true
		who.out.add(func() { who.out.move = reason })
	}
	return len(c.open)
}

// tell says to every client which sessions take clients.
func (c *clients) tell(sessions []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Equal(c.sessions, sessions) {
		return
	}
	c.sessions = sessions
	for _, who := range c.inOrder() {
		who.out.add(func() { who.out.sessions = sessions })
	}
}

// none is closed when no client is connected.
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

// expired takes the connections whose lease is over, and says when the next
// one's will be.
func (c *clients) expired(now time.Time) (over []broken, next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for n < len(c.broken) && !c.broken[n].until.After(now) {
		n++
	}
	over, c.broken = slices.Clone(c.broken[:n]), c.broken[n:]
	if len(c.broken) > 0 {
		next = c.broken[0].until
	}
	return over, next
}

// restore takes connections back that expired has given out.
func (c *clients) restore(over []broken) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = append(over, c.broken...) // their leases end before all others
}

// passed notes that the process has run for a while.
func (c *clients) passed(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ran += d
}

// renewedFor is for how many leases in which this process ran, all in all, the
// lease of a broken connection may be started again. Without that limit a session
// that is suspended again and again would keep what dead clients had for ever.
const renewedFor = 3

// renew starts the leases of the broken connections again, but for those whose
// clients have announced their end, or have had renewedFor leases to come back.
func (c *clients) renew(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, b := range c.broken {
		had := c.ran - b.ran
		if until := now.Add(b.who.linger); !b.who.announced && had < renewedFor*b.who.linger && until.After(b.until) {
			c.broken[i].until = until
		}
	}
	slices.SortStableFunc(c.broken, func(a, b broken) int { return a.until.Compare(b.until) })
}

// waiting lists the broken connections whose lease still runs, without those
// that were meant to go.
func (c *clients) waiting() (out []*connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.broken {
		if !b.meant() {
			out = append(out, b.who)
		}
	}
	return out
}

// departed notes removals and says how many there were within a grace.
func (c *clients) departed(count int, now time.Time) (within int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = slices.DeleteFunc(c.gone, func(d departure) bool { return now.Sub(d.at) > c.grace })
	if count > 0 {
		c.gone = append(c.gone, departure{now, count})
	}
	for _, d := range c.gone {
		within += d.count
	}
	return within
}

// snapshot lists the open connections in the order in which they came.
func (c *clients) snapshot() []*connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inOrder()
}

func (c *clients) inOrder() []*connection {
	out := make([]*connection, 0, len(c.open))
	for who := range c.open {
		out = append(out, who)
	}
	slices.SortFunc(out, func(a, b *connection) int { return cmp.Compare(a.number, b.number) })
	return out
}

// leaseRound is the longest pause of runLeases, stalled the time since its last
// round that shows that this process did not run in between.
const (
	leaseRound = time.Second
	stalled    = 2 * leaseRound
)

// runLeases takes away what the clients left whose lease is over, and forgets
// old tombstones.
//
// A lease is the time in which a client can come back. While this process was
// suspended, none could: when it resumes, the leases start again. Otherwise
// sessions that were all suspended, and are back, would remove registrations
// whose clients are connecting at that moment.
func (s *Server) runLeases(ctx context.Context) {
	sweep := time.NewTimer(leaseRound)
	defer sweep.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-s.clients.changed:
		case <-sweep.C:
		}
		s.Trace.Claim(trace.Claim{Kind: trace.Leasing})
		now := time.Now()
		if now.Sub(last) > stalled {
			s.clients.renew(now)
		} else {
			s.clients.passed(now.Sub(last))
		}
		last = now
		over, next := s.clients.expired(now)
		s.expire(over, now)
		s.registry.forgetTombstones(now)
		wait := leaseRound
		if !next.IsZero() {
			wait = min(wait, max(next.Sub(now), time.Millisecond))
		}
		sweep.Reset(wait)
	}
}

// massShare is the part of a session's registrations whose going within a grace
// is a mass: evidence against this session's own network as much as against its
// clients (the original counts every disconnect as proof of death).
const massShare = 0.3

// expire removes what connections own whose lease is over. Those that broke
// with them, and those that went within the last grace, count too when it is
// judged whether this is a mass.
func (s *Server) expire(over []broken, now time.Time) {
	if len(over) == 0 {
		return
	}
	s.Trace.Claim(trace.Claim{Kind: trace.Expiring, Count: len(over)})
	if time.Since(now) > stalled {
		s.clients.restore(over) // the process was suspended since the look: see runLeases
		return
	}
	var unasked []*connection
	for _, b := range over {
		if !b.meant() {
			unasked = append(unasked, b.who)
		}
	}
	all, going := s.registry.counts(append(unasked, s.clients.waiting()...)...)
	before := s.clients.departed(0, now)
	cause := wirev1.Cause_CAUSE_CLIENT_GONE
	if float64(before+going) > massShare*float64(before+all) {
		cause = wirev1.Cause_CAUSE_CLIENTS_GONE
	}
	went := 0
	for _, b := range over {
		why := cause
		switch {
		case b.who.announced:
			why = wirev1.Cause_CAUSE_WITHDRAWN
		case b.asked:
			why = wirev1.Cause_CAUSE_CLIENT_GONE
		}
		n := s.registry.disown(b.who, why)
		if n > 0 {
			s.log.Info("client is gone", "client", b.who.name, "registrations", n, "mass", why == wirev1.Cause_CAUSE_CLIENTS_GONE)
		}
		if !b.meant() {
			went += n
		}
	}
	s.clients.departed(went, now)
	if cause == wirev1.Cause_CAUSE_CLIENTS_GONE && went > 0 {
		s.events.Add(wire.Event{
			Type: "session.clients-gone", Text: "many registrations went with their clients: unconfirmed, pushes may be held",
			Data: map[string]any{"clients": len(unasked), "registrations": went},
		})
	}
	s.nodes.wakeWriters()
}
