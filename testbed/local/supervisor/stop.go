package supervisor

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"conclave/testbed/outside"
)

// stopOrder is the order of a graceful stop: a role is stopped before those
// that it depends on.
var stopOrder = []string{roleClient, roleSession, roleData, roleMeta, roleDB}

// stop ends the processes and returns when all have ended. A graceful stop
// announces to sessions and data nodes that the whole cluster is stopping, so
// that none of them hands anything over; then it sends SIGTERM role by role,
// and SIGKILL to processes that take longer than Config.StopWait, which the
// error names. With now, or when ctx ends, it sends SIGKILL to all at once.
func stop(ctx context.Context, records []record, cfg Config, now bool) error {
	var living []record
	for _, r := range records {
		if r.alive() {
			living = append(living, r)
		}
	}
	if now {
		for _, r := range living {
			_ = r.signal(syscall.SIGKILL) // fails only if it has ended
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
				_ = r.signal(syscall.SIGCONT) // a suspended process handles SIGTERM only when it continues
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
		return fmt.Errorf("processes killed because they did not stop within %s: %v (see their logs)", cfg.StopWait, late)
	}
	return nil
}

// announceStop announces to the nodes that the cluster is stopping; the
// announcement is valid for as long as the stop of all roles may take.
func announceStop(ctx context.Context, living []record, cfg Config) {
	nodes := map[string]string{}
	for _, r := range living {
		if !r.suspended() {
			nodes[r.Name] = r.Address
		}
	}
	token := cfg.operatorToken(cfg.Dir)
	view := outside.View{HTTP: probeClient(cfg), Token: func() string { return token }}
	view.AnnounceStop(ctx, nodes, time.Duration(len(stopOrder))*max(cfg.StopWait, time.Second), "down")
}

// awaitEnd waits until all the processes have ended.
func awaitEnd(ctx context.Context, records []record, wait time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var left []string
	err := outside.Until(limited, 5*time.Millisecond, func() (bool, error) {
		left = state{Processes: records}.living()
		return len(left) == 0, nil
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("processes still running after %s: %v", wait, left)
	}
	return err
}
