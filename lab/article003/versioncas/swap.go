package versioncas

import (
	"context"
	"errors"
	"fmt"

	"conclave"
	"conclave/elector"
	conclavesql "conclave/sql"
)

// reason is why a candidate may compete (rules 2 and 3).
type reason int

const (
	reasonNone    reason = iota // it may not
	reasonVacant                // the row has no owner
	reasonOwnName               // the row names this node, which does not lead
	reasonExpired               // observed for a lease, and the database agrees
	reasonOverdue               // observed for three leases, whatever the database's clock says
)

// mayCompete returns the reason for which this node may compete.
func mayCompete(me elector.Candidate, r row, last elector.Term) reason {
	seen := r.termFor(me)
	observed := seen.ObservedFor(last)
	behind := r.version < me.Highest // the row was set back: another node may lead a higher term
	switch {
	case r.owner == me.ID.String() && (!behind || last.Leader == me.ID || observed >= seen.Lease):
		return reasonOwnName
	case r.owner == "" && (!behind || observed >= seen.Lease):
		return reasonVacant
	case r.owner == me.ID.String() || r.owner == "":
		return reasonNone
	case observed >= seen.Lease && r.age >= seen.Lease:
		return reasonExpired
	case observed >= 3*seen.Lease:
		return reasonOverdue
	}
	return reasonNone
}

// compete swaps the version. If it loses, it returns the winner's term. Without an
// answer it returns an error, and the next round reads the outcome.
func (s *Strategy) compete(ctx context.Context, me elector.Candidate, r row, why reason) (elector.Term, error) {
	win := statement("win")
	if why == reasonExpired {
		win = statement("win_expired")
	}
	number := max(r.version, me.Highest) + 1
	n, err := s.cfg.DB.Exec(ctx, win, me.Highest, me.Highest, me.ID.String(), me.Address, me.Lease.Milliseconds(), s.cfg.Key, r.version)
	switch {
	case err != nil:
		return elector.Term{}, fmt.Errorf("outcome of term %d is unknown: %w", number, err)
	case n == 1:
		s.version = number
		s.won = elector.Term{Number: number, Leader: me.ID, Address: me.Address, Lease: me.Lease}
		s.won.Cause, s.won.Previous = s.cause(me, r, why)
		return s.won, nil
	}
	now, err := s.look(ctx)
	if err != nil {
		return elector.Term{}, err
	}
	return now.termFor(me), nil
}

// cause returns why the election was held, and the leader before.
func (s *Strategy) cause(me elector.Candidate, r row, why reason) (elector.Cause, conclave.NodeID) {
	previous, _ := conclave.ParseNodeID(r.owner) // an invalid owner counts as none
	if why == reasonVacant {
		previous = s.owner // the resignation has emptied the row
	}
	switch {
	case me.Highest > r.version:
		return elector.CauseRestored, previous
	case r.version == 0:
		return elector.CauseFirst, previous
	case why == reasonVacant:
		return elector.CauseResigned, previous
	}
	return elector.CauseExpired, previous
}

// renew is the leader's beat. It names the version as this node's last statement left
// it. If that matches no row, a renewal whose answer was lost may have raised it; then
// renew continues from the version in the row, because only this process renews a term
// of its own.
func (s *Strategy) renew(ctx context.Context, me elector.Candidate) (elector.Term, error) {
	if s.won.Number != me.Holding {
		return elector.Term{}, fmt.Errorf("asked to renew term %d, which is not held here", me.Holding)
	}
	for range 3 {
		n, err := s.cfg.DB.Exec(ctx, statement("renew"), s.cfg.Key, s.version, me.ID.String(), me.Holding)
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
		case now.version == s.version: // the row is unchanged: it was edited by hand in between
			return elector.Term{}, fmt.Errorf("renew term %d: the row has version %d but was not changed", me.Holding, s.version)
		}
		s.version = now.version
	}
	return elector.Term{}, fmt.Errorf("renew term %d: the version changed three times in a row", me.Holding)
}
