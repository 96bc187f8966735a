package termcas

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"time"

	"conclave/elector"
	conclavesql "conclave/sql"
)

// reason is why a candidate may compete (rules 2 and 4).
type reason int

const (
	reasonNone    reason = iota // it may not
	reasonVacant                // 4a: resigned, or no owner
	reasonOwnName               // 2: the row names this node, which does not lead
	reasonExpired               // 4b, its first case: observed for a lease, and the database agrees
	reasonOverdue               // 4b, its second: observed for three leases, whatever the database's clock says
	reasonKilled                // 4c: this node has the leader's lock, and the leader's port does not confirm it
)

// statement returns the UPDATE that wins for this reason.
func (why reason) statement() string {
	return map[reason]string{
		reasonVacant:  conclavesql.LockWinVacant,
		reasonOwnName: conclavesql.LockWinOwn,
		reasonExpired: conclavesql.LockWinExpired,
		reasonOverdue: conclavesql.LockWinOverdue,
		reasonKilled:  conclavesql.LockWinWitness,
	}[why]
}

// reasonToCompete returns the reason for which this node may compete by what it has
// read, by rules 2, 4a and 4b. (In article 000 the check is expire, by the database's
// time.)
func reasonToCompete(me elector.Candidate, r row, last elector.Term) reason {
	observed := r.term(me).ObservedFor(last)
	behind := r.number < me.Highest // the store was set back: another node may lead a higher term
	mine := r.owner == me.ID.String()
	switch {
	case mine && (!behind || last.Leader == me.ID || observed >= r.lease):
		return reasonOwnName
	case r.vacant() && (!behind || observed >= r.lease):
		return reasonVacant
	case mine || r.vacant(): // set back, for less than a lease so far
		return reasonNone
	case observed >= r.lease && r.age >= r.lease:
		return reasonExpired
	case observed >= 3*r.lease:
		return reasonOverdue
	}
	return reasonNone
}

// compete tries to win the next term, by rules 5 to 7 (competeLockOnUpdate in
// article 000). If it loses, it returns the winner's term.
func (s *Strategy) compete(ctx context.Context, me elector.Candidate, r row, why reason, last elector.Term) (elector.Term, error) {
	began := time.Now()
	c, err := s.connToWinOn(ctx, me)
	if err != nil {
		return elector.Term{}, err
	}
	if time.Since(began) > me.Beat/2 {
		// Trust in a term counts from the beginning of the round that wins it. This
		// round has spent its time on connecting: the next one wins.
		s.keepSpare(c)
		s.wake.Set()
		return r.term(me), nil
	}
	if why == reasonKilled && s.acquired(r).IsZero() { // the connection broke, and the evidence ended with it
		s.keepSpare(c)
		return r.term(me), nil
	}
	// 5. Prepare: a new nonce, and a lock of that name on this connection.
	w := s.pendingWin(me, r, why, last)
	lock, connID, err := s.take(ctx, me, c, w.nonce)
	if err != nil {
		s.dropConn(c)
		return elector.Term{}, fmt.Errorf("prepare term %d: %w", w.term.Number, err)
	}
	// 6. Compare and swap.
	for witness, alone := lock, false; ; witness, alone = "", true { // first with the witness, then once without
		n, err := s.swap(ctx, me, r, why, c, w.nonce, witness, connID, alone)
		if n == 1 && err == nil {
			return s.won(c, witness, w), nil // 7. Won.
		}
		now := r
		if err == nil {
			now, err = s.read(ctx)
		}
		switch {
		case err != nil:
			s.refused(me, c, err)
			return s.unknownOutcome(ctx, me, r, w, err)
		case alone || !s.triesAlone(lock) || why == reasonKilled || !now.unchanged(r):
			if now.unchanged(r) {
				s.leftOut(me, c)
			}
			s.lost(ctx, me, c, lock, now) // 7. Lost.
			return now.term(me), nil
		}
		// A proxy that alters statements may cost the fast takeover, but not the
		// election. (If the reason is a witness itself, it is needed.)
		s.log.Warn("a swap matched nothing although the row is unchanged; trying without a witness", "term", r.number)
	}
}

// connToWinOn returns the connection on which the leader's lock was acquired, if
// there is one; otherwise it stops waiting and opens a new connection.
func (s *Strategy) connToWinOn(ctx context.Context, me elector.Candidate) (*witnessConn, error) {
	if w := s.waiting; w != nil && w.obtained() {
		check, cancel := context.WithTimeout(ctx, me.Beat/2)
		defer cancel()
		if err := w.conn.pinned.Recheck(check); err != nil {
			s.stopWaiting()
			return nil, fmt.Errorf("the server on which the leader's lock was acquired: %w", err)
		}
		return w.conn, nil
	}
	s.stopWaiting()
	return s.open(ctx, me)
}

// dropConn closes the connection, and ends the wait that it was used for.
func (s *Strategy) dropConn(c *witnessConn) {
	if s.waiting != nil && s.waiting.conn == c {
		s.stopWaiting()
		return
	}
	c.close()
}

