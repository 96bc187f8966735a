package elector

import (
	"context"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	_ "conclave/internal/bubble"
)

var allStates = []State{Observing, Following, Leading, Suspended, Resigning, WindingDown}

// stateNames are the states as the package comment has them.
var stateNames = []string{"Observing", "Following", "Leading", "Suspended", "Resigning", "WindingDown"}

func TestState_String(t *testing.T) {
	assert.Equal(t, "winding down", WindingDown.String())
	assert.Equal(t, "state 9", State(9).String())
}

// The diagram in the package comment names every state and every event that changes
// one.
func TestTransitions_AreDrawnInThePackageComment(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	require.NoError(t, err)
	_, drawing, _ := strings.Cut(file.Doc.Text(), "# The states of a node")
	drawing, _, found := strings.Cut(drawing, "[Elector.Status] returns")
	require.True(t, found)
	for _, name := range stateNames {
		assert.Contains(t, drawing, name)
	}
	for i := range transitions {
		for _, from := range allStates {
			if to, ok := from.after(event(i)); ok && to != from && event(i) != abstentionEnds {
				assert.Contains(t, drawing, event(i).String(), "the event changes a state")
			}
		}
	}
}

// The cells on which no other test of this package depends.
func TestTransitions_OfEventsThatFewTestsCause(t *testing.T) {
	for _, c := range []struct {
		from State
		ev   event
		to   State
	}{
		{Observing, asksToJoin, Following}, {Observing, abstentionEnds, Following},
		{Following, asksToQuit, Observing}, {Following, abstains, Observing}, {Following, wins, Leading},
		{Leading, asksToQuit, Resigning}, {Leading, asksToResign, Resigning}, {Leading, leadReturns, Resigning}, {Leading, losesWitness, Suspended},
		{Suspended, reacquiresWitness, Leading}, {Suspended, asksToQuit, Resigning}, {Suspended, asksToResign, Resigning}, {Suspended, leadReturns, Resigning},
		{Resigning, closesTerm, Following}, {WindingDown, closesTerm, Following},
		{Leading, losesTerm, WindingDown}, {Suspended, losesTerm, WindingDown}, {Resigning, losesTerm, WindingDown},
	} {
		to, ok := c.from.after(c.ev)
		assert.True(t, ok, "%s, %s", c.from, c.ev)
		assert.Equal(t, c.to, to, "%s, %s", c.from, c.ev)
	}
}

// What holds of every event in every state, whatever the table is.
func TestTransitions_EveryEventInEveryState(t *testing.T) {
	runs := func(s State) bool { return s != Observing && s != Following } // Lead has not returned
	for i := range transitions {
		ev := event(i)
		for _, from := range allStates {
			to, ok := from.after(ev)
			name := from.String() + ", " + ev.String()
			if !runs(from) && runs(to) {
				assert.Equal(t, wins, ev, "%s: a leadership begins with a win", name)
				assert.Equal(t, Following, from, "%s: an observer does not lead", name)
				assert.Equal(t, Leading, to, name)
			}
			if runs(from) && !runs(to) {
				assert.Equal(t, closesTerm, ev, "%s: a leadership ends when Lead has returned", name)
				assert.False(t, from.ownsTerm(), name)
			}
			if from == WindingDown && to != WindingDown {
				assert.Equal(t, Following, to, "%s: a lost term is not led again", name)
			}
			if from == Resigning {
				assert.False(t, to.ownsTerm(), "%s: a resignation is not taken back", name)
			}
			if !ok {
				assert.False(t, to.holds(), "%s: a defect ends a held term, and makes no leader", name)
			}
			switch ev {
			case asksToQuit, asksToResign:
				assert.Equal(t, from.holds(), to == Resigning, "%s: a held term is handed over", name)
			case renews:
				assert.True(t, to == from || !to.holds(), "%s: only a held term is extended", name)
			case leadReturns:
				assert.Equal(t, from.holds(), to == Resigning, "%s: a term is given up while it is held, once Lead has returned", name)
			}
			if again, _ := to.after(ev); ev != wins && ev != closesTerm {
				assert.Equal(t, to, again, "%s: repeated", name)
			}
		}
	}
}

// The end of the right to act ends Lead's context, and a term that is not renewed any
// more is never led again.
func TestStep_EndsContextWithTheRightToAct(t *testing.T) {
	for i := range transitions {
		for _, from := range []State{Leading, Suspended, Resigning} {
			e := leading(t)
			stopped := 0
			e.shared.lead.stop = func(error) { stopped++ }
			e.shared.state = from
			to := e.step(event(i), ErrDeposed)
			name := from.String() + ", " + event(i).String()
			assert.Equal(t, from.ownsTerm() && !to.ownsTerm(), stopped == 1, name)
			assert.Equal(t, !to.holds(), e.shared.neverAgain == 5, name)
		}
	}
}

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
	require.Equal(t, Leading, e.apply(wins, nil))
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
					assert.Equal(t, WindingDown, e.apply(ev, ErrDeposed))
					assert.Equal(t, WindingDown, e.shared.state)
					require.ErrorIs(t, e.shared.lead.ended, ErrTrust)
					assert.EqualValues(t, 5, e.shared.neverAgain, "the term is never led again")
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
	assert.Equal(t, Resigning, e.apply(asksToResign, ErrResigned))
	require.ErrorIs(t, e.shared.lead.ended, ErrResigned)
	e.apply(losesTerm, ErrDeposed)
	require.ErrorIs(t, e.shared.lead.ended, ErrDeposed)
	assert.Equal(t, WindingDown, e.shared.state)
}
