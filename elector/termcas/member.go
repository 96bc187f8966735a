package termcas

import (
	"context"
	"errors"
	"fmt"
	"time"

	"conclave/elector"
	conclavesql "conclave/sql"
)

// What follows is how a Strategy of a Shared sends what others send on connections of
// their own.

// ask asks the Shared, and keeps since when trust counts.
func (s *Strategy) ask(ctx context.Context, u *update) (answer, error) {
	q := &question{me: s.me, name: s.cfg.Lock.Name, update: u}
	if h := s.held.Load(); s.retries > 0 || h != nil && !h.conn.lost.Load() { // nothing is urgent
		q.due = time.Now().Add(s.me.Beat / patience)
	}
	a, err := s.shared.ask(ctx, q)
	s.sent = a.sent
	return a, err
}

// tell returns how many rows an update has changed: one or none. After an error it has
// changed none, unless the connection is lost. If it has changed none it returns the row.
func (s *Strategy) tell(ctx context.Context, u *update) (int64, row, error) {
	a, err := s.ask(ctx, u)
	if a.done {
		return 1, row{}, err
	}
	return 0, a.row, err
}

// readTogether reads the row with those of other elections.
func (s *Strategy) readTogether(ctx context.Context) (row, error) {
	s.cfg.Trace(elector.Event{Kind: elector.EventLooking})
	a, err := s.ask(ctx, nil)
	r := a.row
	s.cfg.Trace(elector.Event{Kind: elector.EventLooked, Owner: r.leader(), Term: r.number, Beat: r.beat, Err: err})
	if err != nil {
		return row{}, fmt.Errorf("read lock %s: %w", s.cfg.Lock, err)
	}
	r.phase = r.at.Sub(a.sent)
	if !r.unchanged(s.health.last) {
		s.retries = 0 // they were to win another row
	}
	s.health.last = r
	return r, nil
}

// newNonce returns the nonce of the next win.
func (s *Strategy) newNonce() string {
	if s.shared != nil {
		return s.shared.nextNonce()
	}
	return conclavesql.NewNonce(s.cfg.Rand)
}

// onPool executes a statement on the pool; in a Shared when it is this election's turn.
func (s *Strategy) onPool(ctx context.Context, execute func() (int64, error)) (int64, error) {
	if s.shared == nil {
		return execute()
	}
	if !s.shared.turns.wait(ctx) {
		return 0, ctx.Err()
	}
	defer s.shared.turns.end()
	return execute()
}

// execOnPool executes a statement that changes a row as onPool does.
func (s *Strategy) execOnPool(ctx context.Context, statement string, args ...any) (int64, error) {
	return s.onPool(ctx, func() (int64, error) { return s.cfg.DB.Exec(ctx, statement, args...) })
}

// acquired returns when this node has acquired the lock that the row names; the zero time
// if it has not.
func (s *Strategy) acquired(r row) time.Time {
	switch {
	case s.shared != nil:
		return s.shared.freed(r.lock.String).at
	case s.waiting != nil && s.waiting.isFor(r) && s.waiting.obtained():
		return s.waiting.at
	}
	return time.Time{}
}

// leaderConfirms reports whether the leader confirms its term. In a Shared, the leaders of
// the process that had the lock are asked one after the other, some at a time. Once one has
// confirmed its term, that process is alive, and a leader from which no answer comes in
// time counts as alive, too.
func (s *Strategy) leaderConfirms(ctx context.Context, r row) bool {
	if s.shared == nil {
		alive, _ := s.askLeader(ctx, r)
		return alive
	}
	free := s.shared.freed(r.lock.String)
	if !s.shared.asking.wait(ctx) {
		return true
	}
	defer s.shared.asking.end()
	if s.shared.free.Load() != free {
		return true // the lock was released before it was this election's turn: only the lease ends the term
	}
	alive, known := s.askLeader(ctx, r)
	if alive {
		free.confirmed.Store(true)
	}
	return alive || !known && free.confirmed.Load()
}

// leftOut is called when a swap has matched nothing although the row is unchanged: reads
// reach another server than the swap, because the address has moved; or, in a Shared,
// another client had locked the row, or the connection was replaced before it was sent.
func (s *Strategy) leftOut(me elector.Candidate, c *witnessConn) {
	switch {
	case s.shared == nil:
		s.cfg.DB.Renew()
	case c.lost.Load():
		s.wake.Set()
	default:
		s.waitLater(me)
	}
}

// reconnect makes an observer read on a new connection. A Shared in which an election is
// led keeps its own, whose server accepts writes, and so does one whose is not a lease old.
func (s *Strategy) reconnect(lease time.Duration) {
	s.cfg.DB.Renew()
	if s.shared == nil {
		return
	}
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	c := s.shared.conn
	for _, m := range s.shared.members {
		if m.held.Load() != nil {
			return
		}
	}
	if time.Since(c.made) >= lease {
		c.lost.Store(true)
	}
}

