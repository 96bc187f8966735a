package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"conclave/client"
)

// offer is one registration of a client of the load.
type offer struct {
	id, data string
	pub      *client.Publication
}

// offer publishes and waits until the registration is stored; false: ctx ended
// first.
func (l *load) offer(ctx context.Context, a *actor, id, data string) (offer, bool) {
	o := offer{id: id, data: data}
	value := l.oracle.Publishing(id, data)
	var err error
	if o.pub, err = a.Publish(ctx, data, []string{value}); err != nil {
		l.oracle.Ending(id, true) // ctx has ended
		return o, false
	}
	return o, l.await(ctx, o)
}

// change sets the next value of a registration and waits until it is stored.
func (l *load) change(ctx context.Context, o offer) bool {
	value := l.oracle.Publishing(o.id, o.data)
	if err := o.pub.Update([]string{value}); err != nil {
		l.fail(fmt.Errorf("update %s: %w", o.id, err))
		return false
	}
	return l.await(ctx, o)
}

func (l *load) await(ctx context.Context, o offer) bool {
	err := o.pub.Stored(ctx)
	if err == nil {
		l.oracle.Stored(o.id)
		return true
	}
	if ctx.Err() == nil {
		l.fail(fmt.Errorf("%s on %s was refused: %w", o.id, o.data, err))
	}
	return false
}

// publish runs a client that publishes, stays, and changes its values.
func (l *load) publish(ctx context.Context, r *rand.Rand, number int) {
	name := fmt.Sprintf("publisher-%d", number+1)
	a, err := l.actor(name, name)
	if err != nil {
		l.fail(err)
		return
	}
	var offers []offer
	defer func() {
		for _, o := range offers {
			l.oracle.Ending(o.id, true)
		}
		a.die()
	}()
	for i := range l.Each {
		o, ok := l.offer(ctx, a, fmt.Sprintf("p%d-%d", number+1, i+1), service((number*l.Each+i)%l.Services))
		offers = append(offers, o)
		if !ok {
			return
		}
		l.mu.Lock()
		l.stored++
		l.mu.Unlock()
	}
	for pause(ctx, r, l.Every) && l.gate.enter(ctx) {
		ok := l.change(ctx, offers[r.IntN(len(offers))])
		l.gate.leave()
		if !ok {
			return
		}
	}
}

// How visitors behave.
const (
	visitMean = 3 * time.Second  // how long one stays
	closeWait = 90 * time.Second // how long one waits for its good-bye to be acknowledged
)

// visit runs one client after the other; each publishes, withdraws and leaves,
// or dies.
func (l *load) visit(ctx context.Context, r *rand.Rand, host string) {
	for n := 1; l.visitOnce(ctx, r, host, fmt.Sprintf("%s.%d", host, n)); n++ {
		if !pause(ctx, r, visitMean/4) {
			return
		}
	}
}

func (l *load) visitOnce(ctx context.Context, r *rand.Rand, host, name string) bool {
	if !l.gate.enter(ctx) {
		return false
	}
	a, err := l.actor(host, name)
	if err != nil {
		l.gate.leave()
		l.fail(err)
		return false
	}
	var offers []offer
	defer func() {
		for _, o := range offers {
			l.oracle.Ending(o.id, true)
		}
		a.die()
	}()
	ok := true
	for range 1 + r.IntN(3) {
		if ok {
			var o offer
			o, ok = l.offer(ctx, a, fmt.Sprintf("v%d", l.names.Add(1)), service(r.IntN(l.Services)))
			offers = append(offers, o)
		}
	}
	l.gate.leave()
	if !ok || !pause(ctx, r, visitMean) || !l.gate.enter(ctx) {
		return false
	}
	defer l.gate.leave()
	switch n := r.IntN(100); {
	case n < 10: // it dies with its registrations
	case n < 40: // it withdraws, stays a moment, and then dies without registrations
		for _, o := range offers {
			if !l.withdraw(ctx, o) {
				return false
			}
		}
		return pause(ctx, r, visitMean/6)
	default:
		for _, o := range offers {
			l.oracle.Ending(o.id, false)
		}
		closing, cancel := context.WithTimeout(ctx, closeWait)
		defer cancel()
		if err := a.Close(closing); err == nil {
			for _, o := range offers {
				l.oracle.Withdrawn(o.id)
			}
		}
	}
	return ctx.Err() == nil
}

// withdraw withdraws a registration and waits for the acknowledgement.
func (l *load) withdraw(ctx context.Context, o offer) bool {
	l.oracle.Ending(o.id, false)
	if err := o.pub.Withdraw(); err != nil {
		l.fail(fmt.Errorf("withdraw %s: %w", o.id, err))
		return false
	}
	if err := o.pub.Stored(ctx); err != nil {
		return false
	}
	l.oracle.Withdrawn(o.id)
	return true
}
