package meta

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"conclave"
	"conclave/blacklist"
	"conclave/internal/sleep"
	"conclave/internal/trace"
	conclavesql "conclave/sql"
	"conclave/wire"
)

// arranger is the one goroutine that decides while this node leads. It owns the
// cluster's state: each change is first one statement under the term, then
// published. No other goroutine writes the state, so it needs no lock.
type arranger struct {
	*tenure
	fence    conclavesql.Fence
	rand     *rand.Rand   // nonces
	commands chan command // from handlers; taken one at a time, after the warm-up

	rows  map[conclavesql.Kind]conclavesql.State // what the database holds
	seq   uint64                                 // the last that this term has used
	state wire.State                             // the same as rows, decoded
	open  map[conclavesql.Kind]bool              // rows of which a write was given up that may still be executed
	watch protection
	// quits are the metas that were granted to quit the election in this term.
	quits map[conclave.NodeID]bool
	// staleStop: this process had received no state when it began to lead, so it has
	// just started, and a stop that the database records was announced before.
	staleStop   bool
	lastContact time.Time // when a session or data node last sent a beat, or did not need to
	switched    time.Time // when the last table that begins hand-overs was written; zero: none was
	rested      arranged  // from what the last table that moved nothing was made
	unheard     []string  // data nodes that most sessions do not hear, as they were last shown
	// adoptWait: until then the slot leaders of an adopted table may still join,
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

// errOldRead reports that the state with which this leader began was not the
// last of the term before: it was read from a server that lags behind.
var errOldRead = errors.New("the database was read as it was before its last change")

// errUnwritten reports a write that the database has refused, for what it contains
// or for a beat: the row is as it was, and so is the leader's memory, unless it is
// errOpen. It concerns this row only; others can be written.
var errUnwritten = errors.New("not written")

// errAgain reports that the row was not as expected. It has been read again,
// and the decision must be repeated.
var errAgain = errors.New("an earlier write of this term has landed late")

func newArranger(t *tenure, nonces *rand.Rand) *arranger {
	return &arranger{
		tenure: t,
		fence:  conclavesql.Fence{Owner: t.config.Node.String(), Term: t.term.Number},
		rand:   nonces, commands: make(chan command), quits: map[conclave.NodeID]bool{}, open: map[conclavesql.Kind]bool{}, lastContact: time.Now(),
	}
}

// ask runs a command in the arranger and returns its error.
func (a *arranger) ask(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*a.config.NodeLease) // a warm-up takes one at most
	defer cancel()
	c := command{do: do, done: make(chan error, 1)}
	select {
	case a.commands <- c:
	case <-a.ctx.Done():
		return wire.NotLeader("", "")
	case <-ctx.Done():
		return wire.Errorf(wire.CodeUnavailable, "%s has just begun to lead and is waiting for the members", a.config.Node.Name)
	}
	select {
	case err := <-c.done: // also at the end of the leadership: a command that was taken is answered
		return answer(err)
	case <-ctx.Done():
		return wire.Errorf(wire.CodeUnavailable, "the database did not answer in time: the request may have been done, repeat it")
	}
}

// write makes one decision durable, then publishes it.
//
//  1. It waits while the leadership is suspended, until trust ends.
//  2. It sends one statement, which requires that the lock names this node and
//     its term, and that the row is as read.
//  3. Without an answer it writes and publishes nothing until it has read the
//     row and compared the nonce. Then it repeats the same write from the same
//     old row; at most one of the two takes effect.
//  4. It gives up a write that the database refuses for what it contains, or for
//     a beat with answers which prove that it was not executed: the error is
//     errUnwritten. If an earlier try of it had no answer, that one may still be
//     executed (errOpen), and sure comes before the next decision on the row.
func (a *arranger) write(ctx context.Context, kind conclavesql.Kind, body any) error {
	text, err := encode(body)
	if err != nil {
		return err
	}
	old := a.rows[kind]
	next := conclavesql.State{
		Kind: kind, Body: text, Term: a.fence.Term, Seq: a.seq + 1, Nonce: conclavesql.NewNonce(a.rand),
	}
	outcome, err := a.settle(ctx, old, next)
	if err == nil {
		err = a.applyOutcome(ctx, outcome, next)
	}
	a.noteOpen(kind, err)
	if err == nil {
		a.publish()
	}
	return err
}

// reread takes over the rows from the database.
func (a *arranger) reread(ctx context.Context) error {
	rows, err := a.config.Store.Read(ctx)
	if err != nil {
		return fmt.Errorf("read the cluster's state: %w", err)
	}
	return a.take(rows)
}

// take takes over rows that were read.
func (a *arranger) take(rows map[conclavesql.Kind]conclavesql.State) error {
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

func (a *arranger) decode(row conclavesql.State) error { return decode(row, &a.state, &a.watch.of) }

// black returns the blacklist.
func (a *arranger) black() blacklist.Set { return a.state.Blacklist.Entries }

// settle repeats a write until the row shows that it has taken effect or will not,
// or until it is given up.
func (a *arranger) settle(ctx context.Context, old, next conclavesql.State) (conclavesql.Outcome, error) {
	why := "cannot write " + string(old.Kind)
	open := false           // a try may still be executed
	refusing := time.Now()  // since when the database answers each try with an error
	var pause time.Duration // before the next read
	for {
		if err := a.awaitRight(ctx); err != nil {
			return conclavesql.Unknown, err
		}
		outcome, refusal := a.traced(old, next, func() (conclavesql.Outcome, error) { return a.config.Store.Write(ctx, a.fence, old, next) })
		open = open || refusal != nil && !conclavesql.NotExecuted(refusal)
		silent := !conclavesql.Answered(refusal)
		for err := refusal; outcome == conclavesql.Unknown; {
			a.complain(why, err)
			pause = sleep.Longer(pause, 10*time.Millisecond, a.config.Beat/4)
			if ended := sleep.For(ctx, pause); ended != nil {
				return outcome, ended
			}
			outcome, _, err = a.config.Store.Settle(ctx, a.fence, old, next)
			silent = silent || err != nil
		}
		if outcome != conclavesql.Unwritten {
			a.failures.Forget(why)
			return outcome, nil
		}
		if silent {
			refusing = time.Now()
		}
		if errors.Is(refusal, conclavesql.ErrStatement) || time.Since(refusing) >= a.config.Beat {
			a.complain(why, refusal)
			kept := errUnwritten
			if open {
				kept = errOpen
			}
			return outcome, fmt.Errorf("%w: %w", kept, refusal)
		}
	}
}

// awaitRight waits while the leadership is suspended, until ctx ends with the term.
func (a *arranger) awaitRight(ctx context.Context) error {
	for {
		if _, ok := a.elector.Leading(); ok {
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
		if row.Term < a.fence.Term && row.Body != written[kind].Body {
			return fmt.Errorf("%s: %w", kind, errOldRead)
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
	a.config.Trace.Claim(trace.Claim{Kind: trace.Publishing, Term: a.fence.Term, Epoch: a.state.Table.Epoch})
	a.view.Set(a.state)
	a.propagation.published(a.state.Table.Epoch, time.Now())
	a.updates.Notify()
}

// nextEpoch returns the epoch of the next write.
func (a *arranger) nextEpoch() conclave.Epoch {
	return conclave.Epoch{Term: a.fence.Term, Seq: a.seq + 1}
}
