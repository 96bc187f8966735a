package rowlock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	conclavesql "conclave/sql"
)

// RegistryConfig is what a Registry needs; DB and Owner are required.
type RegistryConfig struct {
	DB    *conclavesql.DB
	Owner string // the article's ip_processId

	// Interval is the time between two refreshes and two looks of the subscriptions (a
	// second at least), and two tries of who waits for a lock. Default 2 s; below zero
	// who waits does not pause at all.
	Interval time.Duration
	// Expire is how old a row may be. Default three intervals.
	Expire time.Duration
	// Now is this process's wall clock, by which it writes and judges times. nil is
	// time.Now.
	Now func() time.Time
}

// Registry is article 001 to the letter: locks, ephemeral data and subscriptions, with
// its clocks and its faults. It is here to be looked at; use Locks.
type Registry struct {
	cfg RegistryConfig

	mu        sync.Mutex // guards what follows; never held across I/O
	locks     map[string]*entry
	ephemeral map[string]int64 // the ids of the values that this process refreshes
	listeners []listener
}

// entry is a key of the map of held locks.
type entry struct {
	ready chan struct{} // closed when the row is there, or the try was given up
	id    int64
	err   error
}

// NewRegistry checks the configuration; nothing runs before Run.
func NewRegistry(cfg RegistryConfig) (*Registry, error) {
	if cfg.DB == nil || cfg.Owner == "" {
		return nil, errors.New("rowlock: DB and Owner are needed")
	}
	if cfg.Interval == 0 {
		cfg.Interval = 2 * time.Second
	}
	if cfg.Expire == 0 {
		cfg.Expire = 3 * max(cfg.Interval, time.Second)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Registry{cfg: cfg, locks: map[string]*entry{}, ephemeral: map[string]int64{}}, nil
}

// MigrateArticle makes the article's tables.
func MigrateArticle(ctx context.Context, db *conclavesql.DB) error {
	return migrate(ctx, db, conclavesql.ArticleRowTable, conclavesql.ArticleDataTable)
}

// Run starts the three managers together, and joins them when ctx has ended.
func (r *Registry) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { r.every(ctx, r.refreshData) })
	group.Go(func() { r.runSubscriptions(ctx) })
	group.Go(func() { r.every(ctx, r.refreshLocks) })
	group.Wait()
	return ctx.Err()
}

// every does a task at each interval; what fails is done again at the next one.
func (r *Registry) every(ctx context.Context, task func(context.Context) error) {
	tick := time.NewTicker(max(r.cfg.Interval, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = task(ctx)
		}
	}
}

// now is this process's time, as the rows have it.
func (r *Registry) now() int64 { return r.cfg.Now().UnixMilli() }

// expired is the time before which a row is too old.
func (r *Registry) expired() int64 { return r.now() - r.cfg.Expire.Milliseconds() }

// Acquire waits for the lock. Whoever finds the key in the map has it at once: the map
// is filled once per key (compute if absent), whichever thread asks.
func (r *Registry) Acquire(ctx context.Context, key string) error {
	r.mu.Lock()
	e, there := r.locks[key]
	if !there {
		e = &entry{ready: make(chan struct{})}
		r.locks[key] = e
	}
	r.mu.Unlock()
	if there {
		select {
		case <-e.ready:
			return e.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	e.id, e.err = r.insert(ctx, key)
	if e.err != nil {
		r.mu.Lock()
		delete(r.locks, key)
		r.mu.Unlock()
	}
	close(e.ready)
	return e.err
}

// errDuplicate is the server's number of a unique violation.
const errDuplicate = 1062

// insert tries until it works: a unique violation means that the lock is held.
func (r *Registry) insert(ctx context.Context, key string) (id int64, err error) {
	for {
		_, err := r.cfg.DB.Exec(ctx, conclavesql.ArticleRowAcquire, key, r.cfg.Owner, r.now())
		if err == nil {
			err = r.cfg.DB.QueryRow(ctx, conclavesql.ArticleRowFind, []any{key, r.cfg.Owner}, &id)
			return id, err
		}
		if !conclavesql.RefusedAs(err, errDuplicate, errDeadlock) {
			return 0, fmt.Errorf("acquire lock %s: %w", key, err)
		}
		if err := r.pause(ctx); err != nil {
			return 0, err
		}
	}
}

// pause sleeps for an interval; without one it does not, and the waiter spins.
func (r *Registry) pause(ctx context.Context) error {
	if r.cfg.Interval < 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(r.cfg.Interval)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Holds says whether the key is in the map; nobody looks at the row.
func (r *Registry) Holds(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, there := r.locks[key]
	if !there {
		return false
	}
	select {
	case <-e.ready:
		return e.err == nil
	default:
		return false
	}
}

// Release deletes the row and drops the key from the map, whoever asks.
func (r *Registry) Release(ctx context.Context, key string) error {
	r.mu.Lock()
	e, there := r.locks[key]
	delete(r.locks, key)
	r.mu.Unlock()
	if !there {
		return nil
	}
	<-e.ready
	if _, err := r.cfg.DB.Exec(ctx, conclavesql.ArticleRowRelease, e.id); err != nil {
		return fmt.Errorf("release lock %s: %w", key, err)
	}
	return nil
}

// refreshLocks is the task of the locks. Who holds nothing returns before the cleaning:
// the fault by which a dead holder's lock is never freed.
func (r *Registry) refreshLocks(ctx context.Context) error {
	ids := r.heldIDs()
	if len(ids) == 0 {
		return nil
	}
	for _, id := range ids {
		if _, err := r.cfg.DB.Exec(ctx, conclavesql.ArticleRowRefresh, r.now(), id); err != nil {
			return fmt.Errorf("refresh lock row %d: %w", id, err)
		}
	}
	if _, err := r.cfg.DB.Exec(ctx, conclavesql.ArticleRowClean, r.expired()); err != nil {
		return fmt.Errorf("clean expired locks: %w", err)
	}
	return nil
}

// heldIDs are the rows in the map, in the order of their keys.
func (r *Registry) heldIDs() (ids []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(r.locks)) {
		e := r.locks[key]
		select {
		case <-e.ready:
			ids = append(ids, e.id)
		default: // still waiting
		}
	}
	return ids
}
