package rowlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"conclave"
	"conclave/internal/sleep"
	conclavesql "conclave/sql"
)

// ErrNotHeld is returned by Release if the lock is lost, or was released before.
var ErrNotHeld = errors.New("this lock is not held")

// LocksConfig configures Locks. DB and Owner are required.
type LocksConfig struct {
	DB    *conclavesql.DB
	Owner conclave.NodeID // this process; its incarnation must be new with each start

	// Lease is how long a lock lasts without a refresh. Default 6 s.
	Lease time.Duration
	// Refresh is the time between two refreshes. At most a third of Lease, so that two
	// of them may be lost. Default a third of Lease: the article's 2 s.
	Refresh time.Duration
}

// trust is how long after a refresh was sent the holder may act: less than its lease.
func (c LocksConfig) trust() time.Duration { return c.Lease - max(50*time.Millisecond, c.Lease/50) }

// Locks acquires locks for one process, and refreshes those that it holds. Acquire and
// Release may be called from any goroutine while Run runs.
type Locks struct {
	cfg   LocksConfig
	table rows

	mu    sync.Mutex // guards the fields below, and those of each Lock; never held across I/O
	held  map[string]*Lock
	gates map[string]chan struct{} // of each key that was used; full while a goroutine is admitted
}

// NewLocks returns Locks, or an error if the configuration is invalid. The table must
// exist (see Migrate), and Run must run for locks to be refreshed.
func NewLocks(cfg LocksConfig) (*Locks, error) {
	cfg.Lease = cmp.Or(cfg.Lease, 6*time.Second)
	cfg.Refresh = cmp.Or(cfg.Refresh, cfg.Lease/3)
	switch {
	case cfg.DB == nil:
		return nil, errors.New("rowlock: DB is missing")
	case cfg.Owner.Name == "" || cfg.Owner.Incarnation == "":
		return nil, fmt.Errorf("rowlock: Owner %q: want a name and an incarnation", cfg.Owner)
	case cfg.Lease < 200*time.Millisecond:
		return nil, fmt.Errorf("rowlock: Lease %v must be at least 200ms", cfg.Lease)
	case cfg.Refresh <= 0 || cfg.Refresh > cfg.Lease/3:
		return nil, fmt.Errorf("rowlock: Refresh %v must be positive and at most a third of Lease %v", cfg.Refresh, cfg.Lease)
	}
	return &Locks{cfg: cfg, table: rows{cfg.DB}, held: map[string]*Lock{}, gates: map[string]chan struct{}{}}, nil
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
	return slices.SortedFunc(maps.Values(l.held), func(a, b *Lock) int { return cmp.Compare(a.key, b.key) })
}

// refresh refreshes one lock. Trust counts from before the statement was sent.
func (l *Locks) refresh(ctx context.Context, k *Lock) {
	sent := time.Now()
	held, err := l.table.renew(ctx, k.token, l.cfg.Owner.String())
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case k.ended || err != nil: // the next refresh is the retry
	case !held:
		l.end(k)
	default:
		k.until = sent.Add(l.cfg.trust())
		k.timer.Reset(time.Until(k.until))
	}
}

// Acquire waits until it has the lock, against other processes and other goroutines of
// this one, or until ctx ends. An error of the database ends the wait: a row may have
// been inserted then, but the lock is not held.
func (l *Locks) Acquire(ctx context.Context, key string) (*Lock, error) {
	if err := validateKey(key); err != nil {
		return nil, fmt.Errorf("rowlock: %w", err)
	}
	select {
	case l.gate(key) <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var o observation
	for {
		k, wait, err := l.try(ctx, key, &o)
		if err == nil && k == nil {
			err = sleep.For(ctx, wait)
		}
		if err != nil {
			<-l.gate(key)
			return nil, err
		}
		if k != nil {
			return k, nil
		}
	}
}

// gate returns the channel that admits one goroutine of this process at a time to a key.
func (l *Locks) gate(key string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gates[key] == nil {
		l.gates[key] = make(chan struct{}, 1)
	}
	return l.gates[key]
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
		id, err := l.table.acquire(ctx, key, owner, l.cfg.Lease)
		if err != nil || id == 0 {
			return nil, jitter(l.cfg.Refresh / 4), err
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
		return nil, 0, l.table.clean(ctx, r, overdue) // look again at once: another waiter may have been faster
	}
	return nil, jitter(min(r.lease-max(r.age, 0), l.cfg.Refresh/4)), nil
}

// jitter returns d plus up to a tenth; at least 5 ms, so that no waiter spins.
func jitter(d time.Duration) time.Duration {
	d = max(d, 5*time.Millisecond)
	return d + rand.N(d/10+1)
}

// begin returns a held lock for an acquired row.
func (l *Locks) begin(key string, id uint64, sent time.Time) *Lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := &Lock{locks: l, key: key, token: id, until: sent.Add(l.cfg.trust()), lost: make(chan struct{})}
	k.timer = time.AfterFunc(time.Until(k.until), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !k.ended && !time.Now().Before(k.until) { // false if it was refreshed while the timer fired
			l.end(k)
		}
	})
	l.held[key] = k
	return k
}

// end ends a lock that is lost, and admits the next goroutine of this process. mu is
// held.
func (l *Locks) end(k *Lock) {
	l.drop(k)
	<-l.gates[k.key] // never blocks: the holder was admitted
}

// drop ends a lock, so that no refresh extends it. mu is held.
func (l *Locks) drop(k *Lock) {
	k.ended = true
	k.timer.Stop()
	close(k.lost)
	delete(l.held, k.key)
}

// Lock is one acquisition, from Acquire to Release or until it is lost.
type Lock struct {
	locks *Locks
	key   string
	token uint64
	lost  chan struct{} // closed when it is lost or released

	until time.Time   // end of trust, unless refreshed; this and the fields below are guarded by locks.mu
	ended bool        // lost or released
	timer *time.Timer // ends the lock when trust ends
}

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
	<-l.gate(k.key)
	return err
}
