package rowlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/elector"
	conclavesql "conclave/sql"
)

// Config is what a Strategy needs.
type Config struct {
	DB  *conclavesql.DB
	Key string // of the row: 1 to 256 printable ASCII characters

	Logger hclog.Logger // nil drops everything
}

// Strategy elects by inserting a row under a unique key. Its methods are called by one
// goroutine.
type Strategy struct {
	key   string
	table rows
	log   hclog.Logger

	beat  uint64          // of the held row, as our last statement left it
	won   elector.Term    // the held term; zero when none is
	owner conclave.NodeID // the last owner that the row was seen to name
}

var _ elector.Strategy = (*Strategy)(nil)

// New checks the configuration; it connects to nothing. The table must be there when
// the first round is played: Migrate.
func New(cfg Config) (*Strategy, error) {
	if cfg.DB == nil {
		return nil, errors.New("rowlock: DB is missing")
	}
	if err := validateKey(cfg.Key); err != nil {
		return nil, fmt.Errorf("rowlock: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	return &Strategy{key: cfg.Key, table: rows{cfg.DB}, log: cfg.Logger}, nil
}

// Round plays once: refresh, or look, clean what is over, and insert.
func (s *Strategy) Round(ctx context.Context, me elector.Candidate, last elector.Term) (elector.Term, error) {
	if me.Holding != 0 {
		return s.renew(ctx, me)
	}
	s.won = elector.Term{}
	r, err := s.look(ctx)
	vacant := errors.Is(err, conclavesql.ErrNoRows)
	if err != nil && !vacant {
		return elector.Term{}, err
	}
	mine := r.owner == me.ID.String()
	observed := r.termFor(me).ObservedFor(last)
	overdue := observed >= 3*r.lease
	switch {
	case vacant && !me.Observer:
		return s.insert(ctx, me, r, s.reasonOf(me, last))
	case vacant:
		return nobody(me), nil
	case mine && me.Observer:
		// A row that names an observer names nobody who leads: it is given back.
		return nobody(me), s.table.remove(ctx, r.id, r.owner)
	case me.Observer:
		return r.termFor(me), nil
	case mine && (r.id >= me.Highest || last.Leader == me.ID || observed >= r.lease):
		// Inserted by a statement whose answer was lost, or left: never led. Nobody else
		// can be leading it, so the next term is to be had at once.
		if err := s.table.remove(ctx, r.id, r.owner); err != nil {
			return elector.Term{}, err
		}
		return s.insert(ctx, me, r, elector.CauseExpired)
	case !mine && (observed >= r.lease && r.age >= r.lease || overdue):
		cleaned, err := s.table.clean(ctx, r, overdue)
		if err != nil {
			return elector.Term{}, err
		}
		if cleaned {
			return s.insert(ctx, me, r, elector.CauseExpired)
		}
		return s.lost(ctx, me)
	}
	return r.termFor(me), nil
}

// insert tries to win. The id must be above every term that was seen: where the
// table's counter has been set back it is given by us.
func (s *Strategy) insert(ctx context.Context, me elector.Candidate, before row, cause elector.Cause) (elector.Term, error) {
	owner := me.ID.String()
	id, err := s.table.acquire(ctx, 0, s.key, owner, me.Address, me.Lease)
	if err == nil && id != 0 && id <= me.Highest {
		if err := s.table.remove(ctx, id, owner); err != nil {
			return elector.Term{}, err
		}
		cause = elector.CauseRestored
		id, err = s.table.acquire(ctx, me.Highest+1, s.key, owner, me.Address, me.Lease)
	}
	switch {
	case err != nil:
		return elector.Term{}, fmt.Errorf("outcome of an election is unknown: %w", err)
	case id <= me.Highest: // zero, too: somebody was quicker
		return s.lost(ctx, me)
	}
	s.beat = 0
	s.won = elector.Term{Number: id, Leader: me.ID, Address: me.Address, Lease: me.Lease, Cause: cause, Previous: s.owner}
	if previous, err := conclave.ParseNodeID(before.owner); err == nil && !previous.IsZero() {
		s.won.Previous = previous
	}
	return s.won, nil
}

// reasonOf says why there is no row: nobody ever led, the lease of who did was over
// (somebody else has cleaned), or he resigned. As far as this node can know.
func (s *Strategy) reasonOf(me elector.Candidate, last elector.Term) elector.Cause {
	switch {
	case me.Highest == 0 && s.owner.IsZero():
		return elector.CauseFirst
	case !last.Leader.IsZero() && last.Leader != me.ID && time.Since(last.Seen) >= last.Lease:
		return elector.CauseExpired
	}
	return elector.CauseResigned
}

// look reads the row, and remembers whom it names; ErrNoRows when there is none.
func (s *Strategy) look(ctx context.Context) (row, error) {
	r, err := s.table.look(ctx, s.key)
	if owner, bad := conclave.ParseNodeID(r.owner); err == nil && bad == nil && !owner.IsZero() {
		s.owner = owner
	}
	return r, err
}

// lost reads who has won.
func (s *Strategy) lost(ctx context.Context, me elector.Candidate) (elector.Term, error) {
	now, err := s.look(ctx)
	if errors.Is(err, conclavesql.ErrNoRows) {
		return nobody(me), nil
	}
	if err != nil {
		return elector.Term{}, err
	}
	return now.termFor(me), nil
}

// renew is the leader's beat.
func (s *Strategy) renew(ctx context.Context, me elector.Candidate) (elector.Term, error) {
	if s.won.Number != me.Holding {
		return elector.Term{}, fmt.Errorf("asked to renew term %d, which is not held here", me.Holding)
	}
	beat, there, err := s.table.hold(ctx, s.key, me.Holding, me.ID.String(), s.beat)
	s.beat = beat
	switch {
	case err != nil:
		return elector.Term{}, err
	case !there:
		return s.lost(ctx, me)
	}
	term := s.won
	term.Beat = beat
	return term, nil
}

// Resign deletes the row, so that anyone's next round can win at once. The statement
// names id and owner, so it may be said twice: when its answer is lost it is.
func (s *Strategy) Resign(ctx context.Context, held elector.Term) error {
	s.won, s.owner = elector.Term{}, held.Leader
	err := s.table.remove(ctx, held.Number, held.Leader.String())
	if err != nil {
		err = s.table.remove(ctx, held.Number, held.Leader.String())
	}
	if err != nil {
		return fmt.Errorf("resign term %d: %w", held.Number, err)
	}
	return nil
}

// nobody is the term when there is no row: the last one known, without a leader.
func nobody(me elector.Candidate) elector.Term {
	return elector.Term{Number: me.Highest, Lease: me.Lease}
}

// termFor is the row as an Elector sees it. A row that names the reader names nobody
// who leads: what this node leads it knows from its own statements.
func (r row) termFor(me elector.Candidate) elector.Term {
	t := elector.Term{Number: r.id, Beat: r.beat, Lease: r.lease, Age: r.age}
	if owner, err := conclave.ParseNodeID(r.owner); err == nil && owner != me.ID {
		t.Leader, t.Address = owner, r.address
	}
	return t
}
