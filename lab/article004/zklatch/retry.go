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

// ErrRetryRefused is returned, together with the error of the last try, if the Client's
// RetryPolicy does not allow another try.
var ErrRetryRefused = errors.New("the retry policy allows no other try")

// RetryPolicy decides whether a failed operation is tried again (getRetryPolicy in
// article 004). The types below are those of Curator; any goroutine may use them.
//
// A policy is asked only where a second execution does no harm: for reads, for deletions,
// and for the creation of a node that is recognised by its name or its data. After a lost
// answer, a conditional write and the creation of a queue's item are not repeated,
// whatever the policy. After ErrSessionExpired, which means that a request was not
// executed, the policy is asked for an item, too.
type RetryPolicy interface {
	// AllowRetry returns the pause before the next try, or false if there must be none
	// (allowRetry in article 004, which sleeps itself). retryCount is how often the
	// operation was tried again so far: 0 after the first failure. elapsed is the time
	// since it began.
	AllowRetry(retryCount int, elapsed time.Duration) (pause time.Duration, ok bool)
}

// RetryForever allows every retry, after a pause. With an Interval of 0, which Curator
// does not allow, a try after a lost connection still waits for the next connection.
type RetryForever struct {
	Interval time.Duration
}

// AllowRetry returns the interval.
func (p RetryForever) AllowRetry(int, time.Duration) (time.Duration, bool) { return p.Interval, true }

// RetryNTimes allows N retries, each after a pause.
type RetryNTimes struct {
	N     int
	Pause time.Duration
}

// AllowRetry refuses the retry after the Nth.
func (p RetryNTimes) AllowRetry(retryCount int, _ time.Duration) (time.Duration, bool) {
	if retryCount < p.N {
		return p.Pause, true
	}
	return 0, false
}

// maxExponent is the highest number of retries that an exponential policy allows
// (MAX_RETRIES_LIMIT in Curator).
const maxExponent = 29

// ExponentialBackoffRetry allows MaxRetries retries, at most 29. The pause before the
// nth, counted from 0, is BaseSleep times a random number below 1<<(n+1), at least 1,
// and at most MaxSleep. The article's has a BaseSleep of a second and 10 MaxRetries.
type ExponentialBackoffRetry struct {
	BaseSleep  time.Duration
	MaxRetries int
	MaxSleep   time.Duration       // 0 is no limit
	Random     func(n int64) int64 // returns a number from 0 to n-1; nil is rand.Int64N
}

// AllowRetry draws the pause, and refuses the retry after the last.
func (p ExponentialBackoffRetry) AllowRetry(retryCount int, _ time.Duration) (time.Duration, bool) {
	if retryCount >= min(p.MaxRetries, maxExponent) {
		return 0, false
	}
	random := p.Random
	if random == nil {
		random = rand.Int64N
	}
	factor := max(1, random(1<<(retryCount+1)))
	pause := time.Duration(math.MaxInt64)
	if p.BaseSleep <= pause/time.Duration(factor) {
		pause = p.BaseSleep * time.Duration(factor)
	}
	if p.MaxSleep > 0 {
		pause = min(pause, p.MaxSleep)
	}
	return pause, true
}

// retries counts the retries of one operation. One goroutine uses it.
type retries struct {
	policy RetryPolicy
	count  int
	began  time.Time
}

// retries begins an operation.
func (c *Client) retries() *retries { return &retries{policy: c.policy, began: time.Now()} }

// next asks the policy for another try after err, and makes the pause. It returns nil
// if there may be one, an error that is ErrRetryRefused and err, or that of ctx.
func (r *retries) next(ctx context.Context, err error) error {
	pause, ok := r.policy.AllowRetry(r.count, time.Since(r.began))
	if !ok {
		return fmt.Errorf("%w: after %d retries: %w", ErrRetryRefused, r.count, err)
	}
	r.count++
	return sleep.For(ctx, pause)
}

// retryable reports whether a request may succeed with the next connection or session
// (allowRetry of an exception in Curator's RetryPolicy).
func retryable(err error) bool {
	return errors.Is(err, ErrConnectionLost) || errors.Is(err, ErrSessionExpired)
}

// callWithRetry makes a request that may be executed twice, until it is answered, or
// the policy refuses another try (callWithRetry of Curator's RetryLoop).
func (c *Client) callWithRetry(ctx context.Context, request func() error) error {
	for r := c.retries(); ; {
		err := request()
		if !retryable(err) {
			return err
		}
		if err := r.next(ctx, err); err != nil {
			return err
		}
	}
}
