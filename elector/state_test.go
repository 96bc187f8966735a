package elector

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFacts_EveryCombination(t *testing.T) {
	for bits := range 1 << 7 {
		f := facts{
			leadership: bits&1 != 0, trusted: bits&2 != 0, left: bits&4 != 0, ended: bits&8 != 0,
			resigning: bits&16 != 0, suspended: bits&32 != 0, abstains: bits&64 != 0,
		}
		holds := f.leadership && f.trusted && !f.left && (!f.ended || f.resigning)
		got, name := f.state(), fmt.Sprintf("%+v", f)
		assert.Equal(t, holds, got.holds(), "%s: renews its term", name)
		assert.Equal(t, holds && !f.ended && !f.resigning && !f.suspended, got == Leading, "%s: may act", name)
		assert.Equal(t, f.leadership, got != Observing && got != Following, "%s: Lead has not returned", name)
		assert.Equal(t, !f.leadership && !f.abstains, got == Following, "%s: competes", name)
	}
}

// The transitions of the diagram in the package comment: each event as what it changes,
// and the state that it leads to from each state. "" is the same state.
func TestFacts_Transitions(t *testing.T) {
	var (
		observing = facts{abstains: true}
		following = facts{}
		leading   = facts{leadership: true, trusted: true}
		suspended = facts{leadership: true, trusted: true, suspended: true}
		resigning = facts{leadership: true, trusted: true, ended: true, resigning: true}
		winding   = facts{leadership: true, left: true, ended: true}
	)
	deposed := func(f *facts) { f.left, f.ended, f.resigning = true, true, false } // endLeadership
	for _, row := range []struct {
		event string
		apply func(f *facts)
		from  facts
		want  State
	}{
		{"JoinElection", func(f *facts) { f.abstains = false }, observing, Following},
		{"Quit", func(f *facts) { f.abstains = true }, following, Observing},
		{"won", func(f *facts) { f.leadership, f.trusted = true, true }, following, Leading},

		{"the witness is lost", func(f *facts) { f.suspended = true }, leading, Suspended},
		{"the witness is reacquired", func(f *facts) { f.suspended = false }, suspended, Leading},
		{"resigned", func(f *facts) { f.ended, f.resigning = true, true }, leading, Resigning},
		{"resigned", func(f *facts) { f.ended, f.resigning = true, true }, suspended, Resigning},
		{"the witness is lost", func(f *facts) { f.suspended = true }, resigning, Resigning},

		{"deposed, outranked or promised away", deposed, leading, WindingDown},
		{"deposed, outranked or promised away", deposed, suspended, WindingDown},
		{"deposed, outranked or promised away", deposed, resigning, WindingDown},
		{"the time of trust has passed", func(f *facts) { f.trusted = false }, leading, WindingDown},
		{"the time of trust has passed", func(f *facts) { f.trusted = false }, suspended, WindingDown},
		{"the time of trust has passed", func(f *facts) { f.trusted = false }, resigning, WindingDown},

		{"Lead has returned", func(f *facts) { *f = facts{} }, winding, Following},
		{"Lead has returned after Quit or Resign", func(f *facts) { *f = facts{abstains: true} }, resigning, Observing},
	} {
		f := row.from
		before := f.state()
		row.apply(&f)
		assert.Equal(t, row.want, f.state(), "%s, %s", before, row.event)
	}
}

func TestState_String(t *testing.T) {
	assert.Equal(t, "winding down", WindingDown.String())
	assert.Equal(t, "state 9", State(9).String())
}
