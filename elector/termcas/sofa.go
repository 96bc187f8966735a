package termcas

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"conclave"
	"conclave/elector"
	conclavesql "conclave/sql"
)

// Sofa elects with the statements of article 000, on the same row as Strategy, so
// that the two can be compared: whole seconds, no witness, no nonce, no resignation.
// The loop around it is the Elector's, whose trust uses the leader's own clock; the
// original compares the database's time with its own. Its loop is package sofaloop.
//
// Differences from Strategy:
//
//   - A lease of 20 s has expired after 21 to 22 s.
//   - A killed leader is replaced only after that, and so is one that resigned or
//     quit: there is no statement that gives up the term.
//   - In the last second of its lease a leader cannot renew, and no node can win.
//   - If the answer to a win is lost, the winner does not learn of it; all nodes
//     wait for the lease.
//   - The new term is the row's plus one. After a backup is restored, numbers are
//     used twice; the Elector does not lead one that it has left.
type Sofa struct {
	cfg     Config
	log     *slog.Logger
	history *conclavesql.History

	beat     uint64       // of the held term, as this node's last statement left it
	won      elector.Term // the held term; zero if none is held
	vacant   time.Time    // the end of the previous leader's lease, by this node's clock
	measured bool         // won.Leaderless is known
}

var (
	_ elector.Strategy = (*Sofa)(nil)
	_ elector.Recorder = (*Sofa)(nil)
)

// NewSofa returns a Sofa, or an error if the configuration is invalid. It does not
// connect. Takeover must not be Witness; Ask and Rand are not used.
func NewSofa(cfg Config) (*Sofa, error) {
	if cfg.DB == nil {
		return nil, errors.New("termcas: DB is missing")
	}
	if err := cfg.Lock.Validate(); err != nil {
		return nil, fmt.Errorf("termcas: %w", err)
	}
	if cfg.Takeover == Witness {
		return nil, errors.New("termcas: the original's statements have no witness")
	}
	cfg = cfg.quiet()
	return &Sofa{cfg: cfg, log: cfg.Logger, history: conclavesql.NewHistory(cfg.DB, cfg.Lock)}, nil
}

// Round is the article's doElect: an observer reads; the leader beats
// (onLeaderWorking, ownerHeartbeat); a follower reads (queryDistLock), creates the
// row if it is missing (competeLockOnInsert), checks the lease by the database's
// time, and competes (onFollowWorking, competeLockOnUpdate).
func (s *Sofa) Round(ctx context.Context, me elector.Candidate, _ elector.Term) (elector.Term, error) {
	if me.Holding != 0 {
		return s.renew(ctx, me)
	}
	s.won = elector.Term{}
	r, err := s.read(ctx)
	absent := errors.Is(err, conclavesql.ErrNoRows)
	switch {
	case err != nil && !absent:
		return elector.Term{}, err
	case absent && me.Observer:
		return elector.Term{Number: me.Highest, Lease: me.Lease}, nil
	case me.Observer:
		return r.term(me), nil
	case absent:
		return s.swap(ctx, me, r, elector.CauseFirst, conclavesql.SofaInsert,
			s.cfg.Lock.DataCenter, s.cfg.Lock.Name, me.ID.String(), me.Address, me.Lease.Milliseconds())
	case r.number == 0 && r.owner == "":
		return s.swap(ctx, me, r, elector.CauseFirst, conclavesql.SofaFirst,
			me.ID.String(), me.Address, me.Lease.Milliseconds(), s.cfg.Lock.DataCenter, s.cfg.Lock.Name)
	case r.age > r.lease:
		return s.swap(ctx, me, r, elector.CauseExpired, conclavesql.SofaWin,
			me.ID.String(), me.Address, me.Lease.Milliseconds(), s.cfg.Lock.DataCenter, s.cfg.Lock.Name, r.owner, r.number, r.beat)
	}
	return r.term(me), nil
}

// read reads the row, with its age in whole seconds.
func (s *Sofa) read(ctx context.Context) (row, error) {
	return s.cfg.read(ctx, conclavesql.SofaLook, time.Second)
}