// pendingWin returns the election that this node is about to try to win: its
// number, its cause, the previous leader, and since when no node leads.
func (s *Strategy) pendingWin(me elector.Candidate, r row, why reason, last elector.Term) *win {
	w := &win{nonce: s.newNonce()}
	w.term = elector.Term{
		Number:   max(r.number, me.Highest) + 1,
		Leader:   me.ID,
		Address:  me.Address,
		Lease:    me.Lease,
		Previous: r.leader(),
	}
	if why == reasonVacant && s.ownerOf == r.number {
		w.term.Previous = s.owner // the resignation has emptied the row
	} // if terms have passed unseen, Record asks the history
	observed := r.term(me).ObservedFor(last)
	late := s.unled
	switch {
	case why == reasonOwnName && late != nil && late.nonce == r.nonce: // its election was never announced: this one takes its place
		w.term.Cause, w.term.Previous, w.vacant = late.term.Cause, late.term.Previous, late.vacant
	case why == reasonOwnName:
		w.term.Cause, w.vacant = elector.CauseExpired, s.leftAt
	case me.Highest > r.number: // the store was set back
		w.vacant = r.at.Add(-observed)
	default:
		w.term.Cause, w.vacant = s.causeOf(r, why, observed)
	}
	if me.Highest > r.number {
		w.term.Cause = elector.CauseRestored
	}
	return w
}

// causeOf returns the cause of an election to succeed another node, and since when no
// node leads; the zero time if none ever did.
func (s *Strategy) causeOf(r row, why reason, observed time.Duration) (elector.Cause, time.Time) {
	switch {
	case why == reasonKilled:
		return elector.CauseKilled, s.acquired(r)
	case why == reasonExpired:
		return elector.CauseExpired, r.at.Add(-min(max(0, r.age-r.lease), observed))
	case why == reasonOverdue: // the database's clock is wrong, so the age is, too
		return elector.CauseExpired, r.at.Add(r.lease - observed)
	case r.resigned:
		return elector.CauseResigned, r.at.Add(-r.age)
	case r.number == 0:
		return elector.CauseFirst, time.Time{}
	}
	return elector.CauseRestored, r.at.Add(-r.age) // the row was emptied by hand
}

// swap executes the statement that elects; in a Shared with other elections, or alone.
func (s *Strategy) swap(ctx context.Context, me elector.Candidate, r row, why reason, c *witnessConn, nonce, lock string, connID stdsql.NullInt64, alone bool) (int64, error) {
	if s.shared != nil && !alone {
		return s.swapTogether(ctx, me, r, why, c, nonce)
	}
	witness := stdsql.NullString{String: lock, Valid: lock != ""}
	if !witness.Valid {
		connID = stdsql.NullInt64{}
	}
	args := []any{
		me.ID.String(), me.Address, me.Highest, me.Lease.Milliseconds(), nonce, witness, connID, // SET
		s.cfg.Lock.DataCenter, s.cfg.Lock.Name, r.owner, r.number, r.nonce, // as read
		connID, connID, lockName(nonce), // only a lock that is held is published
	}
	switch why {
	case reasonExpired, reasonOverdue:
		args = append(args, r.beat)
	case reasonKilled:
		args = append(args, r.lock.String, r.lock.String)
	}
	return s.cfg.traced(elector.EventSwapping, elector.EventSwapped, r.expects(me, why), func() (int64, error) {
		return s.execAlone(ctx, c, why.statement(), args...)
	})
}

// won keeps what was won (rule 7): the connection with this node's lock on it, and
// on it the old leader's lock, if this node waited for that, until Record.
func (s *Strategy) won(c *witnessConn, lock string, w *win) elector.Term {
	h := &hold{term: w.term.Number, conn: c, lock: lock}
	if old := s.waiting; old != nil && old.conn == c {
		s.waiting, h.old = nil, old.lock
	}
	w.measure()
	w.term.Sent, s.retries = s.sent, 0
	s.dropSpare()
	s.beat, s.election, s.unled = 0, w, w
	s.held.Store(h)
	return w.term
}

// releaseOldLock releases the old leader's lock, which wakes the other waiters; they
// then wait for this node's lock. It is called once the node leads, because the
// statements of the others would delay that; before it if this node does not know
// the previous leader, which Record looks up (elector.Elector.launch).
func (s *Strategy) releaseOldLock(ctx context.Context) {
	h := s.held.Load()
	if h == nil || h.old == "" || h.conn.lost.Load() {
		return // without the connection it is free
	}
	s.held.Store(&hold{term: h.term, conn: h.conn, lock: h.lock})
	if err := h.conn.release(ctx, h.old); err != nil {
		s.log.Debug("release the old leader's lock", "error", err)
	}
}

// lost releases the connection with its locks, and waits for the winner's witness.
func (s *Strategy) lost(ctx context.Context, me elector.Candidate, c *witnessConn, lock string, now row) {
	if s.waiting == nil || s.waiting.conn != c {
		c.close()
	} else if lock != "" {
		if err := c.release(ctx, lock); err != nil {
			s.log.Debug("release a lock that did not win", "error", err)
		}
	}
	s.waitForWitness(ctx, me, now)
}

// unknownOutcome reads the row after a swap from r failed: the nonce shows whether it
// was executed. If it was, the win is renewed on a new connection before it is led. If
// the swap is executed later and wins, that term is never led (rule 2). While the row is
// as before, the round has failed for the same reason, which a read alone would not show.
func (s *Strategy) unknownOutcome(ctx context.Context, me elector.Candidate, r row, w *win, cause error) (elector.Term, error) {
	s.unled = w
	s.health.failed(me, cause)
	now, err := s.read(ctx)
	if err != nil {
		return elector.Term{}, fmt.Errorf("outcome of term %d is unknown: %w", w.term.Number, cause)
	}
	if now.nonce != w.nonce {
		if now.unchanged(r) {
			return elector.Term{}, fmt.Errorf("win term %d: %w", w.term.Number, cause)
		}
		s.log.Info("a swap without an answer has not won so far", "term", w.term.Number, "error", cause)
		return now.term(me), nil
	}
	s.log.Info("a swap without an answer has won", "term", now.number, "error", cause)
	s.election = w
	w.term.Number = now.number
	return s.reacquire(ctx, me, now.number)
}
