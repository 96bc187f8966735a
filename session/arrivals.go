package session

import (
	"context"
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
	places chan struct{} // one element for each client that is being welcomed
}

const (
	arrivalPlaces = 64
	arrivalLimit  = 100 * time.Millisecond // after which a client that sends nothing counts as connected
	waitAgain     = time.Second            // between two messages to a client that waits
	waitAtMost    = 3 * waitAgain          // after which a client that receives neither leaves
)

func newArrivals() *arrivals { return &arrivals{places: make(chan struct{}, arrivalPlaces)} }

// enter waits until the client may be welcomed, and sends that it waits. arrived
// must be called when the client is connected, and may be called again.
func (a *arrivals) enter(ctx context.Context, stream *clientStream) (arrived func(), err error) {
	select {
	case a.places <- struct{}{}:
		return a.leave(), nil
	default:
	}
	again := time.NewTicker(waitAgain)
	defer again.Stop()
	for {
		if err := stream.Send(&wirev1.ServerMessage{WaitMs: wire.Ms(waitAtMost)}); err != nil {
			return nil, err
		}
		select {
		case a.places <- struct{}{}:
			return a.leave(), nil
		case <-again.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// leave returns the function that frees a place, which also happens after
// arrivalLimit.
func (a *arrivals) leave() func() {
	free := sync.OnceFunc(func() { <-a.places })
	limit := time.AfterFunc(arrivalLimit, free)
	return func() {
		limit.Stop()
		free()
	}
}
