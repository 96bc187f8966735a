package session

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"conclave"
	"conclave/internal/sleep"
	"conclave/session/registry"
	"conclave/wire"
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

// subscriptionSize returns the bytes of a subscription that waits, about.
func subscriptionSize(in *wirev1.Subscription) int {
	return 256 + len(in.GetId()) + len(in.GetDataInfoId()) + 4*len(in.GetPublishers())
}

// subscribe takes what a client subscribes to: at once, or at the pace of its address.
// It returns for how long no further message of the client is to be read. What waits
// ends with ctx.
func (c *clientService) subscribe(ctx context.Context, conn *connection, subscriptions []*wirev1.Subscription) (hold time.Duration) {
	s := conn.subscribing
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range subscriptions {
		s.remove(x.GetId())
	}
	for part := range slices.Chunk(subscriptions, subscribeAtOnce) {
		if now := time.Now(); len(s.by) > 0 || c.pace.waits(conn.Host, now) {
			var refused []*wirev1.Refusal
			for _, x := range s.add(part) {
				refused = append(refused, refusal(x.GetId(), wire.Errorf(wire.CodeLimitReached, "too many subscriptions of this address wait")))
			}
			c.refuse(conn, refused)
			hold += time.Duration(len(part)) * subscribeTime
		} else {
			c.pace.reserve(conn.Host, len(part), now)
			c.subscribeNow(conn, part)
		}
	}
	s.serve(c.config.Logger, conn.abort, func() { c.serveSubscribing(ctx, conn) })
	return min(hold, subscribeHold)
}

// serveSubscribing takes the subscriptions that wait, until none does or ctx ends.
func (c *clientService) serveSubscribing(ctx context.Context, conn *connection) {
	for n := c.nextSubscribing(conn, 0); n > 0; n = c.nextSubscribing(conn, n) {
		if sleep.For(ctx, c.pace.reserve(conn.Host, n, time.Now())) != nil {
			return
		}
	}
}

// nextSubscribing takes n subscriptions, and returns how many are to be taken next. With
// none left, the goroutine is to end.
func (c *clientService) nextSubscribing(conn *connection, n int) (next int) {
	s := conn.subscribing
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 {
		c.subscribeNow(conn, s.next(n, math.MaxInt))
	}
	s.more()
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
	s := conn.subscribing
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.remove(id)
	}
	c.endSubscriptions(conn, ids)
	conn.out.add(func(o *registry.Outbox) {
		for _, id := range ids {
			o.Unsubscribe(id)
		}
	})
}

// endSubscriptions ends subscriptions, a part at a time.
func (c *clientService) endSubscriptions(conn *connection, ids []string) {
	for part := range slices.Chunk(ids, partAtOnce) {
		c.registry.do(func(r *registry.Registry) {
			for _, id := range part {
				r.Unsubscribe(conn.Owner, id)
			}
		})
	}
}

// watches are the configuration values that clients watch. A session passes
// them on from the cluster's state, and knows nothing of their meaning.
// (Article 002: provide data, which a session fetches from the meta leader when
// it starts.)
type watches struct {
	mu   sync.Mutex // guards the rest; taken before an outbox's
	now  wire.ConfigValues
	sent map[*connection]map[string]conclave.Epoch // by id: the epoch of the value that was sent; zero: that there is none
}

// watch adds ids that a client watches, and sends it their values, also to say
// that there is none. Ids that are invalid, or above the limit, are ignored: the
// client refuses them itself.
func (w *watches) watch(conn *connection, ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent := w.sent[conn]
	if sent == nil {
		sent = map[string]conclave.Epoch{}
		w.sent[conn] = sent
	}
	for _, id := range ids {
		if _, known := sent[id]; wire.ValidConfigID(id) && (known || len(sent) < wire.MaxWatches) {
			w.send(conn, id)
		}
	}
}

// unwatch removes ids.
func (w *watches) unwatch(conn *connection, ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		delete(w.sent[conn], id)
		conn.out.add(func(o *registry.Outbox) { o.Unconfigure(id) })
	}
}

// leave removes a connection that has ended.
func (w *watches) leave(conn *connection) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sent, conn)
}

// update sends each client the watched values that have changed.
func (w *watches) update(now wire.ConfigValues) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.now.Epoch.Less(now.Epoch) {
		return
	}
	w.now = now
	for _, conn := range slices.SortedFunc(maps.Keys(w.sent), func(a, b *connection) int { return cmp.Compare(a.Number, b.Number) }) {
		for _, id := range slices.Sorted(maps.Keys(w.sent[conn])) {
			if v, _ := now.Find(id); v.Epoch != w.sent[conn][id] {
				w.send(conn, id)
			}
		}
	}
}

// send gives a value to the outbox of a connection. mu is held.
func (w *watches) send(conn *connection, id string) {
	v, set := w.now.Find(id)
	w.sent[conn][id] = v.Epoch
	conn.out.add(func(o *registry.Outbox) {
		o.Configure(wire.EpochOut(w.now.Epoch), &wirev1.WatchedValue{Id: id, Set: set, Value: v.Value})
	})
}
