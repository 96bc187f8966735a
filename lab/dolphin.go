package lab

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"conclave/internal/sleep"
)

var dolphinRule = Rule{
	Name: "dolphinscheduler", From: "apache/dolphinscheduler, registry-jdbc (JdbcRegistryServer, JdbcRegistryLockManager)",
	About:    "A row with a unique key; a client sends heartbeats with the time of its own wall clock, and each client purges those that seem dead, once per session timeout.",
	Weakness: "Waiting nodes insert without a pause. The wall clocks of two machines are compared. A purge does not check whether the client has sent a heartbeat since; a purged client notices it only at its next heartbeats.",
	Own:      Times{Lease: 60 * time.Second, Beat: 3 * time.Second, Check: 60 * time.Second}, Alone: true,
	migrate: tables("", statement("dolphin_client_table"), statement("dolphin_lock_table")),
	start: func(env *environment) (candidate, error) {
		d := &dolphin{env: env}
		return env.loops(d.run, d.release), nil
	},
}

// dolphin is DolphinScheduler's JDBC registry: three concurrent tasks. It gives
// up its lock when no heartbeat has succeeded for a session timeout.
type dolphin struct {
	env *environment

	held atomic.Int64 // the id of the lock's row; 0 if it is not held
}

func (d *dolphin) name() string { return d.env.ID().String() }

// run registers the client and then sends heartbeats, purges dead clients and
// acquires the lock, until ctx ends.
func (d *dolphin) run(ctx context.Context) {
	for ctx.Err() == nil {
		if _, err := d.env.db.Exec(ctx, statement("dolphin_register"), d.env.Lab, d.name(), time.Now().UnixMilli()); err == nil {
			break
		}
		_ = sleep.For(ctx, d.env.Times.Beat)
	}
	var group sync.WaitGroup
	group.Go(func() { d.heartbeat(ctx) })
	group.Go(func() {
		for sleep.For(ctx, d.env.Times.Check) == nil {
			d.purge(ctx)
		}
	})
	group.Go(func() { d.acquire(ctx) })
	group.Wait()
}

// acquire inserts the lock's row until an insert succeeds. As in the original,
// there is no pause after a refused insert.
func (d *dolphin) acquire(ctx context.Context) {
	for ctx.Err() == nil {
		if d.held.Load() != 0 {
			_ = sleep.For(ctx, d.env.Times.Beat)
			continue
		}
		d.env.turns.Add(1)
		if _, err := d.env.db.Exec(ctx, statement("dolphin_acquire"), d.env.Lab, d.name()); err != nil {
			continue
		}
		if id, client, err := d.holder(ctx); err == nil && client == d.name() {
			d.held.Store(id)
			d.env.perceived.lead(0, time.Time{})
		}
	}
}

// heartbeat renews the client's row. When no renewal has succeeded for a
// session timeout, or the row was purged, the original's registry is
// "disconnected", which ends the process's work. Here it registers again, under
// the same name.
func (d *dolphin) heartbeat(ctx context.Context) {
	success := time.Now()
	suspended := false
	for sleep.For(ctx, d.env.Times.Beat) == nil {
		now := time.Now()
		n, err := d.env.db.Exec(ctx, statement("dolphin_beat"), now.UnixMilli(), d.env.Lab, d.name())
		switch {
		case err == nil && n == 1:
			success, suspended = now, false
		case !suspended:
			suspended = true
		case now.Sub(success) > d.env.Times.Lease:
			d.held.Store(0)
			d.env.perceived.leave("disconnected")
			if _, err := d.env.db.Exec(ctx, statement("dolphin_register"), d.env.Lab, d.name(), now.UnixMilli()); err == nil {
				success, suspended = now, false
			}
		}
	}
}

// purge deletes the clients that seem dead, because the time of their last
// heartbeat is too old by this process's clock. Then it deletes the lock if its
// client does not exist.
func (d *dolphin) purge(ctx context.Context) {
	now := time.Now().UnixMilli()
	alive := map[string]bool{}
	var dead []string
	err := d.env.db.Query(ctx, statement("dolphin_clients"), []any{d.env.Lab}, func(scan func(...any) error) error {
		var name string
		var beat int64
		if err := scan(&name, &beat); err != nil {
			return err
		}
		if alive[name] = now-beat <= d.env.Times.Lease.Milliseconds(); !alive[name] {
			dead = append(dead, name)
		}
		return nil
	})
	if err != nil {
		return
	}
	for _, name := range dead {
		_, _ = d.env.db.Exec(ctx, statement("dolphin_forget"), d.env.Lab, name) // if it fails, the next purge tries again
	}
	if id, client, err := d.holder(ctx); err == nil && !alive[client] {
		_, _ = d.env.db.Exec(ctx, statement("dolphin_release"), id)
	}
}

// holder returns the lock's row and its client.
func (d *dolphin) holder(ctx context.Context) (id int64, client string, err error) {
	err = d.env.db.QueryRow(ctx, statement("dolphin_holder"), []any{d.env.Lab}, &id, &client)
	return id, client, err
}

// release releases the lock and deregisters the client.
func (d *dolphin) release(ctx context.Context) error {
	d.env.perceived.leave("stopped")
	if id := d.held.Load(); id != 0 {
		_, _ = d.env.db.Exec(ctx, statement("dolphin_release"), id) // if it fails, another client's purge releases it
	}
	_, err := d.env.db.Exec(ctx, statement("dolphin_forget"), d.env.Lab, d.name())
	return err
}
