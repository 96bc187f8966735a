package lab

import (
	"context"
	"sync"
	"time"

	"conclave/internal/sleep"
	conclavesql "conclave/sql"
)

var dolphinRule = Rule{
	Name: "dolphinscheduler", From: "apache/dolphinscheduler, registry-jdbc (JdbcRegistryServer, JdbcRegistryLockManager)",
	About:    "A row under a unique key; a client beats, by its own wall clock, and each client purges those that seem dead, once in a session's timeout.",
	Weakness: "Waiters insert without a pause. Two machines' wall clocks are compared. A purge does not look whether the client has beaten since; who was purged finds out by its beats.",
	Own:      Times{Lease: 60 * time.Second, Beat: 3 * time.Second, Check: 60 * time.Second}, Alone: true,
	migrate: tables("", conclavesql.LabDolphinClientTable, conclavesql.LabDolphinLockTable),
	start: func(_ context.Context, s *stand) (candidate, error) {
		return &dolphin{s: s, stop: make(chan struct{}), done: make(chan struct{})}, nil
	},
}

// dolphin is DolphinScheduler's JDBC registry: three tasks beside each other, and a
// state that ends what is held when no beat has worked for a session's timeout.
type dolphin struct {
	s    *stand
	once sync.Once
	stop chan struct{} // closed by Stop
	done chan struct{} // closed by Run

	mu   sync.Mutex // guards what follows; never held across I/O
	held int64      // the id of the lock's row; 0: none
}

func (d *dolphin) name() string { return d.s.ID().String() }

// Run registers, and then beats, purges and waits for the lock.
func (d *dolphin) Run(ctx context.Context) error {
	defer close(d.done)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for ctx.Err() == nil {
		if _, err := d.s.db.Exec(ctx, conclavesql.LabDolphinRegister, d.s.Lab, d.name(), time.Now().UnixMilli()); err == nil {
			break
		}
		_ = sleep.For(ctx, d.s.Times.Beat)
	}
	var group sync.WaitGroup
	group.Go(func() { d.beat(ctx) })
	group.Go(func() { d.every(ctx, d.s.Times.Check, d.purge) })
	group.Go(func() { d.acquire(ctx) })
	select {
	case <-ctx.Done():
	case <-d.stop:
	}
	cancel()
	group.Wait()
	return nil
}

// acquire inserts until it works: there is no pause in this loop, as there is none in
// the original's after a refused insert.
func (d *dolphin) acquire(ctx context.Context) {
	for ctx.Err() == nil {
		if d.holding() != 0 {
			_ = sleep.For(ctx, d.s.Times.Beat)
			continue
		}
		d.s.turns.Add(1)
		if _, err := d.s.db.Exec(ctx, conclavesql.LabDolphinAcquire, d.s.Lab, d.name()); err != nil {
			continue
		}
		if id, client, err := d.holder(ctx); err == nil && client == d.name() {
			d.hold(id)
			d.s.belief.lead(0, time.Time{})
		}
	}
}

// beat tells that this client lives. When it does not get through for a session's
// timeout, or was purged, the registry is "disconnected", which ends the process's work;
// here it begins anew, under the same name.
func (d *dolphin) beat(ctx context.Context) {
	success := time.Now()
	suspended := false
	d.every(ctx, d.s.Times.Beat, func(ctx context.Context) {
		now := time.Now()
		n, err := d.s.db.Exec(ctx, conclavesql.LabDolphinBeat, now.UnixMilli(), d.s.Lab, d.name())
		switch {
		case err == nil && n == 1:
			success, suspended = now, false
		case !suspended:
			suspended = true
		case now.Sub(success) > d.s.Times.Lease:
			d.hold(0)
			d.s.belief.leave("disconnected")
			if _, err := d.s.db.Exec(ctx, conclavesql.LabDolphinRegister, d.s.Lab, d.name(), now.UnixMilli()); err == nil {
				success, suspended = now, false
			}
		}
	})
}

// purge deletes the clients that seem dead, by this process's clock and theirs, and
// then the lock of a client that is not there.
func (d *dolphin) purge(ctx context.Context) {
	now := time.Now().UnixMilli()
	alive := map[string]bool{}
	var dead []string
	err := d.s.db.Query(ctx, conclavesql.LabDolphinClients, []any{d.s.Lab}, func(scan func(...any) error) error {
		var name string
		var beat int64
		if err := scan(&name, &beat); err != nil {
			return err
		}
		if alive[name] = now-beat <= d.s.Times.Lease.Milliseconds(); !alive[name] {
			dead = append(dead, name)
		}
		return nil
	})
	if err != nil {
		return
	}
	for _, name := range dead {
		_, _ = d.s.db.Exec(ctx, conclavesql.LabDolphinForget, d.s.Lab, name) // else the next purge
	}
	if id, client, err := d.holder(ctx); err == nil && !alive[client] {
		_, _ = d.s.db.Exec(ctx, conclavesql.LabDolphinRelease, id)
	}
}

// holder reads the lock's row.
func (d *dolphin) holder(ctx context.Context) (id int64, client string, err error) {
	err = d.s.db.QueryRow(ctx, conclavesql.LabDolphinHolder, []any{d.s.Lab}, &id, &client)
	return id, client, err
}

// every does a task, and again a while after it has ended.
func (d *dolphin) every(ctx context.Context, pause time.Duration, task func(context.Context)) {
	for sleep.For(ctx, pause) == nil {
		task(ctx)
	}
}

func (d *dolphin) holding() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held
}

func (d *dolphin) hold(id int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = id
}

// Stop releases the lock and deregisters the client.
func (d *dolphin) Stop(ctx context.Context) error {
	d.once.Do(func() { close(d.stop) })
	<-d.done
	d.s.belief.leave("closed")
	if id := d.holding(); id != 0 {
		_, _ = d.s.db.Exec(ctx, conclavesql.LabDolphinRelease, id) // else the next purge
	}
	_, err := d.s.db.Exec(ctx, conclavesql.LabDolphinForget, d.s.Lab, d.name())
	return err
}

func (d *dolphin) Leading() (uint64, bool) { return d.s.belief.holds() }
func (d *dolphin) Wake()                   {}

func (d *dolphin) Cost() (statements, turns uint64) { return d.s.db.Statements(), d.s.turns.Load() }
