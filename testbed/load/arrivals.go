package load

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Arrivals waits until a number of things has arrived. It is safe for concurrent use.
type Arrivals struct {
	of   int
	left atomic.Int64
	all  chan struct{} // closed when none is left
}

// NewArrivals returns an Arrivals of n, which is more than 0.
func NewArrivals(n int) *Arrivals {
	a := &Arrivals{of: n, all: make(chan struct{})}
	a.left.Store(int64(n))
	return a
}

// One records that one has arrived.
func (a *Arrivals) One() {
	if a.left.Add(-1) == 0 {
		close(a.all)
	}
}

// Await waits until all have arrived. missing completes the error: "3 of 10" missing.
func (a *Arrivals) Await(ctx context.Context, missing string) error {
	select {
	case <-a.all:
		return nil
	case <-ctx.Done():
		return a.fail(ctx, missing)
	}
}

func (a *Arrivals) fail(ctx context.Context, missing string) error {
	return fmt.Errorf("%d of %d %s: %w", a.left.Load(), a.of, missing, ctx.Err())
}
