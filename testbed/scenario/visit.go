package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"conclave/internal/sleep"
	"conclave/testbed/check"
	"conclave/wire"
)

// Clients that do not stay. A guest publishes and ends a few seconds later; a
// reader subscribes to everything, receives its first lists, and leaves. A release
// is a guest that leaves with a linger, within which the next one arrives. All
// connect at any moment, also when no session answers.

// killable is a Client that can be killed: it ends without a good-bye.
type killable interface{ Kill() }

// leased is a Client without a connection whose end a session sees.
type leased interface {
	Lease() (whole, left time.Duration)
}

// lease returns that of a worker's client, and what is left of it; 0 if a session sees its end.
func (w *worker) lease() (whole, left time.Duration) {
	if c, is := w.client.(leased); is {
		return c.Lease()
	}
	return 0, 0
}

// lingering is a Client whose registrations stay for longer than a client lease after a
// session has seen that its connection has ended.
type lingering interface {
	Linger() (whole, left time.Duration)
}

// lingers returns for how long, and what is left of that; 0 if it is the client lease.
func (w *worker) lingers() (whole, left time.Duration) {
	if c, is := w.client.(lingering); is {
		return c.Linger()
	}
	return 0, 0
}

// visits starts a client about every pause, named by kind and number.
func (l *Traffic) visits(ctx context.Context, pause time.Duration, kind string, visit func(context.Context, *worker)) {
	if pause == 0 || l.of.Names == 0 {
		return
	}
	r := rand.New(rand.NewPCG(l.seed, uint64(len(kind))<<32))
	for n := 1; ; n++ {
		if sleep.For(ctx, about(r, pause)) != nil {
			return
		}
		w := &worker{name: fmt.Sprintf("%s-%d", kind, n), rand: rand.New(rand.NewPCG(l.seed, r.Uint64())), gone: make(chan struct{})}
		if l.changes.Acquire(ctx, 1) != nil { // visit gives it back
			return
		}
		var err error
		if kind == "release" {
			w.linger = []time.Duration{6 * time.Second, 10 * time.Second, time.Minute}[r.IntN(3)]
			w.client, err = l.cluster.Capabilities().Lingering(w.name, w.linger)
		} else {
			w.client, err = l.start(w.name, n)
		}
		if err != nil {
			l.changes.Release(1)
			return // the cluster has been closed
		}
		l.working.Go(func() { visit(ctx, w) })
	}
}

const (
	leaveLimit = 2 * time.Second        // how long a guest or a reader takes for its good-bye, if it is not patient
	leaveSoon  = 800 * time.Millisecond // guests that are asked to leave do so within this time
	readLimit  = 25 * time.Second       // a patient reader that has no list until then leaves, and another one arrives
)

// guest publishes under one or two names, stays for a while, and then withdraws
// and leaves, leaves without withdrawing, or is killed.
func (l *Traffic) guest(ctx context.Context, w *worker) {
	staying, leave := context.WithCancel(ctx)
	defer leave()
	l.mu.Lock()
	w.leave = leave
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
	l.changes.Release(1)
	if sleep.For(staying, 200*time.Millisecond+time.Duration(w.rand.Int64N(int64(6*time.Second)))) != nil {
		_ = sleep.For(ctx, time.Duration(w.rand.Int64N(int64(leaveSoon)))) // it was asked to leave, or ctx has ended
	}
	if l.changes.Acquire(ctx, 1) != nil {
		return // its registrations stay, and are read at the end
	}
	defer l.changes.Release(1)
	end, way := l.withdraw, w.rand.IntN(5)
	if w.linger > 0 { // it counts if its session has the last change as stored
		end, way = l.change, 2
	}
	if way > 1 { // else it is not known whether a good-bye arrives: the registrations count as those of a killed client
		for _, o := range w.pubs {
			for stored := end(ctx, w, o); !stored; stored = l.await(ctx, w, o) {
				if ctx.Err() != nil || o.pub == nil {
					return
				}
			}
		}
	}
	l.kill(w.name)
	if c, can := w.client.(killable); can && (way == 0 || w.linger > 0) {
		c.Kill()
		return
	}
	l.leave(ctx, w)
}

// read receives one list of every name.
func (l *Traffic) read(ctx context.Context, w *worker) {
	defer l.unread(w)
	for n := range l.of.Names {
		if l.subscribe(w, l.serviceName(n)) != nil {
			l.changes.Release(1)
			return // the cluster has been closed
		}
	}
	l.changes.Release(1)
	for began := time.Now(); l.of.Patient && l.listed(w) < l.of.Names && time.Since(began) < readLimit; {
		if sleep.For(ctx, sampleIdle) != nil {
			return
		}
	}
	if sleep.For(ctx, time.Second+time.Duration(w.rand.Int64N(int64(3*time.Second)))) == nil {
		l.leave(ctx, w)
	}
}

// listed returns how many lists a reader has.
func (l *Traffic) listed(w *worker) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.of.Names {
		if _, has := l.last[[2]string{w.name, l.serviceName(i)}]; has {
			n++
		}
	}
	return n
}

// unread forgets the lists of a reader.
func (l *Traffic) unread(w *worker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := range l.of.Names {
		delete(l.last, [2]string{w.name, l.serviceName(n)})
	}
}

// leave ends a client with its good-bye. At the end of the scenario the cluster
// does that.
func (l *Traffic) leave(ctx context.Context, w *worker) {
	limited, cancel := l.within(ctx, leaveLimit)
	defer cancel()
	err := w.client.Close(limited) // without its good-bye the client counts as crashed
	if wire.CodeOf(err) != "" {
		l.rec.Op(check.Op{Client: w.name, Kind: check.OpUnheard, Refused: refused(err), Err: err})
	}
}

// refused reports whether a node has refused what a client has asked for, and was not only
// silent until the client gave up.
func refused(err error) bool {
	return wire.CodeOf(err) != "" && !errors.Is(err, context.DeadlineExceeded)
}
