package termcas

import (
	"context"
	stdsql "database/sql"
	"math/rand/v2"
	"time"

	"conclave/elector"
	conclavesql "conclave/sql"
)

// watch is a follower's evidence and its wait (rule 3): on this line, in this life
// of this server, the leader was seen to hold its lock. Whoever then obtains the
// lock on the same line knows that the leader's connection is gone.
type watch struct {
	line *line
	term uint64
	lock string

	ended chan struct{} // closed by the waiter at its end; then the rest may be read
	got   bool          // the lock is ours
	at    time.Time     // since when
}

// over says that the waiter has ended: the line is free for other statements.
func (w *watch) over() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

// obtained says that the wait ended with the lock in our hands.
func (w *watch) obtained() bool { return w.over() && w.got && !w.line.lost.Load() }

// stands says that the watch is for the leader that the row names.
func (w *watch) stands(r row) bool {
	return w.term == r.number && r.lock.Valid && w.lock == r.lock.String
}

// standBy parks by the lock of the leader that the row names (rule 3). It never
// fails: without a witness there is the lease.
func (s *Strategy) standBy(ctx context.Context, me elector.Candidate, r row) {
	if s.plain || !r.lock.Valid || !r.conn.Valid || r.owner == "" {
		s.unpark()
		return
	}
	l := s.idleLine(ctx, r)
	if l == nil && s.watch != nil {
		return // parked already
	}
	if l == nil {
		opened, err := s.open(ctx, me)
		if err != nil {
			s.log.Debug("no connection to park on", "error", err)
			s.parkLater(me)
			return
		}
		l = opened
	}
	// The evidence. It is asked for on the very line that will wait.
	var holder stdsql.NullInt64
	if err := l.query(ctx, me.Beat/2, conclavesql.LockUsed, []any{r.lock.String}, &holder); err != nil || holder != r.conn {
		// Not held, or on another server: to wait for it would prove nothing.
		l.close()
		s.parkLater(me)
		return
	}
	s.retries = 0
	w := &watch{line: l, term: r.number, lock: r.lock.String, ended: make(chan struct{})}
	s.watch = w
	s.parked.Store(w.term)
	jitter := rand.New(rand.NewPCG(s.cfg.Rand.Uint64(), s.cfg.Rand.Uint64()))
	go s.wait(w, me.Beat, jitter) // joined by unpark, through ended
	s.log.Debug("parked", "term", r.number, "lock", r.lock.String)
}

// idleLine returns the line of a watch that is over, with its lock given back, or
// nil. A watch for another leader is dropped; a good one stays.
func (s *Strategy) idleLine(ctx context.Context, r row) *line {
	w := s.watch
	switch {
	case w == nil:
		return nil
	case w.stands(r) && !w.over():
		return nil
	case !w.obtained():
		s.unpark() // waits for the wrong lock, or is broken
		return nil
	}
	s.watch = nil
	if err := w.line.release(ctx, w.lock); err != nil {
		w.line.close()
		return nil
	}
	return w.line
}

// wait waits for the leader's lock, 12 to 16 s at a time: a half-open connection in
// front of us in the queue could swallow the only wake-up, and re-arming goes to
// the end of the queue. More often would cost as much as reading the row does. Whole
// seconds: MySQL rounds.
func (s *Strategy) wait(w *watch, beat time.Duration, jitter *rand.Rand) {
	defer s.nudge()
	defer close(w.ended)
	defer s.parked.Store(0)
	for {
		seconds := 12 + jitter.IntN(5)
		var taken stdsql.NullInt64
		err := w.line.query(s.ctx, time.Duration(seconds)*time.Second+beat, conclavesql.LockAwait, []any{w.lock, seconds}, &taken)
		switch {
		case err != nil:
			return // the line is lost: so is the evidence
		case taken.Int64 == 1:
			w.got, w.at = true, time.Now()
			return
		}
	}
}

// unpark abandons the wait by closing its connection (the ghost leaves the
// server's queue a moment later) and joins the waiter.
func (s *Strategy) unpark() {
	if w := s.watch; w != nil {
		s.watch = nil
		w.line.close()
		<-w.ended
	}
}

// parkLater plays another round soon: a sixteenth of a beat, then twice that, up
// to half a beat; after that the ordinary rounds are often enough.
func (s *Strategy) parkLater(me elector.Candidate) {
	if s.retries >= 4 {
		return
	}
	delay := me.Beat / 16 << s.retries
	delay += time.Duration(s.cfg.Rand.Int64N(int64(delay/10) + 1))
	s.retries++
	if s.retry != nil {
		s.retry.Stop()
	}
	s.retry = time.AfterFunc(delay, s.nudge)
}

// proven asks whether the leader is dead whose lock we hold (rule 4c).
func (s *Strategy) proven(ctx context.Context, me elector.Candidate, r row) bool {
	w := s.watch
	if w == nil || !w.stands(r) || !w.obtained() {
		return false
	}
	ask, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	alive, answered := s.cfg.Ask(ask, r.address, r.number, w.lock)
	s.log.Info("the leader's lock is ours", "term", r.number, "leader", r.owner, "answered", answered, "alive", alive)
	if !alive {
		return true
	}
	// It lives and will park anew. Give its lock back, and the evidence up.
	s.watch = nil
	if err := w.line.release(ctx, w.lock); err != nil {
		s.log.Debug("release the leader's lock", "error", err)
	}
	w.line.close()
	s.retries = 0
	s.parkLater(me)
	return false
}

// take takes a fresh lock for a witness of our own (rule 5): its name, and the
// connection that holds it. Not taken is a result: then there is no witness. Nor is
// there one on a server of whose binary log nothing is known.
func (s *Strategy) take(ctx context.Context, me elector.Candidate, l *line, nonce string) (lock string, conn stdsql.NullInt64, err error) {
	if s.plain || !s.checked {
		return "", stdsql.NullInt64{}, nil
	}
	lock = lockName(nonce)
	var taken stdsql.NullInt64
	ctx, cancel := context.WithTimeout(ctx, me.Beat/2)
	defer cancel()
	err = l.conn.QueryRow(ctx, conclavesql.LockTake, []any{lock, lock}, &taken, &conn)
	switch s.judge(err) {
	case meant:
		s.plain = true
		s.log.Warn("the server refuses named locks: elections go by the lease only, without a witness", "error", err)
		return "", stdsql.NullInt64{}, nil
	case stubborn:
		s.log.Warn("the server answers a named lock with an error again: this try goes without a witness", "error", err)
		return "", stdsql.NullInt64{}, nil
	case broken:
		l.lost.Store(true)
		return "", stdsql.NullInt64{}, err
	}
	if taken.Int64 != 1 || !conn.Valid {
		return "", stdsql.NullInt64{}, nil
	}
	return lock, conn, nil
}

// lockName is the name of a witness; nobody knows the nonce before it is published.
func lockName(nonce string) string { return "cv:" + nonce }

// release gives a named lock back.
func (l *line) release(ctx context.Context, lock string) error {
	var released stdsql.NullInt64
	return l.query(ctx, releaseLimit, conclavesql.LockRelease, []any{lock}, &released)
}

// releaseLimit bounds the release of a lock; closing the connection does it, too.
const releaseLimit = 500 * time.Millisecond
