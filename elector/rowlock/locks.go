package rowlock

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	conclavesql "conclave/sql"
)

var (
	// ErrNotHeld: Release of a lock that is lost, or was released before.
	ErrNotHeld = errors.New("this lock is not held")
	// ErrHeld: TryAcquire found that somebody else holds the lock.
	ErrHeld = errors.New("somebody else holds this lock")
)

// LocksConfig is what Locks need; DB and Owner are required.
type LocksConfig struct {
	DB    *conclavesql.DB
	Owner conclave.NodeID // this process, with an incarnation that is new with each start

	// Lease is how long a lock lasts without a refresh. Default 6 s.
	Lease time.Duration
	// Refresh is the time between two refreshes. At most a third of Lease, so that two
	// of them may be lost. Default a third of Lease: the article's 2 s.
	Refresh time.Duration
	// Margin is how much earlier than its lease ends a holder stops trusting itself. At
	// most a third of Lease. Default Lease/50, at least 50 ms.
	Margin time.Duration

	Rand   *rand.Rand   // jitter of the waiters; nil draws a seed from the system
	Logger hclog.Logger // nil drops everything
}

// withDefaults fills what was left empty, and says what cannot be.
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
		var seed [32]byte
		crand.Read(seed[:])
		c.Rand = rand.New(rand.NewChaCha8(seed))
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	switch {
	case c.DB == nil:
		return c, errors.New("rowlock: DB is missing")
	case c.Owner.Name == "" || c.Owner.Incarnation == "":
		return c, fmt.Errorf("rowlock: Owner %q: want a name and an incarnation", c.Owner)
	case c.Lease < 100*time.Millisecond:
		return c, fmt.Errorf("rowlock: Lease %v is under 100ms", c.Lease)
	case c.Refresh <= 0 || c.Refresh > c.Lease/3:
		return c, fmt.Errorf("rowlock: Refresh %v must be positive and at most a third of Lease %v", c.Refresh, c.Lease)
	case c.Margin < 0 || c.Margin > c.Lease/3:
		return c, fmt.Errorf("rowlock: Margin %v must be at most a third of Lease %v", c.Margin, c.Lease)
	}
	return c, nil
}

// Locks are the locks that one process holds, and the task that refreshes them.
// Acquire and Release may be called from any goroutine while Run runs.
type Locks struct {
	cfg   LocksConfig
	table rows

	mu    sync.Mutex // guards what follows, and the fields of every Lock; never held across I/O
	held  map[string]*Lock
	gates map[string]*gate
}

// gate lets one of this process's users of a key through at a time.
type gate struct {
	token chan struct{} // cap 1: full while somebody is inside
	users int
}

// NewLocks checks the configuration; nothing is refreshed before Run. The table must
// be there: Migrate.
func NewLocks(cfg LocksConfig) (*Locks, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Locks{cfg: cfg, table: rows{cfg.DB}, held: map[string]*Lock{}, gates: map[string]*gate{}}, nil
}

// Run refreshes what is held until ctx ends. It releases nothing at its end: that is
// what a crash does, and the others wait for the lease.
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

// list is what is held, in the order of the keys.
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

// refresh counts a beat for one lock. Trust counts from before the statement was sent.
func (l *Locks) refresh(ctx context.Context, k *Lock) {
	l.mu.Lock()
	beat := k.beat
	l.mu.Unlock()
	sent := time.Now()
	beat, there, err := l.table.hold(ctx, k.key, k.token, l.cfg.Owner.String(), beat)
	l.mu.Lock()
	defer l.mu.Unlock()
	k.beat = beat
	switch {
	case k.over:
	case err != nil:
		l.cfg.Logger.Debug("a lock was not refreshed, will retry", "key", k.key, "error", err)
	case !there:
		l.cfg.Logger.Warn("a lock is lost: its row is gone", "key", k.key, "token", k.token)
		l.end(k)
	default:
		k.until = sent.Add(l.cfg.Lease - l.cfg.Margin)
		k.timer.Reset(time.Until(k.until))
	}
}

// Acquire waits until the lock is this process's own, and nobody else's in it, or
// until ctx ends. An error of the database ends the wait: whether there is a row then
// is not known, but nobody holds it.
func (l *Locks) Acquire(ctx context.Context, key string) (*Lock, error) {
	if err := l.enter(ctx, key); err != nil {
		return nil, err
	}
	var w waiter
	for {
		k, wait, err := l.try(ctx, key, &w)
		if err != nil || k != nil {
			if err != nil {
				l.leave(key)
			}
			return k, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			l.leave(key)
			return nil, ctx.Err()
		}
	}
}

// TryAcquire is Acquire without the wait: ErrHeld when somebody else holds the lock.
func (l *Locks) TryAcquire(ctx context.Context, key string) (*Lock, error) {
	if err := validateKey(key); err != nil {
		return nil, fmt.Errorf("rowlock: %w", err)
	}
	if g := l.gate(key); !g.tryEnter() {
		l.quit(key)
		return nil, ErrHeld
	}
	var w waiter
	k, wait, err := l.try(ctx, key, &w)
	if err == nil && k == nil && wait == 0 { // what stood in the way was ours, or dead
		k, _, err = l.try(ctx, key, &w)
	}
	if err == nil && k == nil {
		err = ErrHeld
	}
	if err != nil {
		l.leave(key)
	}
	return k, err
}

