package elector

import (
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
			assert.Equal(t, from.leads() && !to.leads(), do.has(doStop), "%s: Lead's context ends exactly when the right to act does", name)
			assert.Equal(t, !runs(from) && runs(to), do.has(doBegin), "%s: a leadership begins by begin", name)
			if do.has(doBegin) {
				assert.Equal(t, wins, ev, name)
				assert.Equal(t, Following, from, "%s: an observer does not lead", name)
			}
			if runs(from) && !runs(to) {
				assert.Equal(t, closesTerm, ev, "%s: a leadership ends when Lead has returned", name)
				assert.False(t, from.leads(), name)
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
				assert.NotEqual(t, true, to.leads(), "%s: a resignation is not taken back", name)
			}
			if do.has(doHandOver) {
				assert.True(t, ev == leadReturns && to == Resigning, "%s: a term is given up while it is held, once Lead has returned", name)
			}
			if do.has(doImpossible) {
				assert.False(t, !from.leads() && to.leads(), "%s: a defect never makes a leader", name)
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
