package rowlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"conclave"
	"conclave/internal/random"
	"conclave/internal/sleep"
	conclavesql "conclave/sql"
)

var (
	// ErrNotHeld is returned by Release if the lock is lost, or was released before.
	ErrNotHeld = errors.New("this lock is not held")
	// ErrHeld is returned by TryAcquire if the lock is held.
	ErrHeld = errors.New("this lock is held by another holder")
)

// LocksConfig configures Locks. DB and Owner are required.
type LocksConfig struct {
	DB    *conclavesql.DB
	Owner conclave.NodeID // this process; its incarnation must be new with each start

	// Lease is how long a lock lasts without a refresh. Default 6 s.
	Lease time.Duration
	// Refresh is the time between two refreshes. At most a third of Lease, so that two
	// of them may be lost. Default a third of Lease: the article's 2 s.
	Refresh time.Duration
	// Margin is how much earlier than its lease a holder's trust in itself ends. At
	// most a third of Lease. Default Lease/50, at least 50 ms.
	Margin time.Duration

	Rand   *rand.Rand   // for the jitter of waiters; nil draws a seed from the system
	Logger *slog.Logger // nil discards the log lines
}

// withDefaults returns c with its defaults, or an error if it is invalid.
func (c LocksConfig) withDefaults() (LocksConfig, error) {
	if c.Lease == 0 {
		c.Lease = 6 * time.Second
	}
	if c.Refresh == 0 {
		c.Refresh = c.Lease / 3
	}
	if c.Margin == 0 {
		c.Margin = max(50*time.Millisecond, c.Lease/50)
	}
	if c.Rand == nil {
		c.Rand = random.New()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.DB == nil:
		return c, errors.New("rowlock: DB is missing")
	case c.Owner.Name == "" || c.Owner.Incarnation == "":
		return c, fmt.Errorf("rowlock: Owner %q: want a name and an incarnation", c.Owner)
	case c.Lease < 100*time.Millisecond:
		return c, fmt.Errorf("rowlock: Lease %v must be at least 100ms", c.Lease)
	case c.Refresh <= 0 || c.Refresh > c.Lease/3:
		return c, fmt.Errorf("rowlock: Refresh %v must be positive and at most a third of Lease %v", c.Refresh, c.Lease)
	case c.Margin < 0 || c.Margin > c.Lease/3:
		return c, fmt.Errorf("rowlock: Margin %v must be at most a third of Lease %v", c.Margin, c.Lease)
	}
	return c, nil
}

// Locks acquires locks for one process, and refreshes those that it holds. Acquire and
// Release may be called from any goroutine while Run runs.
type Locks struct {
	cfg   LocksConfig
	table rows

	mu    sync.Mutex // guards the fields below, and those of each Lock; never held across I/O
	held  map[string]*Lock
	gates map[string]*gate
}

// gate admits one goroutine of this process at a time to a key.
type gate struct {
	token chan struct{} // capacity one: full while a goroutine is admitted
	users int           // admitted or waiting
}

// NewLocks returns Locks, or an error if the configuration is invalid. The table must
// exist (see Migrate), and Run must run for locks to be refreshed.
func NewLocks(cfg LocksConfig) (*Locks, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Locks{cfg: cfg, table: rows{cfg.DB}, held: map[string]*Lock{}, gates: map[string]*gate{}}, nil
}

// Run refreshes the held locks until ctx ends. It does not release them then: as
// after a crash, the other processes wait for the lease.
func (l *Locks) Run(ctx context.Context) error {
	tick := time.NewTicker(l.cfg.Refresh)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			for _, k := range l.list() {
				l.refresh(ctx, k)
			}
		}
	}
}

// list returns the held locks, in the order of their keys.
func (l *Locks) list() []*Lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []*Lock
	for _, k := range l.held {
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b *Lock) int { return strings.Compare(a.key, b.key) })
	return list
}