// waiter is what one wait has seen: since when one beat of one row.
type waiter struct {
	id, beat uint64
	since    time.Time
}

// try is one look, and what follows from it: a lock, or how long to wait.
func (l *Locks) try(ctx context.Context, key string, w *waiter) (*Lock, time.Duration, error) {
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
	if r.id != w.id || r.beat != w.beat || w.since.IsZero() {
		*w = waiter{r.id, r.beat, time.Now()}
	}
	overdue := time.Since(w.since) >= 3*r.lease
	switch {
	case r.owner == owner: // an insert of ours whose answer was lost, or a lock that we lost trust in
		return nil, 0, l.table.remove(ctx, r.id, owner)
	case r.age >= r.lease || overdue:
		if _, err := l.table.clean(ctx, r, overdue); err != nil {
			return nil, 0, err
		}
		return nil, 0, nil // look again, at once: somebody may be quicker
	}
	return nil, l.jitter(min(r.lease-max(r.age, 0), l.cfg.Refresh/4)), nil
}

// jitter is d, and at most a tenth more; never nothing, so that nobody spins.
func (l *Locks) jitter(d time.Duration) time.Duration {
	d = max(d, 5*time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	return d + time.Duration(l.cfg.Rand.Int64N(int64(d/10)+1))
}

// begin makes an acquired row a held lock.
func (l *Locks) begin(key string, id uint64, sent time.Time) *Lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := &Lock{locks: l, key: key, token: id, until: sent.Add(l.cfg.Lease - l.cfg.Margin), lost: make(chan struct{})}
	k.timer = time.AfterFunc(time.Until(k.until), func() { l.trustEnded(k) })
	l.held[key] = k
	return k
}

// trustEnded is called by the lock's timer.
func (l *Locks) trustEnded(k *Lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !k.over && !time.Now().Before(k.until) { // else it was refreshed while the timer fired
		l.cfg.Logger.Warn("a lock is lost: no refresh was acknowledged", "key", k.key, "token", k.token)
		l.end(k)
	}
}

// end takes the lock away from its holder; mu is held. The next of this process may
// try at once.
func (l *Locks) end(k *Lock) {
	k.over = true
	k.timer.Stop()
	close(k.lost)
	delete(l.held, k.key)
	l.leaveLocked(k.key)
}

// enter waits for the key's gate.
func (l *Locks) enter(ctx context.Context, key string) error {
	if err := validateKey(key); err != nil {
		return fmt.Errorf("rowlock: %w", err)
	}
	g := l.gate(key)
	select {
	case g.token <- struct{}{}:
		return nil
	case <-ctx.Done():
		l.quit(key)
		return ctx.Err()
	}
}

// gate counts one more user of a key.
func (l *Locks) gate(key string) *gate {
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

func (g *gate) tryEnter() bool {
	select {
	case g.token <- struct{}{}:
		return true
	default:
		return false
	}
}

// quit is for who did not get in.
func (l *Locks) quit(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g := l.gates[key]; g.users > 1 {
		g.users--
	} else {
		delete(l.gates, key)
	}
}

// leave opens the gate for the next.
func (l *Locks) leave(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaveLocked(key)
}

func (l *Locks) leaveLocked(key string) {
	g := l.gates[key]
	<-g.token // never waits: the leaver is inside
	if g.users--; g.users == 0 {
		delete(l.gates, key)
	}
}

// Lock is one acquisition, from Acquire to Release or until it is lost.
type Lock struct {
	locks *Locks
	key   string
	token uint64
	lost  chan struct{} // closed when it is over, for whatever reason

	beat  uint64      // as our last refresh left it; these are guarded by locks.mu
	until time.Time   // trusted until then, unless refreshed
	over  bool        // lost or released
	timer *time.Timer // ends it when trust does
}

// Key is what is locked.
func (k *Lock) Key() string { return k.key }

// Token is the acquisition's number: each one's is higher than those before. Write it
// beside what the lock guards, and refuse a lower one.
func (k *Lock) Token() uint64 { return k.token }

// Held says whether this process may act now: the check to make at that moment.
func (k *Lock) Held() bool {
	k.locks.mu.Lock()
	defer k.locks.mu.Unlock()
	return !k.over && time.Now().Before(k.until)
}

// Lost is closed when the lock is over: lost, or released.
func (k *Lock) Lost() <-chan struct{} { return k.lost }

// Release gives the lock back: ErrNotHeld when it was lost before. After another error
// the others wait for the lease.
func (k *Lock) Release(ctx context.Context) error {
	l := k.locks
	l.mu.Lock()
	if k.over {
		l.mu.Unlock()
		return ErrNotHeld
	}
	k.over = true // no refresh revives it; the gate stays shut until the row is gone
	k.timer.Stop()
	close(k.lost)
	delete(l.held, k.key)
	l.mu.Unlock()
	err := l.table.remove(ctx, k.token, l.cfg.Owner.String())
	l.leave(k.key)
	return err
}
