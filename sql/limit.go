package sql

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

// limit is the time limit of one statement of the pool. It is suspended while the
// connection for the statement is established, which has a limit of its own: ten
// round trips are allowed to take longer than one.
type limit struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	of     time.Duration
	timer  *time.Timer

	mu          sync.Mutex // guards the fields below
	began       time.Time  // of the statement; later than the call if a connection was made for it
	unconnected bool       // no connection could be made for it
}

type limitKey struct{}

// limited returns a context that ends after the duration, not counting the time
// in which a connection is established under it. end releases it.
func limited(ctx context.Context, of time.Duration) (*limit, context.Context) {
	l := &limit{of: of, began: time.Now()}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.timer = time.AfterFunc(of, func() { l.cancel(context.DeadlineExceeded) })
	return l, context.WithValue(l.ctx, limitKey{}, l)
}

// end releases the limit. It returns err, or context.DeadlineExceeded if the limit
// was what ended the statement, or the driver's timeout of a read, which is as long.
func (l *limit) end(err error) error {
	l.timer.Stop()
	cause := context.Cause(l.ctx)
	l.cancel(nil)
	if errors.Is(err, context.Canceled) && errors.Is(cause, context.DeadlineExceeded) ||
		errors.Is(err, mysql.ErrInvalidConn) && l.took() >= l.of {
		return context.DeadlineExceeded
	}
	return err
}

// took returns how long the statement has been running.
func (l *limit) took() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.began)
}

// suspendLimit stops the limit of ctx, if it has one, until resume is called; the
// limit then counts from its beginning.
func suspendLimit(ctx context.Context) (resume func(connected bool)) {
	l, ok := ctx.Value(limitKey{}).(*limit)
	if !ok || !l.timer.Stop() {
		return func(bool) {}
	}
	return func(connected bool) {
		l.mu.Lock()
		l.began, l.unconnected = time.Now(), !connected
		l.mu.Unlock()
		l.timer.Reset(l.of)
	}
}

// stall ends an attempt to connect when the server has not answered for a while,
// where the driver has no time limit for an answer. A nil stall never does.
type stall struct {
	after time.Duration
	timer atomic.Pointer[time.Timer] // of the attempt in progress
}

// watch returns a context that ends when the server stalls. end releases it, and
// returns err, as a context.DeadlineExceeded if the stall was the reason.
func (s *stall) watch(ctx context.Context) (watched context.Context, end func(error) error) {
	if s == nil {
		return ctx, func(err error) error { return err }
	}
	watched, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(s.after, func() { cancel(context.DeadlineExceeded) })
	s.timer.Store(timer)
	return watched, func(err error) error {
		timer.Stop()
		cause := context.Cause(watched)
		cancel(nil)
		if errors.Is(err, context.Canceled) && errors.Is(cause, context.DeadlineExceeded) {
			return fmt.Errorf("%w: %s", cause, err.Error()) // not a cancellation
		}
		return err
	}
}

// answered is called with each sign of life of the server.
func (s *stall) answered() {
	if s == nil {
		return
	}
	if timer := s.timer.Load(); timer != nil && timer.Stop() {
		timer.Reset(s.after)
	}
}

// connectBeside makes a connection for the pool in the background, after a statement
// whose caller could not wait for one: the next finds it. Otherwise a caller that
// never waits as long as a connection takes would never have one.
func (db *DB) connectBeside() {
	db.beside.Lock()
	defer db.beside.Unlock()
	if db.closed || db.connecting {
		return
	}
	db.connecting = true
	db.running.Go(func() {
		ctx, cancel := context.WithTimeout(db.open, db.opts.Connect)
		defer cancel()
		_ = db.pool.PingContext(ctx) // its error is that of the next statement
		db.beside.Lock()
		db.connecting = false
		db.beside.Unlock()
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
