package meta

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/blacklist"
	"conclave/internal/signal"
	"conclave/internal/sleep"
	"conclave/internal/trace"
	conclavesql "conclave/sql"
	"conclave/wire"
)

// arranger is the one goroutine that decides while this node leads. It owns the
// cluster's state: each change is first one statement under the term, then
// published. No other goroutine writes the state, so it needs no lock.
type arranger struct {
	l     *leader
	log   hclog.Logger
	store StateStore
	fence conclavesql.Fence
	rand  *rand.Rand // nonces

	changed  signal.Signal // another round is needed
	commands chan command  // from handlers; taken one at a time, after the warm-up

	rows  map[conclavesql.Kind]conclavesql.State // what the database holds
	seq   uint64                                 // the last that this term has used
	state wire.State                             // the same as rows, decoded
	black blacklist.Set                          // the same as state.Blacklist
	watch protection
	// quits are the metas that were granted to quit the election in this term.
	quits map[conclave.NodeID]bool
	// staleStop: this process knew no state of the cluster when it began to
	// lead, so a stop of the cluster that is recorded was announced in an
	// earlier run of the metas.
	staleStop bool
	lastRound time.Time // when the last round began; zero: there was none
	// adoptWait: until then the leaders of an adopted table may still join,
	// since the restored member list does not name them all.
	adoptWait time.Time
}

// command is a request that changes the state. do runs in the arranger; its
// error is returned to the caller.
type command struct {
	do   func(ctx context.Context) error
	done chan error // cap 1: the arranger never waits for the caller
}

// errDeposed reports that the lock row names another node: the term has ended.
var errDeposed = errors.New("deposed: the database names another leader")

// errRestored reports that the database was emptied or restored from a backup
// under a running leader. A new term learns from the nodes what they hold
// (warm-up); this one cannot.
var errRestored = errors.New("the database holds less than this leader has written to it")

// errAgain reports that the row was not as expected. It has been read again,
// and the decision must be repeated.
var errAgain = errors.New("an earlier write of this term has landed late")

func newArranger(l *leader) *arranger {
	return &arranger{
		l: l, log: l.log, store: l.s.cfg.Store,
		fence: conclavesql.Fence{Owner: l.s.cfg.Node.String(), Term: l.term.Number},
		rand:  derive(l.s.nonces), changed: signal.New(), commands: make(chan command), quits: map[conclave.NodeID]bool{},
	}
}

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
		case errors.Is(err, errDeposed):
			a.l.s.elector.Wake() // its next round finds another owner
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errRestored):
			a.log.Error("the database lost writes of this term, starting a new term", "error", err)
			return err
		case errors.Is(err, errAgain):
			next = time.Now().Add(time.Millisecond)
		case err != nil:
			a.log.Warn("could not decide, will retry", "error", err)
			next = time.Now().Add(a.l.s.cfg.Beat / 4)
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-a.changed.C():
		case <-timer.C:
		case c := <-a.commands:
			err := c.do(ctx)
			for errors.Is(err, errAgain) { // decide again, on the rows as read
				err = c.do(ctx)
			}
			c.done <- err
			if errors.Is(err, errRestored) {
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

// ask runs a command in the arranger and returns its error.
func (l *leader) ask(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*l.s.cfg.NodeLease)
	defer cancel()
	c := command{do: do, done: make(chan error, 1)}
	select {
	case l.arranger.commands <- c:
	case <-l.ctx.Done():
		return wire.NotLeader("", "")
	case <-ctx.Done():
		return wire.Errorf(wire.CodeUnavailable, "%s has just begun to lead and is waiting for the members", l.s.cfg.Node.Name)
	}
	select {
	case err := <-c.done:
		var e *wire.Error
		if err != nil && !errors.As(err, &e) {
			return wire.Errorf(wire.CodeUnavailable, "not done: %v", err)
		}
		return err // also at the end of the leadership: a command that was taken is answered
	case <-ctx.Done():
		return wire.Errorf(wire.CodeUnavailable, "the database did not answer in time: the request may have been done, repeat it")
	}
}

