package termcas

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/elector"
	"conclave/internal/trace"
	conclavesql "conclave/sql"
)

// Sofa elects with the statements of article 000, on the same row as Strategy does, so
// that the two can be measured side by side: whole seconds, no witness, no nonce, no
// resignation. The loop around it is the Elector's, whose trust is its own clock's; the
// original compares the database's time with its own.
//
// What is not as with Strategy:
//
//   - A lease of 20 s is over after 21 s, or up to 22.
//   - A killed leader is followed after that, and so is one that resigned or quit:
//     nothing is given back.
//   - In the last second of its lease a leader can not renew, and nobody can win.
//   - A win whose answer was lost is waited for like anybody's lease: nothing tells
//     the winner.
//   - The term is the row's plus one: behind a restored backup, numbers are given out
//     twice. The Elector leads none that it has left.
type Sofa struct {
	cfg     Config
	log     hclog.Logger
	history *conclavesql.History

	beat     uint64       // of the held term, as our last statement left it
	won      elector.Term // the held term; zero when none is
	vacant   time.Time    // the last valid moment of the leader before, by our clock
	measured bool         // won.Leaderless is known
}

var (
	_ elector.Strategy = (*Sofa)(nil)
	_ elector.Recorder = (*Sofa)(nil)
)

// NewSofa checks the configuration; it connects to nothing. Takeover, Ask and Rand are
// not used.
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
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	return &Sofa{cfg: cfg, log: cfg.Logger, history: conclavesql.NewHistory(cfg.DB, cfg.Lock)}, nil
}

// Round is the article's: an observer reads; the leader beats; else read, create if
// absent, judge by the database's time, and compete.
func (s *Sofa) Round(ctx context.Context, me elector.Candidate, _ elector.Term) (elector.Term, error) {
	if me.Holding != 0 {
		return s.renew(ctx, me)
	}
	s.won = elector.Term{}
	r, err := s.look(ctx)
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

// look reads the row, with an age of whole seconds; ErrNoRows when there is none.
func (s *Sofa) look(ctx context.Context) (row, error) {
	r := row{at: time.Now()}
	var leaseMs, ageS int64
	s.cfg.Trace.Claim(trace.Claim{Kind: trace.Looking})
	err := s.cfg.DB.QueryRow(ctx, conclavesql.SofaLook, []any{s.cfg.Lock.DataCenter, s.cfg.Lock.Name},
		&r.owner, &r.address, &r.number, &r.beat, &leaseMs, &ageS)
	owner, _ := conclave.ParseNodeID(r.owner) // what cannot be read is nobody
	s.cfg.Trace.Claim(trace.Claim{Kind: trace.Looked, Peer: owner, Term: r.number, Beat: r.beat, Err: err})
	if err != nil {
		return row{}, fmt.Errorf("look at lock %s: %w", s.cfg.Lock, err)
	}
	r.lease = time.Duration(leaseMs) * time.Millisecond
	r.age = time.Duration(ageS) * time.Second
	return r, nil
}

// swap competes. Without an answer the outcome is unknown: if it was a win, its lease is
// waited for.
func (s *Sofa) swap(ctx context.Context, me elector.Candidate, r row, cause elector.Cause, statement string, args ...any) (elector.Term, error) {
	g := vacant
	if cause == elector.CauseExpired {
		g = expired
	}
	n, err := s.cfg.traced(trace.Swapping, trace.Swapped, r.expects(elector.Candidate{ID: me.ID}, g), func() (int64, error) {
		return s.cfg.DB.Exec(ctx, statement, args...)
	})
	switch {
	case err != nil:
		return elector.Term{}, fmt.Errorf("outcome of term %d is unknown: %w", r.number+1, err)
	case n == 0:
		now, err := s.look(ctx)
		if err != nil {
			return elector.Term{}, err
		}
		return now.term(me), nil
	}
	s.beat, s.measured, s.vacant = 0, false, time.Time{}
	s.won = elector.Term{Number: r.number + 1, Leader: me.ID, Address: me.Address, Lease: me.Lease, Cause: cause}
	s.won.Previous, _ = conclave.ParseNodeID(r.owner) // what cannot be read is nobody
	if cause == elector.CauseExpired {
		s.vacant = r.at.Add(-(r.age - r.lease))
	}
	return s.won, nil
}

// renew is the heartbeat. What it does not match is looked at: a beat of mine whose
// answer was lost; a lease that is over and not yet another's (the article's leader is
// a follower from there on); another leader.
func (s *Sofa) renew(ctx context.Context, me elector.Candidate) (elector.Term, error) {
	if s.won.Number != me.Holding {
		return elector.Term{}, fmt.Errorf("asked to renew term %d, which is not held here", me.Holding)
	}
	for range 3 {
		n, err := s.cfg.traced(trace.Renewing, trace.Renewed, trace.Claim{Term: me.Holding, Beat: s.beat, Peer: me.ID}, func() (int64, error) {
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
		now, err := s.look(ctx)
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
	return elector.Term{}, fmt.Errorf("beat in term %d: it moves faster than it is followed", me.Holding)
}

// Resign gives nothing back: the original has no such statement, and its others wait
// for the lease.
func (s *Sofa) Resign(context.Context, elector.Term) error {
	s.won = elector.Term{}
	return nil
}

// ForceRefresh is the operator's tool of the article: owner and duration are set, and
// nothing is asked. Its effects are the operator's.
func (s *Sofa) ForceRefresh(ctx context.Context, owner conclave.NodeID, lease time.Duration) error {
	if _, err := s.cfg.DB.Exec(ctx, conclavesql.SofaRefresh, owner.String(), lease.Milliseconds(), s.cfg.Lock.DataCenter, s.cfg.Lock.Name); err != nil {
		return fmt.Errorf("force %s onto %s: %w", s.cfg.Lock, owner, err)
	}
	return nil
}

// Record writes the election into the history. The original keeps none; it is what the
// two are compared by.
func (s *Sofa) Record(ctx context.Context, won elector.Term) (elector.Term, error) {
	if s.won.Number != won.Number {
		return won, nil
	}
	if !s.measured && !s.vacant.IsZero() {
		s.won.Leaderless = max(0, time.Since(s.vacant))
	}
	s.measured = true
	won.Leaderless, won.Previous = s.won.Leaderless, s.won.Previous
	_, err := s.history.Record(ctx, conclavesql.Election{
		Term: won.Number, Owner: won.Leader.String(), Previous: won.Previous.String(),
		Cause: string(s.won.Cause), Leaderless: won.Leaderless,
	})
	return won, err
}
