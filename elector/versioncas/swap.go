package versioncas

import (
	"context"
	"errors"
	"fmt"

	"conclave"
	"conclave/elector"
	conclavesql "conclave/sql"
)

// ground is why a candidate may compete (rules 2 and 3).
type ground int

const (
	none    ground = iota
	vacant         // nobody owns the row
	own            // the row names me, and I do not lead
	expired        // observed for a lease, and the database agrees
	overdue        // observed for three leases, whatever the database's clock says
)

// entitled judges whether this node may compete, and why.
func entitled(me elector.Candidate, r row, last elector.Term) ground {
	seen := r.termFor(me)
	observed := seen.ObservedFor(last)
	behind := r.version < me.Highest // the row was set back: somebody may lead a higher term
	switch {
	case r.owner == me.ID.String() && (!behind || last.Leader == me.ID || observed >= seen.Lease):
		return own
	case r.owner == "" && (!behind || observed >= seen.Lease):
		return vacant
	case r.owner == me.ID.String() || r.owner == "":
		return none
	case observed >= seen.Lease && r.age >= seen.Lease:
		return expired
	case observed >= 3*seen.Lease:
		return overdue
	}
	return none
}

// compete swaps the version. Losing is a result; without an answer the outcome is
// unknown, and the next round finds out.
func (s *Strategy) compete(ctx context.Context, me elector.Candidate, r row, g ground) (elector.Term, error) {
	statement := conclavesql.VersionWin
	if g == expired {
		statement = conclavesql.VersionWinExpired
	}
	number := max(r.version, me.Highest) + 1
	n, err := s.cfg.DB.Exec(ctx, statement, me.Highest, me.Highest, me.ID.String(), me.Address, me.Lease.Milliseconds(), s.cfg.Key, r.version)
	switch {
	case err != nil:
		return elector.Term{}, fmt.Errorf("outcome of term %d is unknown: %w", number, err)
	case n == 1:
		s.version = number
		s.won = elector.Term{Number: number, Leader: me.ID, Address: me.Address, Lease: me.Lease}
		s.won.Cause, s.won.Previous = s.cause(me, r, g)
		return s.won, nil
	}
	now, err := s.look(ctx)
	if err != nil {
		return elector.Term{}, err
	}
	return now.termFor(me), nil
}

// cause says why there was an election, and who led before.
func (s *Strategy) cause(me elector.Candidate, r row, g ground) (elector.Cause, conclave.NodeID) {
	previous, _ := conclave.ParseNodeID(r.owner) // what cannot be read is nobody
	if g == vacant {
		previous = s.owner // resigning has emptied the row
	}
	switch {
	case me.Highest > r.version:
		return elector.CauseRestored, previous
	case r.version == 0:
		return elector.CauseFirst, previous
	case g == vacant:
		return elector.CauseResigned, previous
	}
	return elector.CauseExpired, previous
}

// renew is the leader's beat. It names the version as its last statement left it; if
// that matches nothing, a tick whose answer was lost may have raised it: only this
// process writes rows that name it.
func (s *Strategy) renew(ctx context.Context, me elector.Candidate) (elector.Term, error) {
	if s.won.Number != me.Holding {
		return elector.Term{}, fmt.Errorf("asked to renew term %d, which is not held here", me.Holding)
	}
	for range 3 {
		n, err := s.cfg.DB.Exec(ctx, conclavesql.VersionRenew, s.cfg.Key, s.version, me.ID.String(), me.Holding)
		switch {
		case err != nil:
			return elector.Term{}, fmt.Errorf("renew term %d: %w", me.Holding, err)
		case n == 1:
			s.version++
			term := s.won
			term.Beat = s.version - term.Number
			return term, nil
		}
		now, err := s.look(ctx)
		switch {
		case errors.Is(err, conclavesql.ErrNoRows):
			return elector.Term{Lease: me.Lease}, nil
		case err != nil:
			return elector.Term{}, err
		case now.owner != me.ID.String() || now.term != me.Holding:
			return now.termFor(me), nil // deposed
		case now.version == s.version: // the row is as it was: somebody edits it by hand
			return elector.Term{}, fmt.Errorf("renew term %d: version %d is there and was not changed", me.Holding, s.version)
		}
		s.version = now.version
	}
	return elector.Term{}, fmt.Errorf("renew term %d: the version moves faster than it is followed", me.Holding)
}
