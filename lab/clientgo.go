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
	About:    "Compare and swap of an object's version; a lease is over when one's own clock has seen no change for it.",
	Weakness: "Whose lease was taken goes on trying, and believing, for its renew deadline: two thirds of the lease. No fencing, and its page says so. A stop gives the lease back before the work has ended.",
	Own:      Times{Lease: 15 * time.Second, Beat: 2 * time.Second, Check: 2 * time.Second},
	migrate:  tables("", conclavesql.LabLeaseTable),
	start: func(_ context.Context, s *stand) (candidate, error) {
		return s.loop(&clientGo{s: s, deadline: s.Times.Lease * 2 / 3}), nil
	},
}

// clientGo is client-go's LeaderElector with a row in the place of the Lease object.
type clientGo struct {
	s        *stand
	deadline time.Duration // RenewDeadline: 10 of 15 s

	seen      object    // the observed record,
	seenAt    time.Time // and since when, by the own clock
	leading   bool
	trying    bool      // to renew,
	tryingFor time.Time // since then
}

// object is the Lease.
type object struct {
	holder               string
	leaseMs              int64
	transitions, version int64
}

// turn is one try. Who waits sleeps for one to 2.2 retry periods, who leads for one.
func (c *clientGo) turn(ctx context.Context) time.Duration {
	period := c.s.Times.Beat
	if !c.leading {
		if c.acquireOrRenew(ctx) {
			c.leading = true
			c.s.belief.lead(0, time.Time{})
			return period
		}
		return period + rand.N(period*12/10)
	}
	if !c.trying {
		c.trying, c.tryingFor = true, time.Now()
	}
	if c.acquireOrRenew(ctx) {
		c.trying = false
		return period
	}
	left := time.Until(c.tryingFor.Add(c.deadline))
	if left <= 0 {
		c.leading, c.trying = false, false
		c.s.belief.leave("renew deadline")
		return period
	}
	return min(period, left)
}

// acquireOrRenew is tryAcquireOrRenew: 0 a valid lease of mine is renewed without a look,
// 1 look, 2 observe, 3 swap.
func (c *clientGo) acquireOrRenew(ctx context.Context) bool {
	me := c.s.ID().String()
	lease := c.s.Times.Lease
	if c.leading && c.seen.holder == me && time.Now().Before(c.seenAt.Add(lease)) {
		if c.swap(ctx, me, lease, c.seen.transitions) {
			return true
		}
	}
	var now object
	err := c.s.db.QueryRow(ctx, conclavesql.LabLeaseGet, []any{c.s.Lab}, &now.holder, &now.leaseMs, &now.transitions, &now.version)
	if errors.Is(err, conclavesql.ErrNoRows) {
		if _, err := c.s.db.Exec(ctx, conclavesql.LabLeaseCreate, c.s.Lab, me, lease.Milliseconds()); err != nil {
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

// swap writes the object, if nobody has since it was seen.
func (c *clientGo) swap(ctx context.Context, holder string, lease time.Duration, transitions int64) bool {
	n, err := c.s.db.Exec(ctx, conclavesql.LabLeaseUpdate, holder, lease.Milliseconds(), transitions, c.s.Lab, c.seen.version)
	if err != nil || n == 0 {
		return false
	}
	c.observe(object{holder, lease.Milliseconds(), transitions, c.seen.version + 1})
	return true
}

// release gives the lease back, and then tells who works under it: in this order.
func (c *clientGo) release(ctx context.Context) {
	if c.leading {
		c.swap(ctx, "", time.Second, c.seen.transitions)
	}
	c.leading = false
	c.s.belief.leave("stopped")
}
