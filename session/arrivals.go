package session

import (
	"context"
	"time"

	"conclave/wire"
	"conclave/wire/admit"
	wirev1 "conclave/wire/v1"
)

// The number of clients that are being welcomed at a time is limited. When thousands
// connect at once, those that were welcomed are then served at the usual speed,
// instead of all of them so slowly that they leave and come again. The others
// wait in the order of their hellos, and are sent that they do.
//
//	hello --> (waiting) --> welcome --> (arriving) --> first message handled --> connected
//	            |   ^                       |
//	            +---+ wait, each second     +-- arrivalLimit has passed -------> connected
const (
	arrivalPlaces = 64
	arrivalLimit  = 100 * time.Millisecond // after which a client that sends nothing, or does not read, counts as connected
	waitAgain     = time.Second            // between two messages to a client that waits
	waitAtMost    = 3 * waitAgain          // after which a client that receives neither leaves
)

// arrive waits until the client may be welcomed, and sends that it waits. The turn must
// be left when the client is connected. sent is called when the client has read a
// message, or its transport has.
func arrive(ctx context.Context, arrivals *admit.Budget, stream *clientStream, sent func()) (*admit.Turn, error) {
	turn := arrivals.Join("", 1)
	again := time.NewTicker(waitAgain)
	defer again.Stop()
	for turn.Waits() {
		if err := stream.Send(&wirev1.ServerMessage{WaitMs: wire.Ms(waitAtMost)}); err != nil {
			turn.Leave()
			return nil, err
		}
		sent()
		select {
		case <-turn.Given():
		case <-again.C:
		case <-ctx.Done():
			turn.Leave()
			return nil, ctx.Err()
		}
	}
	return turn, nil
}
