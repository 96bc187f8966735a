package termcas

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"time"

	"conclave"
	"conclave/elector"
	"conclave/internal/trace"
	conclavesql "conclave/sql"
)

// ground is why a candidate may compete (rules 2 and 4).
type ground int

const (
	none    ground = iota
	vacant         // 4a: resigned, or no owner
	own            // 2: the row names me, and I do not lead
	expired        // 4b: observed for a lease, and the database agrees
	overdue        // 4b: observed for three leases, whatever the database's clock says
	killed         // 4c: I hold the leader's lock, and its port answers nobody
)

// statements of the grounds.
func (g ground) statement() string {
	return map[ground]string{
		vacant:  conclavesql.LockWinVacant,
		own:     conclavesql.LockWinOwn,
		expired: conclavesql.LockWinExpired,
		overdue: conclavesql.LockWinOverdue,
		killed:  conclavesql.LockWinWitness,
	}[g]
}

// entitled judges whether this node may compete, and why.
func (s *Strategy) entitled(ctx context.Context, me elector.Candidate, r row, last elector.Term) ground {
	observed := r.term(me).ObservedFor(last)
	behind := r.number < me.Highest // the store was set back: somebody may lead a higher term
	mine := r.owner == me.ID.String()
	switch {
	case mine && (!behind || last.Leader == me.ID || observed >= r.lease):
		return own
	case (r.resigned || r.owner == "") && (!behind || observed >= r.lease):
		return vacant
	case mine || r.resigned || r.owner == "":
		return none
	case observed >= r.lease && r.age >= r.lease:
		return expired
	case observed >= 3*r.lease:
		return overdue
	case s.proven(ctx, me, r):
		return killed
	}
	return none
}

// compete tries to win (rules 5 to 7). Losing is a result.
func (s *Strategy) compete(ctx context.Context, me elector.Candidate, r row, g ground, last elector.Term) (elector.Term, error) {
	l, err := s.lineToWinOn(ctx, me)
	if err != nil {
		return elector.Term{}, err
	}
	// 5. Prepare: a fresh nonce, and a lock of that name on this line.
	w := s.prospect(me, r, g, last)
	lock, conn, err := s.take(ctx, me, l, w.nonce)
	if err != nil {
		s.dropLine(l)
		return elector.Term{}, fmt.Errorf("prepare term %d: %w", w.term.Number, err)
	}
	// 6. Compare and swap.
	n, err := s.swap(ctx, me, r, g, l, w.nonce, lock, conn)
	now := r
	if err == nil && n == 0 {
		now, err = s.look(ctx)
	}
	if err == nil && n == 0 && lock != "" && g != killed && now.unchanged(r) {
		// A strange proxy may cost the fast path, never the election. (A ground that is
		// itself a witness cannot do without.)
		s.log.Warn("a swap with a witness matched nothing although the row is unchanged; trying without", "term", r.number)
		if n, err = s.swap(ctx, me, r, g, l, w.nonce, "", stdsql.NullInt64{}); n == 1 {
			lock = ""
		} else if err == nil {
			now, err = s.look(ctx)
		}
	}
	switch {
	case err != nil:
		s.dropLine(l)
		return s.unheard(ctx, me, w, err)
	case n == 1:
		return s.lead(ctx, l, lock, w), nil // 7. Won.
	}
	s.lost(ctx, me, l, lock, now) // 7. Lost.
	return now.term(me), nil
}

// lineToWinOn is the line of a watch that is over (with the leader's lock, if that
// is the ground), or a new one; a wait that is still going on is abandoned.
func (s *Strategy) lineToWinOn(ctx context.Context, me elector.Candidate) (*line, error) {
	if w := s.watch; w != nil && w.obtained() {
		return w.line, nil
	}
	s.unpark()
	return s.open(ctx, me)
}

// dropLine closes the line, and the watch that was on it.
func (s *Strategy) dropLine(l *line) {
	if s.watch != nil && s.watch.line == l {
		s.unpark()
		return
	}
	l.close()
}