// refresh refreshes one lock. Trust counts from before the statement was sent.
func (l *Locks) refresh(ctx context.Context, k *Lock) {
	l.mu.Lock()
	beat := k.beat
	l.mu.Unlock()
	sent := time.Now()
	beat, held, err := l.table.renew(ctx, k.key, k.token, l.cfg.Owner.String(), beat)
	l.mu.Lock()
	defer l.mu.Unlock()
	k.beat = beat
	switch {
	case k.ended:
	case err != nil:
		l.cfg.Logger.Debug("could not refresh a lock, will retry", "key", k.key, "error", err)
	case !held:
		l.cfg.Logger.Warn("lost a lock: its row does not exist any more", "key", k.key, "token", k.token)
		l.end(k)
	default:
		k.until = sent.Add(l.cfg.Lease - l.cfg.Margin)
		k.timer.Reset(time.Until(k.until))
	}
}

// Acquire waits until it has the lock, against other processes and other goroutines of
// this one, or until ctx ends. An error of the database ends the wait: a row may have
// been inserted then, but the lock is not held.
func (l *Locks) Acquire(ctx context.Context, key string) (*Lock, error) {
	if err := l.enter(ctx, key); err != nil {
		return nil, err
	}
	var o observation
	for {
		k, wait, err := l.try(ctx, key, &o)
		if err != nil || k != nil {
			if err != nil {
				l.leave(key)
			}
			return k, err
		}
		if err := sleep.For(ctx, wait); err != nil {
			l.leave(key)
			return nil, err
		}
	}
}

// TryAcquire is Acquire without the wait. It returns ErrHeld if the lock is held.
func (l *Locks) TryAcquire(ctx context.Context, key string) (*Lock, error) {
	if err := validateKey(key); err != nil {
		return nil, fmt.Errorf("rowlock: %w", err)
	}
	select {
	case l.join(key).token <- struct{}{}:
	default:
		l.giveUp(key)
		return nil, ErrHeld
	}
	var o observation
	k, wait, err := l.try(ctx, key, &o)
	if err == nil && k == nil && wait == 0 { // a row of this process or of a dead one was removed
		k, _, err = l.try(ctx, key, &o)
	}
	if err == nil && k == nil {
		err = ErrHeld
	}
	if err != nil {
		l.leave(key)
	}
	return k, err
}

// observation is since when a waiter has seen one beat of one row.
type observation struct {
	id, beat uint64
	since    time.Time
}