// swap executes a statement that competes. Without an answer the outcome is unknown:
// if it was a win, all nodes wait for its lease.
func (s *Sofa) swap(ctx context.Context, me elector.Candidate, r row, cause elector.Cause, statement string, args ...any) (elector.Term, error) {
	why := reasonVacant
	if cause == elector.CauseExpired {
		why = reasonExpired
	}
	n, err := s.cfg.traced(elector.EventSwapping, elector.EventSwapped, r.expects(elector.Candidate{ID: me.ID}, why), func() (int64, error) {
		return s.cfg.DB.Exec(ctx, statement, args...)
	})
	switch {
	case err != nil:
		return elector.Term{}, fmt.Errorf("outcome of term %d is unknown: %w", r.number+1, err)
	case n == 0:
		now, err := s.read(ctx)
		if err != nil {
			return elector.Term{}, err
		}
		return now.term(me), nil
	}
	s.beat, s.measured, s.vacant = 0, false, time.Time{}
	s.won = elector.Term{Number: r.number + 1, Leader: me.ID, Address: me.Address, Lease: me.Lease, Cause: cause, Previous: r.leader()}
	if cause == elector.CauseExpired {
		s.vacant = r.at.Add(-(r.age - r.lease))
	}
	return s.won, nil
}

// renew is the heartbeat. If it matches no row, it reads the row: either an earlier
// beat of this node was executed without an answer, and renew continues from it; or
// the lease has expired (the article's leader is a follower from then on); or there
// is another leader.
func (s *Sofa) renew(ctx context.Context, me elector.Candidate) (elector.Term, error) {
	if s.won.Number != me.Holding {
		return elector.Term{}, fmt.Errorf("asked to renew term %d, which is not held here", me.Holding)
	}
	for range 3 {
		n, err := s.cfg.traced(elector.EventRenewing, elector.EventRenewed, elector.Event{Term: me.Holding, Beat: s.beat, Owner: me.ID}, func() (int64, error) {
			return s.cfg.DB.Exec(ctx, conclavesql.SofaBeat, s.cfg.Lock.DataCenter, s.cfg.Lock.Name, me.ID.String(), me.Holding, s.beat)
		})
		switch {
		case err != nil:
			return elector.Term{}, fmt.Errorf("beat in term %d: %w", me.Holding, err)
		case n == 1:
			s.beat++
			term := s.won
			term.Beat = s.beat
			return term, nil
		}
		now, err := s.read(ctx)
		switch {
		case errors.Is(err, conclavesql.ErrNoRows):
			return elector.Term{Lease: me.Lease}, nil
		case err != nil:
			return elector.Term{}, err
		case now.owner != me.ID.String() || now.number != me.Holding || now.beat == s.beat:
			return now.term(me), nil
		}
		s.beat = now.beat
	}
	return elector.Term{}, fmt.Errorf("beat in term %d: the row's beat changed three times in a row", me.Holding)
}

// Resign only forgets the term: the original has no such statement, and its other
// nodes wait for the lease.
func (s *Sofa) Resign(context.Context, elector.Term) error {
	s.won = elector.Term{}
	return nil
}

// ForceRefresh is the operator's tool of the article (forceRefresh): it sets owner
// and duration unconditionally, and the term stays. The owner does not lead it,
// because the Elector leads only what it has won. It may be called from any
// goroutine.
func (s *Sofa) ForceRefresh(ctx context.Context, owner conclave.NodeID, lease time.Duration) error {
	if _, err := s.cfg.DB.Exec(ctx, conclavesql.SofaRefresh, owner.String(), lease.Milliseconds(), s.cfg.Lock.DataCenter, s.cfg.Lock.Name); err != nil {
		return fmt.Errorf("force %s onto %s: %w", s.cfg.Lock, owner, err)
	}
	return nil
}

// Record writes the election into the history, so that the two can be compared. The
// original keeps none.
func (s *Sofa) Record(ctx context.Context, won elector.Term) (elector.Term, error) {
	if s.won.Number != won.Number {
		return won, nil
	}
	if !s.measured && !s.vacant.IsZero() {
		s.won.Leaderless = max(0, time.Since(s.vacant))
	}
	s.measured = true
	won.Leaderless, won.Previous = s.won.Leaderless, s.won.Previous
	return won, record(ctx, s.history, won, s.won.Cause)
}
