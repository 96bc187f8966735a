package session

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"conclave/internal/contain"
	"conclave/session/registry"
	"conclave/wire"
	"conclave/wire/admit"
	wirev1 "conclave/wire/v1"
)

const (
	// subscribeTime is for how long a subscription keeps those after it of the same
	// address waiting: five times what it costs a session and its data nodes, so that
	// one address takes a fifth of a processor with them.
	subscribeTime = 100 * time.Microsecond
	// subscribeBurst is how many subscriptions of an address do not wait after a pause.
	subscribeBurst = 256
	// subscribeAtOnce is how many of one client are taken before it is another one's
	// turn.
	subscribeAtOnce = 32
	// subscribeHold limits how long a session reads nothing further of a client after a
	// message whose subscriptions wait.
	subscribeHold = 100 * time.Millisecond
)

// pace is the rate at which subscriptions are taken, of each address.
type pace struct {
	mu    sync.Mutex           // guards the rest
	by    map[string]time.Time // by host: when the next one may be taken, without the burst
	sweep int                  // at how many hosts those that have paused are removed
}

func newPace() *pace { return &pace{by: map[string]time.Time{}, sweep: 64} }

// reserve reserves the time of n subscriptions of a host, and returns how long they have
// to wait. Calls for one host are given their times in turn.
func (p *pace) reserve(host string, n int, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	ahead := p.ahead(host, now)
	p.by[host] = now.Add(ahead + time.Duration(n)*subscribeTime)
	if len(p.by) >= p.sweep {
		maps.DeleteFunc(p.by, func(_ string, end time.Time) bool { return !end.After(now) })
		p.sweep = max(64, 2*len(p.by))
	}
	return max(0, ahead-subscribeBurst*subscribeTime)
}

// giveBack gives back the time of n subscriptions that were refused.
func (p *pace) giveBack(host string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if end, known := p.by[host]; known {
		p.by[host] = end.Add(-time.Duration(n) * subscribeTime)
	}
}

// waits reports whether the next subscriptions of a host have to wait.
func (p *pace) waits(host string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ahead(host, now) > subscribeBurst*subscribeTime
}

// ahead returns the time of what a host has taken and not waited for. mu is held.
func (p *pace) ahead(host string, now time.Time) time.Duration {
	return max(0, p.by[host].Sub(now))
}

// subscribing holds the subscriptions of one connection that wait for their turn. Its
// stream is read on meanwhile, so that pings and withdrawals do not wait behind them.
type subscribing struct {
	serving sync.WaitGroup // the goroutine that takes them

	mu    sync.Mutex // held while subscriptions of the connection are taken or ended, so that none is taken after its end
	by    map[string]*wirev1.Subscription
	order []string // of by; an id without a subscription there was removed
	runs  bool     // the goroutine has not ended
}

// remove removes subscriptions that wait, which their client has ended or replaced. mu
// is held.
func (s *subscribing) remove(id string, in *admit.Budget, host string) {
	if was := s.by[id]; was != nil {
		in.Release(host, subscriptionSize(was))
		delete(s.by, id)
	}
}

// add adds one to those that wait. mu is held.
func (s *subscribing) add(in *wirev1.Subscription) {
	if s.by == nil {
		s.by = map[string]*wirev1.Subscription{}
	}
	if len(s.order) > 2*len(s.by)+64 {
		s.order = slices.DeleteFunc(s.order, func(id string) bool { return s.by[id] == nil })
	}
	s.by[in.GetId()], s.order = in, append(s.order, in.GetId())
}

// next removes and returns up to n of those that have waited longest. mu is held.
func (s *subscribing) next(n int, in *admit.Budget, host string) (out []*wirev1.Subscription) {
	for len(out) < n && len(s.order) > 0 {
		if x := s.by[s.order[0]]; x != nil {
			out = append(out, x)
			s.remove(x.GetId(), in, host)
		}
		s.order = s.order[1:]
	}
	if len(s.by) == 0 {
		s.by, s.order = nil, nil
	}
	return out
}

// subscriptionSize returns the bytes of a subscription that waits, about.
func subscriptionSize(in *wirev1.Subscription) int {
	return 256 + len(in.GetId()) + len(in.GetDataInfoId()) + 4*len(in.GetPublishers())
}

