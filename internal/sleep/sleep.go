// Package sleep waits for a while or for the end of a context, whichever is first:
// the pause of every loop that has nothing to wait for but time. A loop that waits
// for an event selects on it instead.
package sleep

import (
	"context"
	"time"
)

// For waits for d; an error, the context's, says that ctx ended meanwhile.
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