// prospect is the election that we are about to win: who was before, why it is
// over, and since when nobody leads.
func (s *Strategy) prospect(me elector.Candidate, r row, g ground, last elector.Term) *win {
	w := &win{nonce: conclavesql.NewNonce(s.cfg.Rand)}
	w.term = elector.Term{
		Number:  max(r.number, me.Highest) + 1,
		Leader:  me.ID,
		Address: me.Address,
		Lease:   me.Lease,
	}
	w.term.Previous, _ = conclave.ParseNodeID(r.owner) // what cannot be read is nobody
	observed := r.term(me).ObservedFor(last)
	switch g {
	case vacant:
		w.term.Cause, w.vacant = elector.CauseResigned, r.at.Add(-r.age)
		if s.ownerOf == r.number {
			w.term.Previous = s.owner // resigning has emptied the row
		} // else the history is asked: terms have passed unseen
		switch {
		case r.resigned:
		case r.number == 0:
			w.term.Cause = elector.CauseFirst
		default: // somebody has emptied the row
			w.term.Cause = elector.CauseRestored
		}
	case own:
		w.term.Cause, w.vacant = elector.CauseExpired, s.leftAt
		if s.ghost != nil && s.ghost.nonce == r.nonce { // the election that nobody heard of
			w.term.Cause, w.term.Previous, w.vacant = s.ghost.term.Cause, s.ghost.term.Previous, s.ghost.vacant
		}
	case expired:
		w.term.Cause, w.vacant = elector.CauseExpired, r.at.Add(-min(max(0, r.age-r.lease), observed))
	case overdue: // the database's clock is of no use: the age is not, either
		w.term.Cause, w.vacant = elector.CauseExpired, r.at.Add(r.lease-observed)
	case killed:
		w.term.Cause, w.vacant = elector.CauseKilled, s.watch.at
	}
	if me.Highest > r.number {
		w.term.Cause = elector.CauseRestored
		if g != own {
			w.vacant = r.at.Add(-observed)
		}
	}
	if w.term.Cause == elector.CauseFirst {
		w.vacant = time.Time{} // nobody was missed before there was anybody
	}
	return w
}

// swap is the statement that elects.
func (s *Strategy) swap(ctx context.Context, me elector.Candidate, r row, g ground, l *line, nonce, lock string, conn stdsql.NullInt64) (int64, error) {
	witness := stdsql.NullString{String: lock, Valid: lock != ""}
	if !witness.Valid {
		conn = stdsql.NullInt64{}
	}
	args := []any{
		me.ID.String(), me.Address, me.Highest, me.Lease.Milliseconds(), nonce, witness, conn, // SET
		s.cfg.Lock.DataCenter, s.cfg.Lock.Name, r.owner, r.number, r.nonce, // as read
		conn, conn, lockName(nonce), // published is what is held
	}
	switch g {
	case expired, overdue:
		args = append(args, r.beat)
	case killed:
		args = append(args, r.lock.String, r.lock.String)
	}
	return s.cfg.traced(trace.Swapping, trace.Swapped, r.expects(me, g), func() (int64, error) {
		return l.exec(ctx, me.Beat/2, g.statement(), args...)
	})
}

// lead keeps what was won (rule 7): the line with our lock on it. The old leader's
// lock is given back at once, which wakes the other waiters and sends them to ours.
func (s *Strategy) lead(ctx context.Context, l *line, lock string, w *win) elector.Term {
	if old := s.watch; old != nil && old.line == l {
		s.watch = nil
		if err := l.release(ctx, old.lock); err != nil {
			s.log.Debug("release the old leader's lock", "error", err)
		}
	}
	s.beat, s.won, s.ghost = 0, w, w
	s.held.Store(&hold{term: w.term.Number, line: l, lock: lock})
	return w.term
}

// lost lets the line go (its locks go with it), and stands by the winner.
func (s *Strategy) lost(ctx context.Context, me elector.Candidate, l *line, lock string, now row) {
	if s.watch == nil || s.watch.line != l {
		l.close()
	} else if lock != "" {
		if err := l.release(ctx, lock); err != nil {
			s.log.Debug("release a lock that did not win", "error", err)
		}
	}
	s.standBy(ctx, me, now)
}

// unheard finds out what became of a swap whose answer was lost: the row tells by
// the nonce. A win is renewed on a new connection before it is led; any other win
// of ours that lands later is over before it begins (rule 2).
func (s *Strategy) unheard(ctx context.Context, me elector.Candidate, w *win, cause error) (elector.Term, error) {
	s.ghost = w
	now, err := s.look(ctx)
	if err != nil {
		return elector.Term{}, fmt.Errorf("outcome of term %d is unknown: %w", w.term.Number, cause)
	}
	if now.nonce != w.nonce {
		s.log.Info("a swap without an answer has not won so far", "term", w.term.Number, "error", cause)
		return now.term(me), nil
	}
	s.log.Info("won unheard: the row carries my nonce", "term", now.number, "error", cause)
	s.won = w
	w.term.Number = now.number
	return s.repark(ctx, me, now.number)
}
