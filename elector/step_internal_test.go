package elector

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
)

// noStore is a strategy that nothing calls.
type noStore struct{}

func (noStore) Round(context.Context, Candidate, Term) (Term, error) { return Term{}, nil }
func (noStore) Resign(context.Context, Term) error                   { return nil }

// leading returns a node that leads term 5 and trusts itself for a second.
func leading(t *testing.T) *Elector {
	e, err := New(Config{
		ID: conclave.NodeID{Name: "a", Incarnation: "1"}, Strategy: noStore{}, Lead: func(context.Context, Term) error { return nil },
	})
	require.NoError(t, err)
	require.True(t, e.apply(wins, nil).has(doBegin))
	e.shared.lead = e.begin(Term{Number: 5}, time.Now().Add(time.Second))
	t.Cleanup(func() { e.shared.lead.timer.Stop() })
	return e
}

// Whatever arrives after trust has ended, the end of trust is why the node may not
// act any more: it neither renews its term nor hands it over.
func TestApply_EndOfTrustComesFirst(t *testing.T) {
	for _, ev := range []event{renews, losesTerm, asksToResign, asksToQuit, leadReturns} {
		for _, from := range []State{Leading, Suspended, Resigning} {
			t.Run(from.String()+", "+ev.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := leading(t)
					e.shared.lead.timer.Stop()
					e.shared.state = from
					time.Sleep(time.Second)
					do := e.apply(ev, ErrDeposed)
					assert.Equal(t, WindingDown, e.shared.state)
					assert.Zero(t, do&(doExtend|doHandOver|doAwait))
					require.ErrorIs(t, e.shared.lead.ended, ErrTrust)
					assert.EqualValues(t, 5, e.shared.left, "the term is never led again")
				})
			})
		}
	}
}

// A term is lost once: later causes do not replace the first one.
func TestApply_FirstCauseOfALostTermIsKept(t *testing.T) {
	for _, first := range []error{ErrOutranked, ErrPromised, ErrDeposed, ErrCrashed} {
		e := leading(t)
		e.apply(losesTerm, first)
		e.apply(losesTerm, ErrTrust)
		require.ErrorIs(t, e.shared.lead.ended, first)
	}
}

// A term that was to be handed over and is lost before that has the loss as its
// cause.
func TestApply_LossReplacesAResignation(t *testing.T) {
	e := leading(t)
	assert.True(t, e.apply(asksToResign, ErrResigned).has(doAwait))
	require.ErrorIs(t, e.shared.lead.ended, ErrResigned)
	e.apply(losesTerm, ErrDeposed)
	require.ErrorIs(t, e.shared.lead.ended, ErrDeposed)
	assert.Equal(t, WindingDown, e.shared.state)
}
