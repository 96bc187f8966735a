package termcas

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"

	"conclave/elector"
	"conclave/internal/trace"
	conclavesql "conclave/sql"
)

// renew is the leader's beat, on the line that stands for it. ctx ends when trust
// does: no earlier deadline, because closing the connection would free the lock,
// and a stall of half a second would depose a healthy leader.
func (s *Strategy) renew(ctx context.Context, me elector.Candidate) (elector.Term, error) {
	h := s.held.Load()
	if h == nil || h.term != me.Holding {
		return elector.Term{}, fmt.Errorf("asked to renew term %d, which is not held here", me.Holding)
	}
	if h.line.lost.Load() {
		return s.repark(ctx, me, h.term)
	}
	expects := trace.Claim{Term: h.term, Beat: s.beat, Peer: me.ID}
	n, err := s.cfg.traced(trace.Renewing, trace.Renewed, expects, func() (int64, error) {
		return h.line.conn.Exec(ctx, conclavesql.LockRenew,
			s.cfg.Lock.DataCenter, s.cfg.Lock.Name, me.ID.String(), h.term, s.beat)
	})
	switch {
	case err != nil:
		// Suspended, not deposed: the line is lost, the term may not be.
		h.line.lost.Store(true)
		s.log.Info("the leader's connection is lost, parking anew", "term", h.term, "error", err)
		return s.repark(ctx, me, h.term)
	case n == 1:
		s.beat++
		return s.leading(me, h.term), nil
	}
	return s.deposed(ctx, me)
}

// repark renews a held term on a new connection, and swaps the witness in the same
// statement (renewal rules). It is also how a win is taken up whose answer was
// lost. An error leaves the leader suspended; the next round tries again.
func (s *Strategy) repark(ctx context.Context, me elector.Candidate, term uint64) (elector.Term, error) {
	if h := s.held.Load(); h != nil {
		h.line.close()
	}
	l, err := s.open(ctx, me)
	if err != nil {
		return elector.Term{}, fmt.Errorf("park anew in term %d: %w", term, err)
	}
	for plain := false; ; {
		r, err := s.look(ctx)
		if errors.Is(err, conclavesql.ErrNoRows) || err == nil && (r.owner != me.ID.String() || r.number != term) {
			l.close()
			return s.deposed(ctx, me)
		}
		var n int64
		var lock string
		if err == nil {
			n, lock, err = s.swapWitness(ctx, me, r, l, plain)
		}
		switch {
		case err != nil:
			l.close()
			return elector.Term{}, fmt.Errorf("park anew in term %d: %w", term, err)
		case n == 1:
			s.beat = r.beat + 2
			s.held.Store(&hold{term: term, line: l, lock: lock})
			s.log.Info("parked anew, the term goes on", "term", term)
			return s.leading(me, term), nil
		case s.movedOn(ctx, r):
			// By a renewal or a swap of ours that landed late: look again.
		case !plain:
			plain = true // a proxy garbles the witness: the term goes on without
		default:
			l.close()
			return s.deposed(ctx, me)
		}
	}
}

// swapWitness is one try to replace the witness that the row names.
func (s *Strategy) swapWitness(ctx context.Context, me elector.Candidate, r row, l *line, plain bool) (int64, string, error) {
	nonce := conclavesql.NewNonce(s.cfg.Rand)
	var lock string
	var conn stdsql.NullInt64
	if !plain {
		var err error
		if lock, conn, err = s.take(ctx, me, l, nonce); err != nil {
			return 0, "", err
		}
	}
	witness := stdsql.NullString{String: lock, Valid: lock != ""}
	expects := trace.Claim{Term: r.number, Beat: r.beat, Peer: me.ID}
	n, err := s.cfg.traced(trace.Reparking, trace.Reparked, expects, func() (int64, error) {
		return l.exec(ctx, me.Beat/2, conclavesql.LockRepark,
			r.beat+2, witness, conn,
			s.cfg.Lock.DataCenter, s.cfg.Lock.Name, r.owner, r.number, r.lock, r.beat, r.beat+1,
			conn, conn, lockName(nonce))
	})
	return n, lock, err
}

// movedOn says whether the row has changed since it was read.
func (s *Strategy) movedOn(ctx context.Context, r row) bool {
	now, err := s.look(ctx)
	return err == nil && !(now.unchanged(r) && now.lock == r.lock)
}

// leading is the held term as the Elector sees it.
func (s *Strategy) leading(me elector.Candidate, term uint64) elector.Term {
	t := elector.Term{Number: term, Leader: me.ID, Address: me.Address, Beat: s.beat, Lease: me.Lease}
	if s.won != nil && s.won.term.Number == term {
		t.Cause, t.Previous = s.won.term.Cause, s.won.term.Previous
	}
	return t
}

// deposed drops what was held and reads who leads now. A row that still names this
// node (somebody has set its beat) names nobody: the next round wins from it.
func (s *Strategy) deposed(ctx context.Context, me elector.Candidate) (elector.Term, error) {
	s.letGo()
	now, err := s.look(ctx)
	if errors.Is(err, conclavesql.ErrNoRows) {
		return elector.Term{Lease: me.Lease}, nil
	}
	if err != nil {
		// Deposed is certain, by whom is not.
		s.log.Debug("deposed, and the row cannot be read", "error", err)
		return elector.Term{Number: me.Holding, Lease: me.Lease}, nil
	}
	return now.term(me), nil
}
