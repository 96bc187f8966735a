package lab

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	conclavesql "conclave/sql"
)

var clientGoRule = Rule{
	Name: "client-go", From: "kubernetes/client-go, tools/leaderelection (ReleaseOnCancel on)",
	About:    "Compare and swap of an object's version; the lease has expired when a node, by its own clock, has seen no change for as long.",
	Weakness: "A leader that lost its lease continues to lead, and to retry, for its renew deadline: two thirds of the lease. There is no fencing, as its documentation says. A stop gives the lease back before the work has ended.",
	Own:      Times{Lease: 15 * time.Second, Beat: 2 * time.Second, Check: 2 * time.Second},
	migrate:  tables("", statement("lease_table")),
	start: func(env *environment) (candidate, error) {
		return env.loop(&clientGo{env: env, deadline: env.Times.Lease * 2 / 3}, 0), nil
	},
}

// clientGo is client-go's LeaderElector, with a row instead of the Lease
// object.
type clientGo struct {
	env      *environment
	deadline time.Duration // RenewDeadline: 10 s of a lease of 15 s

	seen          object    // observedRecord
	seenAt        time.Time // observedTime, by this process's clock
	leading       bool
	renewingSince time.Time // when a renewal began that has not succeeded; zero if none has
}

// object is the content of a Lease.
type object struct {
	holder               string
	leaseMs              int64
	transitions, version int64
}

// turn tries once to acquire or renew the lease. A leader then sleeps for one
// retry period, a waiting candidate for 1 to 2.2.
func (c *clientGo) turn(ctx context.Context) time.Duration {
	period := c.env.Times.Beat
	if !c.leading {
		if c.acquireOrRenew(ctx) {
			c.leading = true
			c.env.perceived.lead(0, time.Time{})
			return period
		}
		return period + rand.N(period*12/10)
	}
	if c.renewingSince.IsZero() {
		c.renewingSince = time.Now()
	}
	if c.acquireOrRenew(ctx) {
		c.renewingSince = time.Time{}
		return period
	}
	left := time.Until(c.renewingSince.Add(c.deadline))
	if left <= 0 {
		c.leading, c.renewingSince = false, time.Time{}
		c.env.perceived.leave("renew deadline")
		return period
	}
	return min(period, left)
}

// acquireOrRenew is tryAcquireOrRenew. A leader whose lease is valid renews it
// without reading it. Otherwise the lease is read, compared with what was
// observed last, and swapped if it is free or expired.
func (c *clientGo) acquireOrRenew(ctx context.Context) bool {
	me := c.env.ID().String()
	lease := c.env.Times.Lease
	if c.leading && c.seen.holder == me && time.Now().Before(c.seenAt.Add(lease)) {
		if c.swap(ctx, me, lease, c.seen.transitions) {
			return true
		}
	}
	var now object
	err := c.env.db.QueryRow(ctx, statement("lease_get"), []any{c.env.Lab}, &now.holder, &now.leaseMs, &now.transitions, &now.version)
	if errors.Is(err, conclavesql.ErrNoRows) {
		if _, err := c.env.db.Exec(ctx, statement("lease_create"), c.env.Lab, me, lease.Milliseconds()); err != nil {
			return false
		}
		c.observe(object{holder: me, leaseMs: lease.Milliseconds(), version: 1})
		return true
	}
	if err != nil {
		return false
	}
	if now != c.seen {
		c.observe(now)
	}
	if now.holder != "" && now.holder != me && time.Now().Before(c.seenAt.Add(time.Duration(now.leaseMs)*time.Millisecond)) {
		return false
	}
	transitions := now.transitions
	if now.holder != me {
		transitions++
	}
	return c.swap(ctx, me, lease, transitions)
}

func (c *clientGo) observe(o object) { c.seen, c.seenAt = o, time.Now() }

// swap writes the object unless its version has changed since it was observed.
func (c *clientGo) swap(ctx context.Context, holder string, lease time.Duration, transitions int64) bool {
	n, err := c.env.db.Exec(ctx, statement("lease_update"), holder, lease.Milliseconds(), transitions, c.env.Lab, c.seen.version)
	if err != nil || n == 0 {
		return false
	}
	c.observe(object{holder, lease.Milliseconds(), transitions, c.seen.version + 1})
	return true
}

// release gives the lease back and then ends the leadership, in the original's
// order.
func (c *clientGo) release(ctx context.Context) {
	if c.leading {
		c.swap(ctx, "", time.Second, c.seen.transitions)
	}
	c.leading = false
	c.env.perceived.leave("stopped")
}
