package termcas

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"math/rand/v2"
	"time"

	"conclave/elector"
	conclavesql "conclave/sql"
)

// witnessWait is a follower's evidence and its wait (rule 3): on this connection,
// since this start of the server, the leader was seen to hold its lock. If the lock
// is then acquired on the same connection, the leader's connection is gone.
type witnessWait struct {
	conn *witnessConn
	term uint64
	lock string

	ended chan struct{} // closed when runWait ends; the fields below may be read after that
	got   bool          // the lock was acquired
	at    time.Time     // when
}

// over reports whether runWait has ended, so that the connection is free for other
// statements.
func (w *witnessWait) over() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

// obtained reports whether this node holds the leader's lock.
func (w *witnessWait) obtained() bool { return w.over() && w.got && !w.conn.lost.Load() }

// isFor reports whether the wait is for the leader that the row names.
func (w *witnessWait) isFor(r row) bool {
	return r.lock.Valid && w.lock == r.lock.String
}

// waitForWitness makes this node wait for the lock of the leader that the row names
// (rule 3). If it cannot, the node tries again later; until then only the lease
// ends that leader's term.
func (s *Strategy) waitForWitness(ctx context.Context, me elector.Candidate, r row) {
	if s.noWitness || s.shared != nil || !r.lock.Valid || !r.connID.Valid || r.owner == "" {
		s.stopWaiting()
		return
	}
	c := s.idleConn(ctx, r)
	if c == nil && s.waiting != nil {
		return // it waits already
	}
	if c == nil {
		opened, err := s.open(ctx, me)
		if err != nil {
			s.log.Debug("no connection to wait for the witness on", "error", err)
			s.waitLater(me)
			return
		}
		c = opened
	}
	// The evidence, read on the very connection that will wait.
	var holder stdsql.NullInt64
	if err := c.query(ctx, me.Beat/2, conclavesql.LockUsed, []any{r.lock.String}, &holder); err != nil || holder != r.connID || s.noWitness {
		// Not held, or this is another server, or Galera: acquiring the lock would prove nothing.
		c.close()
		s.waitLater(me)
		return
	}
	s.retries = 0
	w := &witnessWait{conn: c, term: r.number, lock: r.lock.String, ended: make(chan struct{})}
	s.waiting = w
	s.waitsFor.Store(w.term)
	jitter := rand.New(rand.NewPCG(s.cfg.Rand.Uint64(), s.cfg.Rand.Uint64()))
	go s.runWait(w, me.Beat, jitter) // joined by stopWaiting, through ended
	s.log.Debug("waiting for the leader's witness", "term", r.number, "lock", r.lock.String)
}

// idleConn returns the connection of a wait that has ended, after releasing the lock
// that was acquired on it, or nil. It keeps a wait for the row's leader, and stops a
// wait for another one.
func (s *Strategy) idleConn(ctx context.Context, r row) *witnessConn {
	w := s.waiting
	switch {
	case w == nil:
		return nil
	case w.isFor(r) && !w.over():
		return nil
	case !w.obtained():
		s.stopWaiting() // it waits for another lock, or is broken
		return nil
	}
	s.waiting = nil
	if err := w.conn.release(ctx, w.lock); err != nil {
		w.conn.close()
		return nil
	}
	return w.conn
}

// runWait waits for the leader's lock, 12 to 16 s at a time. A half-open connection
// ahead in the queue could swallow the only wake-up; a new wait goes to the end of
// the queue. Shorter waits would cost as much as reading the row does. The times
// are whole seconds because MySQL rounds.
func (s *Strategy) runWait(w *witnessWait, beat time.Duration, jitter *rand.Rand) {
	defer s.wake.Set()
	defer close(w.ended)
	defer s.waitsFor.Store(0)
	for {
		seconds := 12 + jitter.IntN(5)
		var taken stdsql.NullInt64
		err := w.conn.query(s.ctx, time.Duration(seconds)*time.Second+beat, conclavesql.LockAwait, []any{w.lock, seconds}, &taken)
		switch {
		case err != nil:
			return // the connection is lost, and so is the evidence
		case taken.Int64 == 1:
			w.got, w.at = true, time.Now()
			return
		}
	}
}