// try reads the row once and acts on it. It returns a lock, or how long to wait
// before the next try.
func (l *Locks) try(ctx context.Context, key string, o *observation) (*Lock, time.Duration, error) {
	owner := l.cfg.Owner.String()
	r, err := l.table.look(ctx, key)
	if errors.Is(err, conclavesql.ErrNoRows) {
		sent := time.Now()
		id, err := l.table.acquire(ctx, 0, key, owner, "", l.cfg.Lease)
		if err != nil || id == 0 {
			return nil, l.jitter(l.cfg.Refresh / 4), err
		}
		return l.begin(key, id, sent), 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	if r.id != o.id || r.beat != o.beat || o.since.IsZero() {
		*o = observation{r.id, r.beat, time.Now()}
	}
	overdue := time.Since(o.since) >= 3*r.lease
	switch {
	case r.owner == owner: // an insert whose answer was lost, or a lock whose trust has ended
		return nil, 0, l.table.remove(ctx, r.id, owner)
	case r.age >= r.lease || overdue:
		if _, err := l.table.clean(ctx, r, overdue); err != nil {
			return nil, 0, err
		}
		return nil, 0, nil // look again at once: another waiter may have been faster
	}
	return nil, l.jitter(min(r.lease-max(r.age, 0), l.cfg.Refresh/4)), nil
}

// jitter returns d plus up to a tenth; at least 5 ms, so that no waiter spins.
func (l *Locks) jitter(d time.Duration) time.Duration {
	d = max(d, 5*time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	return d + time.Duration(l.cfg.Rand.Int64N(int64(d/10)+1))
}

// begin returns a held lock for an acquired row.
func (l *Locks) begin(key string, id uint64, sent time.Time) *Lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := &Lock{locks: l, key: key, token: id, until: sent.Add(l.cfg.Lease - l.cfg.Margin), lost: make(chan struct{})}
	k.timer = time.AfterFunc(time.Until(k.until), func() { l.trustEnded(k) })
	l.held[key] = k
	return k
}

// trustEnded ends a lock when its timer fires.
func (l *Locks) trustEnded(k *Lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !k.ended && !time.Now().Before(k.until) { // false if it was refreshed while the timer fired
		l.cfg.Logger.Warn("lost a lock: no refresh was acknowledged", "key", k.key, "token", k.token)
		l.end(k)
	}
}

// end ends a lock that is lost, and admits the next goroutine of this process. mu is
// held.
func (l *Locks) end(k *Lock) {
	l.drop(k)
	l.leaveLocked(k.key)
}

// drop ends a lock, so that no refresh extends it. mu is held.
func (l *Locks) drop(k *Lock) {
	k.ended = true
	k.timer.Stop()
	close(k.lost)
	delete(l.held, k.key)
}

// enter waits until this goroutine is admitted to the key.
func (l *Locks) enter(ctx context.Context, key string) error {
	if err := validateKey(key); err != nil {
		return fmt.Errorf("rowlock: %w", err)
	}
	g := l.join(key)
	select {
	case g.token <- struct{}{}:
		return nil
	case <-ctx.Done():
		l.giveUp(key)
		return ctx.Err()
	}
}

// join returns the key's gate, with one more user.
func (l *Locks) join(key string) *gate {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.gates[key]
	if g == nil {
		g = &gate{token: make(chan struct{}, 1)}
		l.gates[key] = g
	}
	g.users++
	return g
}

// giveUp removes a user that was not admitted.
func (l *Locks) giveUp(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g := l.gates[key]; g.users > 1 {
		g.users--
	} else {
		delete(l.gates, key)
	}
}

// leave admits the next goroutine.
func (l *Locks) leave(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaveLocked(key)
}

func (l *Locks) leaveLocked(key string) {
	g := l.gates[key]
	<-g.token // never blocks: the caller is admitted
	if g.users--; g.users == 0 {
		delete(l.gates, key)
	}
}

// Lock is one acquisition, from Acquire to Release or until it is lost.
type Lock struct {
	locks *Locks
	key   string
	token uint64
	lost  chan struct{} // closed when it is lost or released

	beat  uint64      // as the last refresh left it; this and the fields below are guarded by locks.mu
	until time.Time   // end of trust, unless refreshed
	ended bool        // lost or released
	timer *time.Timer // ends the lock when trust ends
}

// Key returns the key that is locked.
func (k *Lock) Key() string { return k.key }

// Token returns the number of this acquisition, which is higher than all before it.
// Store it with what the lock guards, and refuse a lower one.
func (k *Lock) Token() uint64 { return k.token }

// Held reports whether this process may act now. Call it immediately before each act.
func (k *Lock) Held() bool {
	k.locks.mu.Lock()
	defer k.locks.mu.Unlock()
	return !k.ended && time.Now().Before(k.until)
}

// Lost returns a channel that is closed when the lock is lost or released.
func (k *Lock) Lost() <-chan struct{} { return k.lost }

// Release releases the lock. It returns ErrNotHeld if the lock was lost or released
// before. After another error the other processes wait for the lease.
func (k *Lock) Release(ctx context.Context) error {
	l := k.locks
	l.mu.Lock()
	if k.ended {
		l.mu.Unlock()
		return ErrNotHeld
	}
	l.drop(k) // the next goroutine is admitted when the row is deleted
	l.mu.Unlock()
	err := l.table.remove(ctx, k.token, l.cfg.Owner.String())
	l.leave(k.key)
	return err
}