// renewTogether is the leader's beat. If another client has locked the row, it is renewed
// by itself. Otherwise, if it was not renewed, reacquire finds out why: the connection is
// lost, or this node is deposed.
func (s *Strategy) renewTogether(ctx context.Context, me elector.Candidate, h *hold) (elector.Term, error) {
	n, r, err := s.beatTogether(ctx, me, h.term, s.beat, h.conn, elector.EventRenewing, elector.EventRenewed)
	switch {
	case n == 1:
		s.beat++
		s.held.Store(&hold{term: h.term, conn: h.conn, lock: h.conn.witness()})
		return s.leading(me, h.term), nil
	case errors.Is(err, conclavesql.ErrNoRows):
		return s.deposed(ctx, me)
	case err != nil && !h.conn.lost.Load(): // nothing was executed
		return elector.Term{}, fmt.Errorf("renew term %d: %w", h.term, err)
	}
	if r.owner == me.ID.String() && r.number == h.term && r.beat == s.beat && !h.conn.lost.Load() {
		n, lock, err := s.replaceWitness(ctx, me, r, h.conn, true)
		switch {
		case err != nil:
			return elector.Term{}, fmt.Errorf("renew term %d: %w", h.term, err)
		case n == 1:
			s.held.Store(&hold{term: h.term, conn: h.conn, lock: lock})
			return s.leading(me, h.term), nil
		}
	}
	return s.reacquire(ctx, me, h.term)
}

// beatTogether renews the term from a beat, with those of other elections. It returns the
// row if it was not renewed.
func (s *Strategy) beatTogether(ctx context.Context, me elector.Candidate, term, beat uint64, c *witnessConn, before, after elector.EventKind) (n int64, r row, err error) {
	n, err = s.cfg.traced(before, after, elector.Event{Term: term, Beat: beat, Owner: me.ID}, func() (int64, error) {
		n, r, err = s.tell(ctx, &update{
			statement: conclavesql.LockRenewAll, conn: c,
			row:    []any{s.cfg.Lock.Name, me.ID.String(), term, beat},
			common: []any{c.lock, c.id, c.lock, c.id},
			done: func(now row) bool {
				return now.owner == me.ID.String() && now.number == term && now.beat == beat+1 && now.lock.String == c.lock
			},
		})
		return n, err
	})
	return n, r, err
}

// replaceTogether renews with other elections, and publishes the shared witness; alone, it
// leaves the witness in the row if that is the shared one, and publishes none otherwise.
func (s *Strategy) replaceTogether(ctx context.Context, me elector.Candidate, r row, c *witnessConn, alone bool) (n int64, lock string, err error) {
	if !alone {
		n, _, err = s.beatTogether(ctx, me, r.number, r.beat, c, elector.EventReacquiring, elector.EventReacquired)
		if n == 1 {
			s.beat = r.beat + 1
		}
		return n, c.witness(), err
	}
	var witness, conn any
	if lock = c.witness(); lock != "" && lock == r.lock.String {
		witness, conn = lock, r.connID
	} else {
		lock = ""
	}
	n, err = s.cfg.traced(elector.EventReacquiring, elector.EventReacquired, elector.Event{Term: r.number, Beat: r.beat, Owner: me.ID}, func() (int64, error) {
		return s.execAlone(ctx, c, conclavesql.LockReacquire, r.beat+2, witness, conn,
			s.cfg.Lock.DataCenter, s.cfg.Lock.Name, r.owner, r.number, r.lock,
			r.beat, r.beat, // what was sent before is known: a late copy of this must not match after the next beat
			nil, nil, c.lock)
	})
	if n == 1 {
		s.beat = r.beat + 2
	}
	return n, lock, err
}

// errLocked is why a statement about a row that other clients have locked was not sent.
var errLocked = errors.New("other clients have locked the row, and the statement of another election waits on the pool's connection for such a lock")

// execAlone executes a statement on the connection; in a Shared one about a row that other
// clients have locked: on the pool, where it may wait for the lock, one election at a time.
func (s *Strategy) execAlone(ctx context.Context, c *witnessConn, statement string, args ...any) (int64, error) {
	if s.shared == nil {
		return c.exec(ctx, s.me.Beat/2, statement, args...)
	}
	turn, cancel := context.WithTimeout(ctx, s.me.Beat/4) // such locks are mostly short: those of fenced writes
	defer cancel()
	if !s.shared.waits.wait(turn) {
		return 0, errLocked
	}
	defer s.shared.waits.end()
	return s.cfg.DB.Exec(ctx, statement, args...)
}

// maxRetries is how often waitLater makes the Elector play a round.
const maxRetries = 4

// triesAlone reports whether a swap that has matched nothing is sent once more, alone:
// without its witness, if it had one; in a Shared when it was left out often, because
// fenced writes may have locked the row at each try.
func (s *Strategy) triesAlone(witness string) bool {
	if s.shared != nil {
		return s.retries >= maxRetries
	}
	return witness != ""
}

// swapTogether executes the statement that elects, with those of other elections.
func (s *Strategy) swapTogether(ctx context.Context, me elector.Candidate, r row, why reason, c *witnessConn, nonce string) (int64, error) {
	old := c.lock // any name: the server refuses none, also where it is not needed
	if why == reasonKilled {
		old = r.lock.String
	}
	var highest uint64
	if me.Highest > r.number { // elections that have not seen a higher term are won in one statement
		highest = me.Highest
	}
	return s.cfg.traced(elector.EventSwapping, elector.EventSwapped, r.expects(me, why), func() (int64, error) {
		n, _, err := s.tell(ctx, &update{
			statement: conclavesql.LockWinAll, conn: c,
			row: []any{s.cfg.Lock.Name, r.owner, r.number, r.nonce, r.beat},
			common: []any{
				why == reasonVacant, why == reasonExpired, why == reasonKilled, old, old, s.shared.freed(old).by,
				me.ID.String(), me.Address, highest, me.Lease.Milliseconds(), nonce, c.lock, c.id, c.lock, c.id,
			},
			done: func(now row) bool { return now.owner == me.ID.String() && now.nonce == nonce },
		})
		return n, err
	})
}
