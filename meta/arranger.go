package meta

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	conclavesql "conclave/sql"
)

// run decides until the leadership ends. Failures that may pass (mostly of the
// database) are retried; only the end of the term is an error.
func (a *arranger) run(ctx context.Context) error {
	if err := a.load(ctx); err != nil {
		return err
	}
	if err := a.warmUp(ctx); err != nil {
		return err
	}
	for {
		next, err := a.round(ctx)
		switch {
		case a.endsTerm(err):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errAgain):
			next = time.Now().Add(time.Millisecond)
		case err != nil:
			a.complain("could not decide, will retry", err)
			next = time.Now().Add(a.config.Beat / 4)
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-a.changed.C():
		case <-timer.C:
		case c := <-a.commands:
			err := errAgain
			for errors.Is(err, errAgain) { // decide, also again on the rows as read
				if err = a.sure(ctx); err == nil {
					err = c.do(ctx)
				}
			}
			c.done <- err
			if a.endsTerm(err) {
				return err
			}
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// endsTerm reports whether the leadership cannot continue after an error. If another
// node leads, it makes the elector look at once.
func (a *arranger) endsTerm(err error) bool {
	switch {
	case errors.Is(err, errDeposed):
		a.elector.Wake() // its next round finds another owner
		return true
	case errors.Is(err, errRestored):
		a.log.Error("the database lost writes of this term, starting a new term", "error", err)
		return true
	}
	return false
}

// round looks at everything once and writes what must change, in the order in
// which other nodes must learn it: first protection, then the members, then the
// slots. It returns when the next round is due if the signal is not set before.
func (a *arranger) round(ctx context.Context) (next time.Time, err error) {
	next = time.Now().Add(a.config.Beat)
	if a.resignIfUnreachable() {
		return next, nil
	}
	next = earliest(next, a.unreachableAt())
	if now := time.Now(); !a.isolated(now) {
		a.expire(now)
		if expiry, any := a.roster.nextExpiry(); any {
			next = earliest(next, expiry)
		}
	}
	// A row that the database refuses does not stop the other steps. But if protection
	// could not be written, no slot moves.
	var unwritten error
	step := func(due time.Time, err error) (goOn bool) {
		next, unwritten = earliest(next, due), errors.Join(unwritten, err)
		return err == nil || errors.Is(err, errUnwritten)
	}
	if !step(a.protect(ctx)) {
		return next, unwritten
	}
	mayMove := unwritten == nil
	if step(time.Time{}, a.list(ctx)) && step(a.expireStop(ctx)) && step(time.Time{}, a.sure(ctx)) && mayMove {
		step(a.arrange(ctx))
	}
	return next, unwritten
}

// earliest returns the first of two moments; a zero b never comes.
func earliest(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	return b
}

// expire removes the members whose leases have expired.
func (a *arranger) expire(now time.Time) {
	for _, m := range a.roster.expire(now) {
		const why = "its lease expired"
		a.event(hclog.Info, "node.lost", conclave.Epoch{}, map[string]any{"node": m.Node.Name, "role": m.Role, "why": why}, "%s %s was lost: %s", m.Role, m.Node.Name, why)
	}
}

// list writes the member list if it differs from the roster.
func (a *arranger) list(ctx context.Context) error {
	now := a.roster.list(a.black().Names())
	if slices.Equal(now.List, a.state.Members.List) && slices.Equal(now.Lost, a.state.Members.Lost) {
		return nil
	}
	if err := a.write(ctx, conclavesql.KindMembers, now); err != nil {
		return fmt.Errorf("write the member list: %w", err)
	}
	return nil
}
