package termcas

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"time"

	"conclave"
	"conclave/elector"
	conclavesql "conclave/sql"
)

// renew is the leader's beat, on the connection that holds the witness
// (ownerHeartbeat, in onLeaderWorking, in article 000). ctx ends when trust does;
// there is no earlier deadline, because closing the connection would free the lock,
// and a stall of half a second would depose a healthy leader.
func (s *Strategy) renew(ctx context.Context, me elector.Candidate) (elector.Term, error) {
	h := s.held.Load()
	if h == nil || h.term != me.Holding {
		return elector.Term{}, fmt.Errorf("asked to renew term %d, which is not held here", me.Holding)
	}
	if h.conn.lost.Load() {
		return s.reacquire(ctx, me, h.term)
	}
	if s.shared != nil {
		return s.renewTogether(ctx, me, h)
	}
	expects := elector.Event{Term: h.term, Beat: s.beat, Owner: me.ID}
	n, err := s.cfg.traced(elector.EventRenewing, elector.EventRenewed, expects, func() (int64, error) {
		return h.conn.pinned.Exec(ctx, conclavesql.LockRenew,
			s.cfg.Lock.DataCenter, s.cfg.Lock.Name, me.ID.String(), h.term, s.beat)
	})
	refused := conclavesql.IsContention(err)
	if n == 1 {
		s.beat++
		err = h.conn.pinned.Recheck(ctx) // what only a minority of the servers has is no renewal
	}
	switch {
	case refused: // the witness stays, and the next round repeats the statement
		return elector.Term{}, fmt.Errorf("renew term %d: %w", h.term, err)
	case err != nil:
		// Suspended, not deposed: the connection is lost, the term perhaps not.
		h.conn.lost.Store(true)
		s.log.Info("lost the leader's connection, reacquiring the witness", "term", h.term, "error", err)
		return s.reacquire(ctx, me, h.term)
	case n == 1:
		return s.leading(me, h.term), nil
	}
	return s.deposed(ctx, me)
}

// reacquire renews a held term on a new connection, and replaces the witness in the
// same statement (see Renewal in the package comment). A win whose answer was lost
// is continued in the same way. After an error the leader stays suspended, and the
// next round tries again.
func (s *Strategy) reacquire(ctx context.Context, me elector.Candidate, term uint64) (elector.Term, error) {
	if h := s.held.Load(); h != nil {
		h.conn.close()
	}
	c, err := s.open(ctx, me)
	if err != nil {
		return elector.Term{}, fmt.Errorf("reacquire the witness in term %d: %w", term, err)
	}
	for noWitness := false; ; {
		r, err := s.read(ctx)
		if errors.Is(err, conclavesql.ErrNoRows) || err == nil && (r.owner != me.ID.String() || r.number != term) {
			c.close()
			return s.deposed(ctx, me)
		}
		var n int64
		var lock string
		if err == nil {
			n, lock, err = s.replaceWitness(ctx, me, r, c, noWitness)
		}
		switch {
		case err != nil:
			s.refused(me, c, err)
			return elector.Term{}, fmt.Errorf("reacquire the witness in term %d: %w", term, err)
		case n == 1:
			s.held.Store(&hold{term: term, conn: c, lock: lock})
			s.log.Info("reacquired the witness, the term continues", "term", term)
			return s.leading(me, term), nil
		case s.changedSince(ctx, r):
			// By an earlier statement of this node that was executed late: look again.
		case !noWitness:
			noWitness = true // a proxy alters the statement: continue the term without a witness
		default:
			c.close()
			return s.deposed(ctx, me)
		}
	}
}

// replaceWitness tries once to replace the witness that the row names, by no
// witness if noWitness is set. It returns the number of rows changed and the name of
// the new lock.
func (s *Strategy) replaceWitness(ctx context.Context, me elector.Candidate, r row, c *witnessConn, noWitness bool) (int64, string, error) {
	if s.shared != nil {
		return s.replaceTogether(ctx, me, r, c, noWitness)
	}
	nonce := conclavesql.NewNonce(s.cfg.Rand)
	var lock string
	var connID stdsql.NullInt64
	if !noWitness {
		var err error
		if lock, connID, err = s.take(ctx, me, c, nonce); err != nil {
			return 0, "", err
		}
	}
	witness := stdsql.NullString{String: lock, Valid: lock != ""}
	expects := elector.Event{Term: r.number, Beat: r.beat, Owner: me.ID}
	n, err := s.cfg.traced(elector.EventReacquiring, elector.EventReacquired, expects, func() (int64, error) {
		return c.exec(ctx, me.Beat/2, conclavesql.LockReacquire,
			r.beat+2, witness, connID,
			s.cfg.Lock.DataCenter, s.cfg.Lock.Name, r.owner, r.number, r.lock, r.beat, r.beat+1,
			connID, connID, lockName(nonce))
	})
	if n == 1 {
		s.beat = r.beat + 2
	}
	return n, lock, err
}

// changedSince reports whether the row has changed since it was read as r.
func (s *Strategy) changedSince(ctx context.Context, r row) bool {
	now, err := s.read(ctx)
	return err == nil && !(now.unchanged(r) && now.lock == r.lock)
}

// leading returns the held term as the Elector sees it.
func (s *Strategy) leading(me elector.Candidate, term uint64) elector.Term {
	t := elector.Term{Number: term, Leader: me.ID, Address: me.Address, Beat: s.beat, Lease: me.Lease, Sent: s.sent}
	if s.election != nil && s.election.term.Number == term {
		s.election.measure()
		t.Cause, t.Previous, t.Leaderless = s.election.term.Cause, s.election.term.Previous, s.election.term.Leaderless
	}
	return t
}

// deposed drops what was held and returns the term that the row names now. If it
// still names this node (its beat was changed by hand), the term has no Leader, and
// the next round wins from it.
func (s *Strategy) deposed(ctx context.Context, me elector.Candidate) (elector.Term, error) {
	s.dropHold()
	now, err := s.read(ctx)
	if errors.Is(err, conclavesql.ErrNoRows) {
		return elector.Term{Lease: me.Lease}, nil
	}
	if err != nil {
		// It is certain that this node is deposed, but not by which node.
		s.log.Debug("deposed, and the row cannot be read", "error", err)
		return elector.Term{Number: me.Holding, Lease: me.Lease}, nil
	}
	return now.term(me), nil
}

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
	if h != nil && s.shared == nil && !h.conn.lost.Load() {
		_, err := s.cfg.traced(elector.EventResigning, elector.EventResigned, expects, func() (int64, error) {
			return h.conn.pinned.Exec(ctx, conclavesql.LockResign, args...)
		})
		acknowledged = err == nil
	}
	if !acknowledged {
		if _, err := s.cfg.traced(elector.EventResigning, elector.EventResigned, expects, func() (int64, error) {
			return s.execOnPool(ctx, conclavesql.LockResign, args...)
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
	s.unled = nil // the term is led: its cause is not needed for a later election
	won.Leaderless = w.term.Leaderless
	_, err := s.onPool(ctx, func() (int64, error) {
		if w.term.Previous.IsZero() && w.term.Cause != elector.CauseFirst {
			w.term.Previous = s.lastRecorded(ctx) // this node did not see the term that was resigned
		}
		won.Previous = w.term.Previous
		return 0, record(ctx, s.history, won, w.term.Cause)
	})
	return won, advised(err)
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
