package rowlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"conclave/internal/sleep"
	conclavesql "conclave/sql"
)

// RegistryConfig configures a Registry. DB and Owner are required.
type RegistryConfig struct {
	DB    *conclavesql.DB
	Owner string // the article's ip_processId

	// Interval is the time between two refreshes (at least a second), and between two
	// tries of a waiter. Default 2 s. If it is negative, a waiter does not pause.
	Interval time.Duration
	// Expire is how old a row may be. Default three intervals.
	Expire time.Duration
	// Now is this process's wall clock, with which it writes and compares times.
	// Default time.Now.
	Now func() time.Time
}

// Registry has the locks of article 001 as it is written (JdbcRegistry), with its clocks
// and its faults. It is for study only; use Locks.
type Registry struct {
	cfg RegistryConfig

	mu    sync.Mutex        // guards the field below; never held across I/O
	locks map[string]*entry // by key (lockHoldMap in article 001)
}

// entry is one lock in the map of held locks.
type entry struct {
	ready    chan struct{} // closed when the row was inserted, or the attempt has failed
	id       int64         // of the row; this and the field below are guarded by Registry.mu
	acquired bool          // the row was inserted
}

// NewRegistry returns a Registry, or an error if the configuration is invalid. Run
// starts it.
func NewRegistry(cfg RegistryConfig) (*Registry, error) {
	if cfg.DB == nil || cfg.Owner == "" {
		return nil, errors.New("rowlock: DB and Owner are required")
	}
	cfg.Interval = cmp.Or(cfg.Interval, 2*time.Second)
	cfg.Expire = cmp.Or(cfg.Expire, 3*max(cfg.Interval, time.Second))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Registry{cfg: cfg, locks: map[string]*entry{}}, nil
}

// MigrateArticle creates the article's table.
func MigrateArticle(ctx context.Context, db *conclavesql.DB) error {
	if err := db.Create(ctx, statement("article_table")); err != nil {
		return fmt.Errorf("rowlock: %w", err)
	}
	return nil
}

// Run refreshes the locks until ctx ends, each time an interval after the refresh before
// has returned (scheduleWithFixedDelay in article 001): slow statements put the next one
// off. It ignores errors: the next refresh is the retry.
func (r *Registry) Run(ctx context.Context) error {
	delay := max(r.cfg.Interval, time.Second)
	for sleep.For(ctx, delay) == nil {
		_ = r.refresh(ctx)
	}
	return ctx.Err()
}

// now returns this process's time as the rows store it.
func (r *Registry) now() int64 { return r.cfg.Now().UnixMilli() }

// expired returns the time before which a row is too old.
func (r *Registry) expired() int64 { return r.now() - r.cfg.Expire.Milliseconds() }

// Acquire waits for the lock (registryLockManager.acquireLock in article 001). If the
// key is in the map already, it returns at once, also for another thread: the map is
// filled once per key (computeIfAbsent). A thread that comes while another one tries
// waits for it, and tries itself if that one fails.
func (r *Registry) Acquire(ctx context.Context, key string) error {
	for {
		r.mu.Lock()
		e, there := r.locks[key]
		if !there {
			e = &entry{ready: make(chan struct{})}
			r.locks[key] = e
		}
		acquired := e.acquired
		r.mu.Unlock()
		switch {
		case acquired:
			return nil
		case !there:
			return r.fill(ctx, key, e)
		}
		select {
		case <-e.ready:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fill inserts the row of a new entry. If that fails the key leaves the map.
func (r *Registry) fill(ctx context.Context, key string, e *entry) error {
	id, err := r.insert(ctx, key)
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.id, e.acquired = id, err == nil; err != nil {
		delete(r.locks, key)
	}
	close(e.ready)
	return err
}

// errDuplicate is the MySQL error number of a unique violation.
const errDuplicate = 1062

// insert tries until it succeeds. A unique violation means that the lock is held (null
// of tryToAcquireLock in article 001). So does a deadlock, which the article throws:
// its waiters would fail where many try at once.
func (r *Registry) insert(ctx context.Context, key string) (id int64, err error) {
	for {
		_, err := r.cfg.DB.Exec(ctx, statement("article_acquire"), key, r.cfg.Owner, r.now())
		if err == nil {
			err = r.cfg.DB.QueryRow(ctx, statement("article_find"), []any{key, r.cfg.Owner}, &id)
			return id, err
		}
		if !conclavesql.RefusedAs(err, errDuplicate, errDeadlock) {
			return 0, fmt.Errorf("acquire lock %s: %w", key, err)
		}
		if err := sleep.For(ctx, r.cfg.Interval); err != nil {
			return 0, err
		}
	}
}

// Holds reports whether the key is in the map. It does not read the row.
func (r *Registry) Holds(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.locks[key]
	return e != nil && e.acquired
}

// Release deletes the row and then removes the key from the map, also if another
// thread has acquired the lock (registryLockManager.releaseLock in article 001). If the
// key is not in the map, or Acquire is in progress, it does nothing. After an error the
// key stays in the map: the row is refreshed if it still exists, and Release can be
// called again.
func (r *Registry) Release(ctx context.Context, key string) error {
	r.mu.Lock()
	e := r.locks[key]
	if e == nil || !e.acquired {
		r.mu.Unlock()
		return nil
	}
	id := e.id
	r.mu.Unlock()
	if _, err := r.cfg.DB.Exec(ctx, statement("article_release"), id); err != nil {
		return fmt.Errorf("release lock %s: %w", key, err)
	}
	r.mu.Lock()
	delete(r.locks, key)
	r.mu.Unlock()
	return nil
}

// refresh writes this process's time into the rows of its locks, and deletes all rows
// that have expired (LockTermRefreshTask in article 001). A process that has none returns
// before the cleaning; because of this fault a dead process's rows stay for ever.
func (r *Registry) refresh(ctx context.Context) error {
	ids := r.ids()
	if len(ids) == 0 {
		return nil
	}
	for _, id := range ids {
		if _, err := r.cfg.DB.Exec(ctx, statement("article_refresh"), r.now(), id); err != nil {
			return fmt.Errorf("refresh row %d: %w", id, err)
		}
	}
	if _, err := r.cfg.DB.Exec(ctx, statement("article_clean"), r.expired()); err != nil {
		return fmt.Errorf("clean expired rows: %w", err)
	}
	return nil
}

// ids returns the ids of the rows that exist, in the order of their keys.
func (r *Registry) ids() (ids []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(r.locks)) {
		if e := r.locks[key]; e.acquired {
			ids = append(ids, e.id)
		}
	}
	return ids
}
