// Package sleep waits for a duration or the end of a context, whichever is
// first. It is for loops that wait only for time; a loop that waits for an
// event selects on its channel instead.
package sleep

import (
	"context"
	"time"
)

// Longer returns the pause after one of last, in an exponential backoff: twice as
// long, at least first and at most most. Before the first pause, last is 0.
func Longer(last, first, most time.Duration) time.Duration {
	return min(max(2*last, first), most)
}

// For waits for d and returns nil, or ctx.Err() if ctx ends before.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