// stopWaiting ends the wait by closing its connection, and joins runWait. The server
// removes the waiter from its queue a moment later.
func (s *Strategy) stopWaiting() {
	if w := s.waiting; w != nil {
		s.waiting = nil
		w.conn.close()
		<-w.ended
	}
}

// waitLater makes the Elector play another round soon: after a sixteenth of a beat,
// then twice that, up to half a beat. After four tries (maxRetries) the ordinary rounds
// are frequent enough.
func (s *Strategy) waitLater(me elector.Candidate) {
	if s.retries >= maxRetries {
		return
	}
	delay := me.Beat / 16 << s.retries
	delay += time.Duration(s.cfg.Rand.Int64N(int64(delay/10) + 1))
	s.retries++
	if s.retry != nil {
		s.retry.Stop()
	}
	s.retry = time.AfterFunc(delay, s.wake.Set)
}

// askLimit bounds the question at the leader's port.
const askLimit = 100 * time.Millisecond

// hasLockOfLeader reports whether this node has acquired the lock of the other node
// that leads the row's term.
func (s *Strategy) hasLockOfLeader(me elector.Candidate, r row) bool {
	another := !r.vacant() && r.owner != me.ID.String()
	return another && !s.acquired(r).IsZero()
}

// askLeader asks at the port of the leader whose lock this node has acquired,
// and reports whether the leader confirms its term (rule 4c).
func (s *Strategy) askLeader(ctx context.Context, r row) (alive, known bool) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	alive, known = s.cfg.Ask(ctx, r.address, r.number, r.lock.String)
	s.log.Info("acquired the leader's lock", "term", r.number, "leader", r.owner, "known", known, "alive", alive)
	return alive, known
}

// returnLock releases the lock of a leader that is alive and will reacquire a
// witness. The evidence ends with the connection.
func (s *Strategy) returnLock(ctx context.Context, me elector.Candidate) {
	w := s.waiting
	if w == nil {
		return // the Shared has acquired it, and releases it
	}
	s.waiting = nil
	if err := w.conn.release(ctx, w.lock); err != nil {
		s.log.Debug("release the leader's lock", "error", err)
	}
	w.conn.close()
	s.retries = 0
	s.waitLater(me)
}

// take takes a new lock as a witness of this node (rule 5), and returns its name and
// the id of the connection that holds it. It returns an empty name, and no error,
// if there can be no witness: the takeover is by lease, the server refuses named
// locks, or the format of its binary log is unknown.
func (s *Strategy) take(ctx context.Context, me elector.Candidate, c *witnessConn, nonce string) (lock string, connID stdsql.NullInt64, err error) {
	if s.shared != nil {
		return c.witness(), c.id, nil
	}
	if s.noWitness || !s.binlogChecked {
		return "", stdsql.NullInt64{}, nil
	}
	lock = lockName(nonce)
	var taken stdsql.NullInt64
	ctx, cancel := context.WithTimeout(ctx, me.Beat/2)
	defer cancel()
	err = c.pinned.QueryRow(ctx, conclavesql.LockTake, []any{lock, lock}, &taken, &connID)
	switch s.classify(err) {
	case unsupported:
		s.health.withoutWitness(fmt.Errorf("the server refuses named locks: %w", err))
		return "", stdsql.NullInt64{}, nil
	case keepsFailing:
		s.log.Warn("the server keeps failing to take a named lock: this try uses no witness", "error", err)
		return "", stdsql.NullInt64{}, nil
	case connBroken:
		c.lost.Store(true)
		return "", stdsql.NullInt64{}, err
	}
	if taken.Int64 != 1 || !connID.Valid {
		return "", stdsql.NullInt64{}, nil
	}
	return lock, connID, nil
}