// round looks at everything once and writes what must change, in the order in
// which other nodes must learn it: first protection, then the members, then the
// slots. It returns when the next round is due if the signal is not set before.
func (a *arranger) round(ctx context.Context) (next time.Time, err error) {
	next = time.Now().Add(a.l.s.cfg.Beat)
	a.compensatePause(time.Now())
	if a.resignIfUnreachable() {
		return next, nil
	}
	next = earliest(next, a.unreachableAt())
	if now := time.Now(); !a.isolated(now) {
		a.expire(now)
		if expiry, any := a.l.roster.nextExpiry(); any {
			next = earliest(next, expiry)
		}
	}
	recovery, err := a.protect(ctx)
	if err != nil {
		return next, err
	}
	next = earliest(next, recovery)
	if err := a.list(ctx); err != nil {
		return next, err
	}
	stops, err := a.expireStop(ctx)
	if err != nil {
		return next, err
	}
	next = earliest(next, stops)
	settled, err := a.arrange(ctx)
	return earliest(next, settled), err
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
	for _, d := range a.l.roster.expire(now) {
		a.l.s.event("node.lost", a.l.term.Number, nil, map[string]any{"node": d.member.Node.Name, "role": d.member.Role, "why": d.why},
			"%s %s was lost: %s", d.member.Role, d.member.Node.Name, d.why)
		a.log.Info("node lost", "node", d.member.Node.Name, "role", d.member.Role, "why", d.why)
	}
}

// compensatePause extends every lease if this process has not run for a while:
// beats that arrived meanwhile have not been read yet, and no node may be taken
// for dead because the leader was stopped.
func (a *arranger) compensatePause(now time.Time) {
	beat := a.l.s.cfg.Beat
	if !a.lastRound.IsZero() && now.Sub(a.lastRound) > 2*beat {
		a.l.roster.extend(now, beat)
		a.l.lastContact = now
	}
	a.lastRound = now
}

// list writes the member list if it differs from the roster.
func (a *arranger) list(ctx context.Context) error {
	members, lost := a.l.roster.members(a.black.Names()), a.l.roster.lostSessions()
	if sameMembers(members, a.state.Members.List) && sameMembers(lost, a.state.Members.Lost) {
		return nil
	}
	if err := a.write(ctx, conclavesql.KindMembers, membersBody{members, lost}); err != nil {
		return fmt.Errorf("write the member list: %w", err)
	}
	return nil
}

// write makes one decision durable, then publishes it.
//
//  1. It waits while the leadership is suspended, until trust ends.
//  2. It sends one statement, which requires that the lock names this node and
//     its term, and that the row is as read.
//  3. Without an answer it writes and publishes nothing until it has read the
//     row and compared the nonce. Then it repeats the same write from the same
//     old row; at most one of the two takes effect.
func (a *arranger) write(ctx context.Context, kind conclavesql.Kind, body any) error {
	text, err := encode(body)
	if err != nil {
		return err
	}
	old := a.rows[kind]
	next := conclavesql.State{
		Kind: kind, Body: text, Term: a.fence.Term, Seq: a.seq + 1, Nonce: conclavesql.NewNonce(a.rand),
	}
	outcome, err := a.settle(ctx, old, next, func() (conclavesql.Outcome, error) {
		return a.traced(old, next, func() (conclavesql.Outcome, error) { return a.store.Write(ctx, a.fence, old, next) })
	})
	if err != nil {
		return err
	}
	if err := a.applyOutcome(ctx, outcome, next); err != nil {
		return err
	}
	a.publish()
	return nil
}

