package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"conclave/internal/sleep"
)

// Clients that do not stay. A guest publishes and ends a few seconds later; a
// reader subscribes to everything, receives its first lists, and leaves. Both
// connect at any moment, also when no session answers.

// killable is a Client that can be killed: it ends without a good-bye.
type killable interface{ Kill() }

// visits starts a client about every pause, named by kind and number.
func (l *load) visits(ctx context.Context, pause time.Duration, seed uint64, kind string, visit func(context.Context, *worker)) {
	if pause == 0 || l.of.Names == 0 {
		return
	}
	r := rand.New(rand.NewPCG(seed, uint64(len(kind))<<32))
	for n := 1; ; n++ {
		if sleep.For(ctx, pause/2+time.Duration(r.Int64N(int64(pause)+1))) != nil {
			return
		}
		w := &worker{name: fmt.Sprintf("%s-%d", kind, n), rand: rand.New(rand.NewPCG(seed, r.Uint64())), gone: make(chan struct{})}
		c, err := l.cluster.Client(w.name)
		if err != nil {
			return // the cluster has been closed
		}
		w.client = c
		l.working.Go(func() { visit(ctx, w) })
	}
}

// leaveLimit bounds how long a guest or a reader takes for its good-bye.
const leaveLimit = 2 * time.Second

// guest publishes under one or two names, stays for a while, and then withdraws
// and leaves, leaves without withdrawing, or is killed.
func (l *load) guest(ctx context.Context, w *worker) {
	l.mu.Lock()
	l.guests[w.name] = w
	l.mu.Unlock()
	for range 1 + w.rand.IntN(2) {
		o := &registration{name: l.serviceName(w.rand.IntN(l.of.Names))}
		w.pubs = append(w.pubs, o)
		l.publish(ctx, w, o)
	}
	if l.of.Every > 0 && w.rand.IntN(2) == 0 {
		l.change(ctx, w, w.pubs[0])
	}
	if sleep.For(ctx, 200*time.Millisecond+time.Duration(w.rand.Int64N(int64(6*time.Second)))) != nil {
		return // its registrations stay, and are read at the end
	}
	switch w.rand.IntN(5) {
	case 0:
		l.kill(w.name)
		if c, can := w.client.(killable); can {
			c.Kill()
			return
		}
	case 1:
		// It is not known whether the good-bye arrives, so the registrations
		// count as those of a killed client.
		l.kill(w.name)
	default:
		for _, o := range w.pubs {
			for stored := l.withdraw(ctx, w, o); !stored; stored = l.await(ctx, w, o) {
				if ctx.Err() != nil || o.pub == nil {
					return
				}
			}
		}
		l.kill(w.name)
	}
	l.leave(ctx, w)
}

// read receives one list of every name.
func (l *load) read(ctx context.Context, w *worker) {
	for n := range l.of.Names {
		if l.subscribe(w, l.serviceName(n)) != nil {
			return // the cluster has been closed
		}
	}
	if sleep.For(ctx, time.Second+time.Duration(w.rand.Int64N(int64(3*time.Second)))) == nil {
		l.leave(ctx, w)
	}
}

// leave ends a client with its good-bye. At the end of the scenario the cluster
// does that.
func (l *load) leave(ctx context.Context, w *worker) {
	limited, cancel := context.WithTimeout(ctx, leaveLimit)
	defer cancel()
	_ = w.client.Close(limited) // without its good-bye the client counts as crashed
}
