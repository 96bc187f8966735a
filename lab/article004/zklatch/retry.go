package zklatch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"conclave/internal/sleep"
)

// ErrRetryRefused is returned, together with ErrPlaceLost, if the Client's RetryPolicy
// does not let an acquisition start again.
var ErrRetryRefused = errors.New("the retry policy allows no other try")

// RetryPolicy decides whether an acquisition starts again after its place in the queue was
// lost (allowRetry in article 004, which sleeps itself). It returns the pause before that,
// or false. retryCount is how often it has started again so far, elapsed the time since it
// began. Any goroutine may call it.
type RetryPolicy func(retryCount int, elapsed time.Duration) (pause time.Duration, ok bool)

// ExponentialBackoffRetry allows MaxRetries retries, of which there are at most 29. The
// pause before the nth, counted from 0, is BaseSleep times a random number below
// 1<<(n+1), at least 1. The article's has a BaseSleep of a second and 10 MaxRetries.
type ExponentialBackoffRetry struct {
	BaseSleep  time.Duration
	MaxRetries int
	Random     func(n int64) int64 // returns a number from 0 to n-1; nil is rand.Int64N
}

// AllowRetry is a RetryPolicy.
func (p ExponentialBackoffRetry) AllowRetry(retryCount int, _ time.Duration) (time.Duration, bool) {
	if retryCount >= min(p.MaxRetries, 29) {
		return 0, false
	}
	random := p.Random
	if random == nil {
		random = rand.Int64N
	}
	factor, longest := time.Duration(max(1, random(1<<(retryCount+1)))), time.Duration(math.MaxInt64)
	return min(p.BaseSleep, longest/factor) * factor, true
}

// allow asks the policy for another try after err, and makes the pause. It returns nil
// if there may be one, an error that is ErrRetryRefused and err, or that of ctx.
func (p RetryPolicy) allow(ctx context.Context, retryCount int, began time.Time, err error) error {
	if p == nil {
		return ctx.Err()
	}
	pause, ok := p(retryCount, time.Since(began))
	if !ok {
		return fmt.Errorf("%w: after %d retries: %w", ErrRetryRefused, retryCount, err)
	}
	return sleep.For(ctx, pause)
}