// sealAll moves every kind that this term has not written yet into the term,
// bodies unchanged, in one statement. The rows are as they were read, since no
// other node could write after the term was won. A second call changes nothing.
func (a *arranger) sealAll(ctx context.Context) error {
	seq, nonce := a.seq+1, conclavesql.NewNonce(a.rand)
	for try := 0; ; try++ {
		if err := a.mayAct(ctx); err != nil {
			return err
		}
		outcome, err := a.traced(conclavesql.State{Kind: "seal"}, conclavesql.State{Kind: "seal", Term: a.fence.Term, Seq: seq, Nonce: nonce},
			func() (conclavesql.Outcome, error) { return a.store.Seal(ctx, a.fence, seq, nonce) })
		switch outcome {
		case conclavesql.Deposed:
			return errDeposed
		case conclavesql.Unknown:
			a.log.Warn("the outcome of the seal is unknown, repeating it", "error", err)
			if err := sleep.For(ctx, min(10*time.Millisecond<<min(try, 6), a.l.s.cfg.Beat/4)); err != nil {
				return err
			}
			continue
		case conclavesql.Conflict: // an earlier try took effect, so this one found nothing to change
		}
		a.seq = seq
		for _, kind := range conclavesql.Kinds() {
			if row := a.rows[kind]; row.Term < a.fence.Term {
				row.Term, row.Seq, row.Nonce = a.fence.Term, seq, nonce
				a.rows[kind] = row
				if err := a.decode(row); err != nil {
					return err
				}
			}
		}
		a.publish()
		return nil
	}
}

// reread takes over the rows from the database.
func (a *arranger) reread(ctx context.Context) error {
	rows, err := a.store.Read(ctx)
	if err != nil {
		return fmt.Errorf("read the cluster's state: %w", err)
	}
	a.rows = rows
	for _, kind := range conclavesql.Kinds() {
		row := rows[kind]
		if row.Term == a.fence.Term {
			a.seq = max(a.seq, row.Seq)
		}
		if err := a.decode(row); err != nil {
			return err
		}
	}
	return nil
}

// settle repeats a write until its outcome is known.
func (a *arranger) settle(ctx context.Context, old, next conclavesql.State, write func() (conclavesql.Outcome, error)) (conclavesql.Outcome, error) {
	for try := 0; ; try++ {
		if err := a.mayAct(ctx); err != nil {
			return conclavesql.Unknown, err
		}
		outcome, err := write()
		for outcome == conclavesql.Unknown {
			a.log.Warn("the outcome of a write is unknown, reading the row", "kind", old.Kind, "seq", next.Seq, "error", err)
			if err := sleep.For(ctx, min(10*time.Millisecond<<min(try, 6), a.l.s.cfg.Beat/4)); err != nil {
				return outcome, err
			}
			try++
			outcome, _, err = a.store.Settle(ctx, a.fence, old, next)
		}
		if outcome != conclavesql.Unwritten {
			return outcome, nil
		}
	}
}

// mayAct waits while the leadership is suspended.
func (a *arranger) mayAct(ctx context.Context) error {
	for {
		if _, ok := a.l.s.elector.Leading(); ok {
			return nil
		}
		if err := sleep.For(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// applyOutcome takes over the outcome of a write.
func (a *arranger) applyOutcome(ctx context.Context, outcome conclavesql.Outcome, next conclavesql.State) error {
	switch outcome {
	case conclavesql.Written:
		a.seq = max(a.seq, next.Seq)
		a.rows[next.Kind] = next
		return a.decoded(next)
	case conclavesql.Deposed:
		return errDeposed
	}
	// Conflict: the row holds an earlier write of this term. Adopt it; it may
	// be this very write, sent twice because its first answer was lost.
	written := a.rows
	if err := a.reread(ctx); err != nil {
		return err
	}
	for kind, row := range a.rows {
		if (conclave.Epoch{Term: row.Term, Seq: row.Seq}).Less(conclave.Epoch{Term: written[kind].Term, Seq: written[kind].Seq}) {
			return fmt.Errorf("%s: %w", kind, errRestored)
		}
	}
	a.publish()
	if a.rows[next.Kind].Nonce == next.Nonce {
		return nil
	}
	return errAgain
}

// publish makes the written state visible to all streams through the view.
func (a *arranger) publish() {
	a.l.s.cfg.Trace.Claim(trace.Claim{Kind: trace.Publishing, Term: a.fence.Term, Epoch: a.state.Table.Epoch})
	a.l.s.view.Set(a.state)
	a.l.propagation.published(a.state.Table.Epoch, time.Now())
	a.l.updates.Notify()
}

// nextEpoch returns the epoch of the next write.
func (a *arranger) nextEpoch() conclave.Epoch {
	return conclave.Epoch{Term: a.fence.Term, Seq: a.seq + 1}
}
