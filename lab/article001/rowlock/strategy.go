package rowlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"conclave"
	"conclave/elector"
	conclavesql "conclave/sql"
)

// Config configures a Strategy. DB and Key are required.
type Config struct {
	DB  *conclavesql.DB
	Key string // of the row: 1 to 256 printable ASCII characters
}

// Strategy elects by inserting a row under a unique key. Its methods are called by one
// goroutine.
type Strategy struct {
	key   string
	table rows

	beat  uint64          // of the held row, as this node's last statement left it
	won   elector.Term    // the held term; zero if none is held
	owner conclave.NodeID // the last owner that the row was seen to name
}

var _ elector.Strategy = (*Strategy)(nil)

// New returns a Strategy, or an error if the configuration is invalid. It does not
// connect. The table must exist when the first round is played (see Migrate).
func New(cfg Config) (*Strategy, error) {
	if cfg.DB == nil {
		return nil, errors.New("rowlock: DB is missing")
	}
	if err := validateKey(cfg.Key); err != nil {
		return nil, fmt.Errorf("rowlock: %w", err)
	}
	return &Strategy{key: cfg.Key, table: rows{cfg.DB}}, nil
}

// Round plays one round: it refreshes the leader's row; otherwise it reads the row,
// deletes it if it has expired, and inserts its own.
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
		return s.insert(ctx, me, r, s.causeOf(me, last))
	case vacant:
		return noLeader(me), nil
	case mine && me.Observer:
		// A row that names an observer is not a leadership: give it up.
		return noLeader(me), s.table.remove(ctx, r.id, r.owner)
	case me.Observer:
		return r.termFor(me), nil
	case mine && (r.id >= me.Highest || last.Leader == me.ID || observed >= r.lease):
		// Inserted by a statement whose answer was lost, or left: this term is never
		// led. No other node can lead it, so this node may win the next term at once.
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

// insert tries to win. The id must be above every term that was seen; if the table's
// counter was set back, insert chooses the id.
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
	case id <= me.Highest: // also zero: another node was faster
		return s.lost(ctx, me)
	}
	s.beat = 0
	s.won = elector.Term{Number: id, Leader: me.ID, Address: me.Address, Lease: me.Lease, Cause: cause, Previous: s.owner}
	if previous, err := conclave.ParseNodeID(before.owner); err == nil && !previous.IsZero() {
		s.won.Previous = previous
	}
	return s.won, nil
}

// causeOf returns why there is no row, as far as this node can know: no node has led
// before, the last leader's lease had expired and another node deleted its row, or the
// leader resigned.
func (s *Strategy) causeOf(me elector.Candidate, last elector.Term) elector.Cause {
	switch {
	case me.Highest == 0 && s.owner.IsZero():
		return elector.CauseFirst
	case !last.Leader.IsZero() && last.Leader != me.ID && time.Since(last.Seen) >= last.Lease:
		return elector.CauseExpired
	}
	return elector.CauseResigned
}

// look reads the row and remembers its owner. It returns ErrNoRows if there is none.
func (s *Strategy) look(ctx context.Context) (row, error) {
	r, err := s.table.look(ctx, s.key)
	if owner, bad := conclave.ParseNodeID(r.owner); err == nil && bad == nil && !owner.IsZero() {
		s.owner = owner
	}
	return r, err
}

// lost returns the winner's term.
func (s *Strategy) lost(ctx context.Context, me elector.Candidate) (elector.Term, error) {
	now, err := s.look(ctx)
	if errors.Is(err, conclavesql.ErrNoRows) {
		return noLeader(me), nil
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
	beat, held, err := s.table.renew(ctx, s.key, me.Holding, me.ID.String(), s.beat)
	s.beat = beat
	switch {
	case err != nil:
		return elector.Term{}, err
	case !held:
		return s.lost(ctx, me)
	}
	term := s.won
	term.Beat = beat
	return term, nil
}

// Resign deletes the row, so that the next round of any candidate can win at once. The
// statement names id and owner, so it can be repeated safely, which Resign does once
// after an error.
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

// noLeader returns the term if there is no row: the highest one seen, without a leader.
func noLeader(me elector.Candidate) elector.Term {
	return elector.Term{Number: me.Highest, Lease: me.Lease}
}

// termFor returns the row as an Elector sees it. If the row names the reader, the term
// has no Leader: a node knows what it leads from its own statements only.
func (r row) termFor(me elector.Candidate) elector.Term {
	t := elector.Term{Number: r.id, Beat: r.beat, Lease: r.lease, Age: r.age}
	if owner, err := conclave.ParseNodeID(r.owner); err == nil && owner != me.ID {
		t.Leader, t.Address = owner, r.address
	}
	return t
}
