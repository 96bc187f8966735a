package session

import (
	"context"
	"slices"
	"sync"
	"time"

	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// arrivals limits how many clients are being welcomed at a time. When thousands
// connect at once, those that were welcomed are then served at the usual speed,
// instead of all of them so slowly that they leave and come again. The others
// wait in the order of their hellos, and are sent that they do.
//
//	hello --> (waiting) --> welcome --> (arriving) --> first message handled --> connected
//	            |   ^                       |
//	            +---+ wait, each second     +-- arrivalLimit has passed -------> connected
type arrivals struct {
	mu    sync.Mutex // guards the rest
	free  int        // places
	queue []*place   // of the clients that wait, in order
}

// place is what a client has while it is being welcomed.
type place struct {
	given chan struct{} // closed when the client has it
	limit *time.Timer   // of arrivalLimit; set before given is closed
	free  func()        // gives the place to the next one; may be called again
}

const (
	arrivalPlaces = 64
	arrivalLimit  = 100 * time.Millisecond // after which a client that sends nothing counts as connected
	waitAgain     = time.Second            // between two messages to a client that waits
	waitAtMost    = 3 * waitAgain          // after which a client that receives neither leaves
)

func newArrivals() *arrivals { return &arrivals{free: arrivalPlaces} }

// enter waits until the client may be welcomed, and sends that it waits. arrived
// must be called when the client is connected, and may be called again. sent is
// called when the client has read a message, or its transport has.
func (a *arrivals) enter(ctx context.Context, stream *clientStream, sent func()) (arrived func(), err error) {
	p := a.join()
	again := time.NewTicker(waitAgain)
	defer again.Stop()
	for {
		select {
		case <-p.given:
			return p.leave, nil
		default:
		}
		if err := stream.Send(&wirev1.ServerMessage{WaitMs: wire.Ms(waitAtMost)}); err != nil {
			a.quit(p)
			return nil, err
		}
		sent()
		select {
		case <-p.given:
		case <-again.C:
		case <-ctx.Done():
			a.quit(p)
			return nil, ctx.Err()
		}
	}
}

// join adds a client, which has a place at once if one is free.
func (a *arrivals) join() *place {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := &place{given: make(chan struct{})}
	p.free = sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.free++
		a.give()
	})
	a.queue = append(a.queue, p)
	a.give()
	return p
}

// quit ends the wait of a client that has gone. It may have a place by now.
func (a *arrivals) quit(p *place) {
	a.mu.Lock()
	at := slices.Index(a.queue, p)
	if at >= 0 {
		a.queue = slices.Delete(a.queue, at, at+1)
	}
	a.mu.Unlock()
	if at < 0 {
		p.leave()
	}
}

// give gives a free place to the client that has waited longest. The place is free
// again after arrivalLimit, also if the client does not read that it has it. mu is held.
func (a *arrivals) give() {
	if a.free == 0 || len(a.queue) == 0 {
		return
	}
	p := a.queue[0]
	a.queue[0] = nil
	a.queue = a.queue[1:]
	a.free--
	p.limit = time.AfterFunc(arrivalLimit, p.free)
	close(p.given)
}

// leave frees the place.
func (p *place) leave() {
	p.limit.Stop()
	p.free()
}
