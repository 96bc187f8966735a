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
	"conclave/internal/sleep"
	"conclave/internal/trace"
	conclavesql "conclave/sql"
	"conclave/wire"
)

// arranger is the one goroutine that decides while this node leads. It owns the
// cluster's state: each change is first one statement under the term, then
// published. Nobody else writes, so nothing here is locked.
type arranger struct {
	l     *leader
	log   hclog.Logger
	store StateStore
	fence conclavesql.Fence
	rand  *rand.Rand // nonces

	woken    chan struct{} // one token: look again
	commands chan command  // from handlers; taken one at a time, once warm

	rows  map[conclavesql.Kind]conclavesql.State // what the database holds
	seq   uint64                                 // the last that this term has used
	state wire.State                             // the same as rows, decoded
	black blacklist.Set                          // the same as state.Blacklist
	watch protection
	// quits are the metas that were granted to quit the election in this term.
	quits map[conclave.NodeID]bool
	// begins: this process knew no state of the cluster when it began to lead, so
	// a stop that is recorded was announced in an earlier run of the metas.
	begins bool
	rounds time.Time // when the last round began; zero: none did
	// absent: until then the leaders of an adopted table are waited for, since the
	// restored member list does not name them all.
	absent time.Time
}

// command is a request that changes the state. do runs in the arranger; its
// error goes back to who asked.
type command struct {
	do   func(ctx context.Context) error
	done chan error // cap 1: the arranger never waits for who asked
}

// errDeposed says that the lock row names somebody else: the term is over.
var errDeposed = errors.New("deposed: the database names another leader")

// errRestored says that the database went back under a running leader: it was
// emptied, or restored from a backup. A new term learns from the nodes what they
// have (warm-up); this one has no way to.
var errRestored = errors.New("the database holds less than this leader has written to it")

// errAgain says that the row was not as expected: what stands was read, decide
// again.
var errAgain = errors.New("an earlier write of this term has landed late")

func newArranger(l *leader) *arranger {
	return &arranger{
		l: l, log: l.log, store: l.s.cfg.Store,
		fence: conclavesql.Fence{Owner: l.s.cfg.Node.String(), Term: l.term.Number},
		rand:  derive(l.s.nonces), woken: make(chan struct{}, 1), commands: make(chan command), quits: map[conclave.NodeID]bool{},
	}
}

// wake makes the arranger look again. It never blocks.
func (a *arranger) wake() {
	select {
	case a.woken <- struct{}{}:
	default:
	}
}

// run decides until the leadership ends. Whatever fails for a while (the
// database, mostly) is tried again; only the end of the term is an error.
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
			a.l.s.elector.Wake() // its next round finds out
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errRestored):
			a.log.Error("the cluster's state went back, lead anew", "error", err)
			return err
		case errors.Is(err, errAgain):
			next = time.Now().Add(time.Millisecond)
		case err != nil:
			a.log.Warn("could not decide, will retry", "error", err)
			next = time.Now().Add(a.l.s.cfg.Beat / 4)
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-a.woken:
		case <-timer.C:
		case c := <-a.commands:
			err := c.do(ctx)
			for errors.Is(err, errAgain) { // it decides anew, on what stands
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

// ask has a command done, and returns its error.
func (l *leader) ask(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*l.s.cfg.NodeLease)
	defer cancel()
	c := command{do: do, done: make(chan error, 1)}
	select {
	case l.arranger.commands <- c:
	case <-l.ctx.Done():
		return wire.NotLeader("", "")
	case <-ctx.Done():
		return wire.Errorf(wire.CodeUnavailable, "%s has just begun to lead and waits for the members", l.s.cfg.Node.Name)
	}
	select {
	case err := <-c.done:
		var e *wire.Error
		if err != nil && !errors.As(err, &e) {
			return wire.Errorf(wire.CodeUnavailable, "not done: %v", err)
		}
		return err // at the end of the leadership, too: what was taken is answered
	case <-ctx.Done():
		return wire.Errorf(wire.CodeUnavailable, "the database does not answer in time: it may be done, ask again")
	}
}