// subscribe takes what a client subscribes to: at once, or at the pace of its address.
// It returns for how long no further message of the client is to be read. What waits
// ends with ctx.
func (c *clientService) subscribe(ctx context.Context, conn *connection, subscriptions []*wirev1.Subscription) (hold time.Duration) {
	s := &conn.subscribing
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range subscriptions {
		s.remove(x.GetId(), c.subscriptions, conn.Host)
	}
	for part := range slices.Chunk(subscriptions, subscribeAtOnce) {
		if now := time.Now(); len(s.by) > 0 || c.pace.waits(conn.Host, now) {
			c.subscribeLater(conn, part)
			hold += time.Duration(len(part)) * subscribeTime
		} else {
			c.pace.reserve(conn.Host, len(part), now)
			c.subscribeNow(conn, part)
		}
	}
	if len(s.by) > 0 && !s.runs {
		s.runs = true
		s.serving.Go(func() {
			end := func(error) { conn.abort() }
			contain.Run(c.config.Logger, end, func() { c.serveSubscribing(ctx, conn) })
		})
	}
	return min(hold, subscribeHold)
}

// subscribeLater lets subscriptions wait, and refuses those for which there is no
// memory. conn.subscribing.mu is held.
func (c *clientService) subscribeLater(conn *connection, subscriptions []*wirev1.Subscription) {
	var refused []*wirev1.Refusal
	for _, x := range subscriptions {
		conn.subscribing.remove(x.GetId(), c.subscriptions, conn.Host) // the message has it twice
		if c.subscriptions.Try(conn.Host, subscriptionSize(x)) {
			conn.subscribing.add(x)
			continue
		}
		refused = append(refused, refusal(x.GetId(), wire.Errorf(wire.CodeLimitReached, "too many subscriptions of this address wait")))
	}
	c.refuse(conn, refused)
}

// serveSubscribing takes the subscriptions that wait, until none does or ctx ends.
func (c *clientService) serveSubscribing(ctx context.Context, conn *connection) {
	for n := c.nextSubscribing(conn, 0); n > 0; n = c.nextSubscribing(conn, n) {
		turn := time.NewTimer(c.pace.reserve(conn.Host, n, time.Now()))
		select {
		case <-turn.C:
		case <-ctx.Done():
			turn.Stop()
			return
		}
	}
}

// nextSubscribing takes n subscriptions, and returns how many are to be taken next. With
// none left, the goroutine is to end.
func (c *clientService) nextSubscribing(conn *connection, n int) (next int) {
	s := &conn.subscribing
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 {
		c.subscribeNow(conn, s.next(n, c.subscriptions, conn.Host))
	}
	s.runs = len(s.by) > 0
	return min(subscribeAtOnce, len(s.by))
}

// subscribeNow takes subscriptions. conn.subscribing.mu is held.
func (c *clientService) subscribeNow(conn *connection, subscriptions []*wirev1.Subscription) {
	now := time.Now()
	var refused []*wirev1.Refusal
	for _, in := range subscriptions {
		err := with(c.registry, func(r *registry.Registry) error {
			pushes, err := r.Subscribe(conn.Owner, in, now)
			c.clients.push(pushes)
			return err
		})
		if err != nil {
			refused = append(refused, refusal(in.GetId(), err))
		}
	}
	c.refuse(conn, refused)
	c.pace.giveBack(conn.Host, len(refused))
	c.wakeReaders()
}

// refuse answers that something is refused.
func (c *clientService) refuse(conn *connection, refused []*wirev1.Refusal) {
	if len(refused) > 0 {
		c.refusals.Add(float64(len(refused)))
		conn.out.add(func(o *registry.Outbox) { o.Answer(nil, nil, refused) })
	}
}

// unsubscribe ends subscriptions, and those that wait.
func (c *clientService) unsubscribe(conn *connection, ids []string) {
	s := &conn.subscribing
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.remove(id, c.subscriptions, conn.Host)
	}
	for part := range slices.Chunk(ids, partAtOnce) {
		c.registry.do(func(r *registry.Registry) {
			for _, id := range part {
				r.Unsubscribe(conn.Owner, id)
			}
		})
	}
	conn.out.add(func(o *registry.Outbox) {
		for _, id := range ids {
			o.Unsubscribe(id)
		}
	})
}

// endSubscriptions ends the subscriptions of a connection that has ended, a part at a
// time, and forgets those that wait.
func (c *clientService) endSubscriptions(conn *connection) {
	s := &conn.subscribing
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next(len(s.order), c.subscriptions, conn.Host)
	ids := with(c.registry, func(r *registry.Registry) []string { return r.Subscribed(conn.Owner) })
	slices.Sort(ids)
	for part := range slices.Chunk(ids, partAtOnce) {
		c.registry.do(func(r *registry.Registry) {
			for _, id := range part {
				r.Unsubscribe(conn.Owner, id)
			}
		})
	}
}
