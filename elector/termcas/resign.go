package termcas

import (
	"context"
	"fmt"
	"time"

	"conclave"
	"conclave/elector"
	"conclave/internal/trace"
	conclavesql "conclave/sql"
)

// Resign ends the held term in the row and frees the lock that stood for it. The
// statement names owner and term, so it may be said twice: when its answer is lost
// it is said again on another connection. No row means that the term was over.
func (s *Strategy) Resign(ctx context.Context, held elector.Term) error {
	args := []any{s.cfg.Lock.DataCenter, s.cfg.Lock.Name, held.Leader.String(), held.Number}
	expects := trace.Claim{Term: held.Number, Peer: held.Leader}
	h := s.held.Swap(nil)
	s.leftAt, s.won, s.owner, s.ownerOf = time.Now(), nil, held.Leader, held.Number
	if h != nil {
		defer h.line.close()
	}
	said := false
	if h != nil && !h.line.lost.Load() {
		_, err := s.cfg.traced(trace.Resigning, trace.Resigned, expects, func() (int64, error) {
			return h.line.conn.Exec(ctx, conclavesql.LockResign, args...)
		})
		said = err == nil
	}
	if !said {
		if _, err := s.cfg.traced(trace.Resigning, trace.Resigned, expects, func() (int64, error) {
			return s.cfg.DB.Exec(ctx, conclavesql.LockResign, args...)
		}); err != nil {
			return fmt.Errorf("resign term %d: %w", held.Number, err)
		}
		return nil
	}
	if h.lock != "" {
		if err := h.line.release(ctx, h.lock); err != nil {
			s.log.Debug("release the lock", "error", err)
		}
	}
	return nil
}

// Record writes the election into the history, fenced: it is the first write of
// the new term, and the end of the leaderless time.
func (s *Strategy) Record(ctx context.Context, won elector.Term) (elector.Term, error) {
	w := s.won
	if w == nil || w.term.Number != won.Number {
		return won, nil
	}
	s.ghost = nil // it is led: if it is ever left, that is another story
	if !w.measured && !w.vacant.IsZero() {
		w.term.Leaderless = max(0, time.Since(w.vacant))
	}
	w.measured = true // a retry is a beat late, the leadership was not
	won.Leaderless = w.term.Leaderless
	if w.term.Previous.IsZero() && w.term.Cause != elector.CauseFirst {
		w.term.Previous = s.lastRecorded(ctx) // this node came after the resignation
	}
	won.Previous = w.term.Previous
	_, err := s.history.Record(ctx, conclavesql.Election{
		Term:       won.Number,
		Owner:      won.Leader.String(),
		Previous:   w.term.Previous.String(),
		Cause:      string(w.term.Cause),
		Leaderless: won.Leaderless,
	})
	return won, err
}

// lastRecorded is the winner of the last election in the history; nobody when that
// cannot be read: it is only for the record.
func (s *Strategy) lastRecorded(ctx context.Context) conclave.NodeID {
	list, err := s.history.List(ctx, 1)
	if err != nil || len(list) == 0 {
		return conclave.NodeID{}
	}
	owner, _ := conclave.ParseNodeID(list[0].Owner) // what cannot be read is nobody
	return owner
}