// round looks at everything once and writes what must change, in the order in
// which it must be known: first that the cluster is frozen, then who is in it,
// then who has which slot. It returns when to look again if nothing wakes it.
func (a *arranger) round(ctx context.Context) (next time.Time, err error) {
	next = time.Now().Add(a.l.s.cfg.Beat)
	a.awake(time.Now())
	if a.useless() {
		return next, nil
	}
	next = earliest(next, a.uselessAt())
	if now := time.Now(); !a.deaf(now) {
		a.expire(now)
		if expiry, any := a.l.roster.nextExpiry(); any {
			next = earliest(next, expiry)
		}
	}
	better, err := a.protect(ctx)
	if err != nil {
		return next, err
	}
	next = earliest(next, better)
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

// earliest is the first of two moments; a zero one never comes.
func earliest(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	return b
}

// expire takes off whoever's lease has run out.
func (a *arranger) expire(now time.Time) {
	for _, d := range a.l.roster.expire(now) {
		a.l.s.event("node.lost", a.l.term.Number, nil, map[string]any{"node": d.member.Node.Name, "role": d.member.Role, "why": d.why},
			"%s %s was lost: %s", d.member.Role, d.member.Node.Name, d.why)
		a.log.Info("node lost", "node", d.member.Node.Name, "role", d.member.Role, "why", d.why)
	}
}

// awake gives every lease a little longer when this process has not run for a
// while: beats that came meanwhile wait to be read, and nobody may be taken for
// dead because the leader was stopped.
func (a *arranger) awake(now time.Time) {
	beat := a.l.s.cfg.Beat
	if !a.rounds.IsZero() && now.Sub(a.rounds) > 2*beat {
		a.l.roster.extend(now, beat)
		a.l.reached = now // what they said meanwhile waits to be read, too
	}
	a.rounds = now
}

// list writes the member list, if it is not as the roster has it.
func (a *arranger) list(ctx context.Context) error {
	members := a.l.roster.members(a.black.Names())
	if sameMembers(members, a.state.Members.List) {
		return nil
	}
	if err := a.write(ctx, conclavesql.KindMembers, membersBody{members}); err != nil {
		return fmt.Errorf("write the member list: %w", err)
	}
	return nil
}

// write makes one decision durable, then publishes it.
//
//  1. Not while the leadership is suspended or its trust is over.
//  2. One statement: the lock names us and our term, and the row is as read.
//  3. No answer: nothing is written or published until a re-read shows whose
//     nonce stands. The same write is then repeated from the same old row, of
//     which at most one lands.
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
	if err := a.took(ctx, outcome, next); err != nil {
		return err
	}
	a.publish()
	return nil
}

// sealAll takes every kind that this term has not written over into it, bodies
// untouched, in one statement. What was read still stands then: since the term
// was won nobody else could write. Asked twice, it does nothing the second time.
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
			a.log.Warn("the outcome of the seal is unknown, it is repeated", "error", err)
			if err := sleep.For(ctx, min(10*time.Millisecond<<min(try, 6), a.l.s.cfg.Beat/4)); err != nil {
				return err
			}
			continue
		case conclavesql.Conflict: // the first of two tries has landed: then this one finds nothing
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

// reread takes in what stands in the database.
func (a *arranger) reread(ctx context.Context) error {
	rows, err := a.store.Read(ctx)
	if err != nil {
		return fmt.Errorf("read what stands: %w", err)
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
			a.log.Warn("the outcome of a write is unknown, it is read", "kind", old.Kind, "seq", next.Seq, "error", err)
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

// took adopts what a write came to.
func (a *arranger) took(ctx context.Context, outcome conclavesql.Outcome, next conclavesql.State) error {
	switch outcome {
	case conclavesql.Written:
		a.seq = max(a.seq, next.Seq)
		a.rows[next.Kind] = next
		return a.decoded(next)
	case conclavesql.Deposed:
		return errDeposed
	}
	// Conflict: what stands is an earlier write of our own. Adopt it; it may be
	// this very one, sent twice because its first answer was lost.
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

// publish shows what was written to everybody: the streams look at the view.
func (a *arranger) publish() {
	a.l.s.cfg.Trace.Claim(trace.Claim{Kind: trace.Publishing, Term: a.fence.Term, Epoch: a.state.Table.Epoch})
	a.l.s.view.Set(a.state)
	a.l.spread.published(a.state.Table.Epoch, time.Now())
	a.l.bell.ring()
}

// next is the epoch of the next write.
func (a *arranger) next() conclave.Epoch { return conclave.Epoch{Term: a.fence.Term, Seq: a.seq + 1} }
