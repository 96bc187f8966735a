package supervisor

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"conclave/meta/metaclient"
)

// stopOrder is the order of a graceful stop: whoever depends on another goes
// first, so that nobody misses what he needs.
var stopOrder = []string{roleClient, roleSession, roleData, roleMeta, roleDB}

// stop ends the processes. Gracefully: sessions and data nodes are told that the
// whole cluster is stopping (so that none hands anything over), then role by role
// SIGTERM, and SIGKILL for whoever takes longer than Config.StopWait. Now, or once
// ctx ends: SIGKILL for all at once. It returns when all are gone, naming those
// that had to be killed.
func stop(ctx context.Context, records []record, cfg Config, now bool) error {
	var living []record
	for _, r := range records {
		if r.alive() {
			living = append(living, r)
		}
	}
	if now {
		for _, r := range living {
			_ = r.signal(syscall.SIGKILL) // gone already is what we want
		}
		return awaitEnd(ctx, living, 5*time.Second)
	}
	announceStop(ctx, living, cfg)
	var late []string
	for _, role := range stopOrder {
		var these []record
		for _, r := range living {
			if r.Role == role {
				these = append(these, r)
				_ = r.signal(syscall.SIGTERM)
				_ = r.signal(syscall.SIGCONT) // a suspended one hears SIGTERM only when it runs
			}
		}
		if awaitEnd(ctx, these, cfg.StopWait) == nil {
			continue
		}
		if ctx.Err() != nil {
			return stop(context.WithoutCancel(ctx), records, cfg, true)
		}
		for _, r := range these {
			if r.alive() {
				late = append(late, r.Name)
				_ = r.signal(syscall.SIGKILL)
			}
		}
		if err := awaitEnd(ctx, these, 5*time.Second); err != nil {
			return err
		}
	}
	if len(late) > 0 {
		return fmt.Errorf("killed after %s because they did not stop: %v (see their logs)", cfg.StopWait, late)
	}
	return nil
}

// announceStop announces to the nodes that the cluster is stopping, for as long as the
// stop of all roles may take. A node that cannot be reached in time stops as if it
// were alone.
func announceStop(ctx context.Context, living []record, cfg Config) {
	var metas, nodes []string
	for _, r := range living {
		switch {
		case r.suspended():
		case r.Role == roleMeta:
			metas = append(metas, r.Address)
		case r.Role == roleSession || r.Role == roleData:
			nodes = append(nodes, r.Address)
		}
	}
	admin := metaclient.NewAdmin(metaclient.AdminConfig{Metas: metas, HTTP: probeClient, Token: cfg.Token})
	admin.AnnounceStop(ctx, nodes, time.Duration(len(stopOrder))*max(cfg.StopWait, time.Second), "down")
}

// awaitEnd waits until none of the processes lives.
func awaitEnd(ctx context.Context, records []record, wait time.Duration) error {
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var left []string
		for _, r := range records {
			if r.alive() {
				left = append(left, fmt.Sprintf("%s (pid %d)", r.Name, r.PID))
			}
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return fmt.Errorf("still running after %s: %v", wait, left)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
