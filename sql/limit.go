package sql

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

// limit is the time limit of one statement of the pool, or of one answer of the server
// while a pinned connection is established. That of a statement is suspended while a
// connection is established for it, which has a limit of its own: ten round trips are
// allowed to take longer than one.
type limit struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	of     time.Duration
	timer  *time.Timer

	unconnected bool // no connection could be made for the statement

	mu    sync.Mutex // guards the field below
	began time.Time  // since when it counts
}

type limitKey struct{}

// limited returns a context that ends after the duration. end releases it.
func limited(ctx context.Context, of time.Duration) (*limit, context.Context) {
	l := &limit{of: of, began: time.Now()}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.timer = time.AfterFunc(of, func() { l.cancel(context.DeadlineExceeded) })
	return l, context.WithValue(l.ctx, limitKey{}, l)
}

// limitOf returns the limit of a context; nil if it has none.
func limitOf(ctx context.Context) *limit {
	l, _ := ctx.Value(limitKey{}).(*limit)
	return l
}

// end releases the limit. It returns err, which is a context.DeadlineExceeded if the
// limit was what ended the statement, or the driver's timeout of a read, which is as
// long.
func (l *limit) end(err error) error {
	l.timer.Stop()
	cause := context.Cause(l.ctx)
	l.cancel(nil)
	if errors.Is(err, context.Canceled) && errors.Is(cause, context.DeadlineExceeded) ||
		errors.Is(err, mysql.ErrInvalidConn) && l.took() >= l.of {
		return fmt.Errorf("%w: %s", context.DeadlineExceeded, err.Error())
	}
	return err
}

// took returns how long the limit has counted.
func (l *limit) took() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.began)
}

// suspend stops the limit until begin is called. It returns false if there is none, or
// none that counts.
func (l *limit) suspend() bool { return l != nil && l.timer.Stop() }

// begin makes the limit count from its beginning.
func (l *limit) begin() {
	l.mu.Lock()
	l.began = time.Now()
	l.mu.Unlock()
	l.timer.Reset(l.of)
}

// answered is called with each sign of life of the server that a connection is made to:
// the limit counts from its beginning.
func (l *limit) answered() {
	if l.suspend() {
		l.begin()
	}
}

// connectBeside makes a connection for the pool in the background, after a statement
// whose caller could not wait for one: the next finds it. Otherwise a caller that
// never waits as long as a connection takes would never have one.
func (db *DB) connectBeside() {
	if !db.connecting.CompareAndSwap(false, true) {
		return
	}
	db.running.Go(func() {
		defer db.connecting.Store(false)
		ctx, cancel := context.WithTimeout(db.open, db.opts.Connect)
		defer cancel()
		_ = db.pool.PingContext(ctx) // its error is that of the next statement
	})
}

// trips is the number of statements whose times are kept.
const trips = 16

// tripTimes keeps the times of the latest statements that were answered.
type tripTimes struct {
	mu    sync.Mutex
	times [trips]time.Duration
	next  int
}

func (t *tripTimes) add(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.times[t.next%trips] = max(took, time.Nanosecond)
	t.next++
}

// shortest returns the shortest time that is kept; 0 if there is none.
func (t *tripTimes) shortest() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	var least time.Duration
	for _, d := range t.times[:min(t.next, trips)] {
		if least == 0 || d < least {
			least = d
		}
	}
	return least
}

// RoundTrip returns the shortest time in which one of the latest statements was
// answered, which a wait for a lock or a stall does not lengthen; 0 if there was
// none.
func (db *DB) RoundTrip() time.Duration { return db.trips.shortest() }

// RoundTripsPerLease is how many round trips to the database a lease must have room for.
// One statement is given a sixth of the lease, and may take two; a candidate needs
// three, counted from before its first, to win and begin to lead; and a leader
// whose connection was broken needs nine to continue its term.
const RoundTripsPerLease = 12
