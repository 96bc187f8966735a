package termcas

import (
	"context"
	"fmt"
	"time"

	"conclave"
	"conclave/elector"
	conclavesql "conclave/sql"
)

// Resign ends the held term in the row and releases the witness. The statement
// names owner and term, so it can be repeated safely: if its answer is lost, it is
// sent again on another connection. If no row matches, the term had ended before.
func (s *Strategy) Resign(ctx context.Context, held elector.Term) error {
	args := []any{s.cfg.Lock.DataCenter, s.cfg.Lock.Name, held.Leader.String(), held.Number}
	expects := elector.Event{Term: held.Number, Owner: held.Leader}
	h := s.held.Swap(nil)
	s.leftAt, s.election, s.owner, s.ownerOf = time.Now(), nil, held.Leader, held.Number
	if h != nil {
		defer h.conn.close()
	}
	acknowledged := false
	if h != nil && !h.conn.lost.Load() {
		_, err := s.cfg.traced(elector.EventResigning, elector.EventResigned, expects, func() (int64, error) {
			return h.conn.pinned.Exec(ctx, conclavesql.LockResign, args...)
		})
		acknowledged = err == nil
	}
	if !acknowledged {
		if _, err := s.cfg.traced(elector.EventResigning, elector.EventResigned, expects, func() (int64, error) {
			return s.cfg.DB.Exec(ctx, conclavesql.LockResign, args...)
		}); err != nil {
			return fmt.Errorf("resign term %d: %w", held.Number, err)
		}
		return nil
	}
	if h.lock != "" {
		if err := h.conn.release(ctx, h.lock); err != nil {
			s.log.Debug("release the witness", "error", err)
		}
	}
	return nil
}

// Record releases the old leader's lock, if this node still holds it, and writes the
// election into the history, fenced.
func (s *Strategy) Record(ctx context.Context, won elector.Term) (elector.Term, error) {
	s.releaseOldLock(ctx)
	w := s.election
	if w == nil || w.term.Number != won.Number {
		return won, nil
	}
	s.lateWin = nil // the term is led: its cause is not needed for a later election
	won.Leaderless = w.term.Leaderless
	if w.term.Previous.IsZero() && w.term.Cause != elector.CauseFirst {
		w.term.Previous = s.lastRecorded(ctx) // this node did not see the term that was resigned
	}
	won.Previous = w.term.Previous
	return won, record(ctx, s.history, won, w.term.Cause)
}

// record writes an election that was won into the history.
func record(ctx context.Context, history *conclavesql.History, won elector.Term, cause elector.Cause) error {
	_, err := history.Record(ctx, conclavesql.Election{
		Term: won.Number, Owner: won.Leader.String(), Previous: won.Previous.String(), Cause: string(cause), Leaderless: won.Leaderless,
	})
	return err
}

// lastRecorded returns the winner of the last election in the history; the zero
// NodeID if the history cannot be read, because it is needed for the record only.
func (s *Strategy) lastRecorded(ctx context.Context) conclave.NodeID {
	list, err := s.history.List(ctx, 1)
	if err != nil || len(list) == 0 {
		return conclave.NodeID{}
	}
	owner, _ := conclave.ParseNodeID(list[0].Owner) // an invalid owner counts as none
	return owner
}
