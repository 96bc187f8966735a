package meta

import (
	"context"
	"errors"
	"fmt"
	"time"

	"conclave/internal/sleep"
	conclavesql "conclave/sql"
	"conclave/wire"
)

// errUnsealed reports that a read after the seal does not show it.
var errUnsealed = errors.New("the database was read as it was before the seal")

// sealAll moves every kind that this term has not written yet into the term,
// bodies unchanged, in one statement, and then reads what it has sealed. A
// second call changes nothing.
func (a *arranger) sealAll(ctx context.Context) error {
	seq, nonce := a.seq+1, conclavesql.NewNonce(a.rand)
	var pause time.Duration
	for {
		if err := a.awaitRight(ctx); err != nil {
			return err
		}
		outcome, err := a.traced(conclavesql.State{Kind: "seal"}, conclavesql.State{Kind: "seal", Term: a.fence.Term, Seq: seq, Nonce: nonce},
			func() (conclavesql.Outcome, error) { return a.config.Store.Seal(ctx, a.fence, seq, nonce) })
		switch outcome {
		case conclavesql.Deposed:
			return errDeposed
		case conclavesql.Unknown:
			a.complain("the outcome of the seal is unknown, repeating it", err)
			pause = sleep.Longer(pause, 10*time.Millisecond, a.config.Beat/4)
			if err := sleep.For(ctx, pause); err != nil {
				return err
			}
			continue
		case conclavesql.Conflict: // an earlier try took effect, so this one found nothing to change
		}
		if err := a.readSealed(ctx); err != nil {
			return err
		}
		a.publish()
		return nil
	}
}

// readSealed takes over the rows from the database, once they show the seal of
// this term: nothing of an older term can be written after it, so such a read
// is complete. A read before it may be older than the last decision of the
// previous term, if the connection leads to a server that lags behind. If it
// was, the members and the table on which the warm-up was based are old as
// well, and the term ends: the next one begins from the sealed rows or newer.
func (a *arranger) readSealed(ctx context.Context) error {
	sealed, err := a.config.Store.Read(ctx)
	if err != nil {
		return fmt.Errorf("read the sealed state: %w", err)
	}
	for _, kind := range conclavesql.Kinds() {
		switch row := sealed[kind]; {
		case row.Term > a.fence.Term:
			return errDeposed
		case row.Term < a.fence.Term:
			return fmt.Errorf("%s is of term %d and not of term %d: %w", kind, row.Term, a.fence.Term, errUnsealed)
		case row.Body != a.rows[kind].Body:
			return fmt.Errorf("%s: %w", kind, errOldRead)
		}
	}
	return a.take(sealed)
}

// errOpen is the errUnwritten of a write of which a try may still be executed: it
// had no answer, or one that leaves that open.
var errOpen = fmt.Errorf("%w, but it may still be", errUnwritten)

// noteOpen records whether a try of a write that ended with err may still be
// executed. None can be once the row has changed.
func (a *arranger) noteOpen(kind conclavesql.Kind, err error) {
	switch {
	case err == nil || errors.Is(err, errAgain):
		delete(a.open, kind)
	case errors.Is(err, errOpen) || !errors.Is(err, errUnwritten):
		a.open[kind] = true
	}
}

// sure makes the leader's memory of every row certain, so that a decision may be
// compared with it: if a write of a row may still be executed, it writes the row
// as it is again. Then either that write can match nothing any more, or it was
// executed, and the row has been read (errAgain).
func (a *arranger) sure(ctx context.Context) error {
	for _, kind := range conclavesql.Kinds() {
		if a.open[kind] {
			if err := a.write(ctx, kind, a.rows[kind].Body); err != nil {
				return fmt.Errorf("write the %s again, because an earlier try may still be executed: %w", kind, err)
			}
		}
	}
	return nil
}

// answer returns the answer to a command that ended with err.
func answer(err error) error {
	code := wire.CodeUnavailable
	var e *wire.Error
	switch {
	case err == nil || errors.As(err, &e):
		return err
	case errors.Is(err, errOpen) || !errors.Is(err, errUnwritten):
		return wire.Errorf(code, "the request may have been done, repeat it: %v", err)
	case errors.Is(err, conclavesql.ErrTooLarge):
		code = wire.CodeTooLarge
	case errors.Is(err, conclavesql.ErrStatement):
		code = wire.CodeInternal
	}
	return wire.Errorf(code, "not done: %v", err)
}
