package elector

import (
	"context"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
)

var allStates = []State{Observing, Following, Leading, Suspended, Resigning, WindingDown}

// stateNames are the states as the package comment has them.
var stateNames = []string{"Observing", "Following", "Leading", "Suspended", "Resigning", "WindingDown"}

func TestState_String(t *testing.T) {
	assert.Equal(t, "winding down", WindingDown.String())
	assert.Equal(t, "state 9", State(9).String())
}

// The table in the package comment is the machine, and the diagram names every
// state and every event that changes one.
func TestTransitions_AsInPackageComment(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	require.NoError(t, err)
	_, text, _ := strings.Cut(file.Doc.Text(), "# The states of a node")
	text, _, _ = strings.Cut(text, "[Elector.State] returns")
	drawing, table, found := strings.Cut(text, "The same as a table")
	require.True(t, found)

	_, table, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(strings.TrimSpace(table), "\n")
	require.Equal(t, stateNames, strings.Fields(rows[0]))
	require.Len(t, rows[1:], len(transitions))
	columns := regexp.MustCompile(`\s{2,}`)
	for i, row := range rows[1:] {
		ev, want := event(i), columns.Split(strings.TrimSpace(row), -1)
		require.Len(t, want, 1+len(allStates), row)
		assert.Equal(t, ev.String(), want[0])
		for _, from := range allStates {
			to, do := from.on(ev)
			got := stateNames[to]
			switch {
			case do.has(doImpossible):
				got = "-"
			case to == from:
				got = "."
			}
			assert.Equal(t, want[1+int(from)], got, "%s, %s", from, ev)
			if got == stateNames[to] && ev != abstentionEnds {
				assert.Contains(t, drawing, ev.String(), "the event changes a state")
			}
		}
	}
	for _, name := range stateNames {
		assert.Contains(t, drawing, name)
	}
}

// What holds of every event in every state, whatever the table is.
func TestTransitions_EveryEventInEveryState(t *testing.T) {
	runs := func(s State) bool { return s != Observing && s != Following } // Lead has not returned
	for i := range transitions {
		ev := event(i)
		for _, from := range allStates {
			to, do := from.on(ev)
			name := from.String() + ", " + ev.String()
			assert.Equal(t, from.ownsTerm() && !to.ownsTerm(), do.has(doStop), "%s: Lead's context ends exactly when the right to act does", name)
			assert.Equal(t, !runs(from) && runs(to), do.has(doBegin), "%s: a leadership begins by begin", name)
			if do.has(doBegin) {
				assert.Equal(t, wins, ev, name)
				assert.Equal(t, Following, from, "%s: an observer does not lead", name)
			}
			if runs(from) && !runs(to) {
				assert.Equal(t, closesTerm, ev, "%s: a leadership ends when Lead has returned", name)
				assert.False(t, from.ownsTerm(), name)
			}
			if from.holds() && !to.holds() {
				assert.True(t, do.has(doForgo), "%s: a term that is not renewed any more is never led again", name)
			}
			if do.has(doExtend) {
				assert.True(t, from.holds() && to == from, "%s: only a held term is extended", name)
			}
			if from == WindingDown && to != WindingDown {
				assert.Equal(t, Following, to, "%s: a lost term is not led again", name)
			}
			if from == Resigning {
				assert.NotEqual(t, true, to.ownsTerm(), "%s: a resignation is not taken back", name)
			}
			if do.has(doHandOver) {
				assert.True(t, ev == leadReturns && to == Resigning, "%s: a term is given up while it is held, once Lead has returned", name)
			}
			if do.has(doImpossible) {
				assert.False(t, !from.ownsTerm() && to.ownsTerm(), "%s: a defect never makes a leader", name)
			}
			switch ev {
			case asksToQuit, asksToResign:
				assert.Equal(t, from.holds(), do.has(doAwait), "%s: the caller waits for the hand-over of a held term", name)
				assert.Equal(t, ev == asksToResign && !from.holds(), do.has(doRefuse), name)
			default:
				assert.False(t, do.has(doAwait) || do.has(doRefuse), "%s: no caller", name)
			}
			again, more := to.on(ev)
			if ev != wins && ev != winsLate && ev != closesTerm {
				assert.Equal(t, to, again, "%s: repeated", name)
				assert.False(t, more.has(doStop), "%s: repeated", name)
			}
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
