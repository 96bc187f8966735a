package termcas_test

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/elector/electortest"
	"conclave/elector/termcas"
)

// direct is a strategy whose rounds the test plays, without an elector.
type direct struct {
	closing
	me elector.Candidate
}

func newDirect(t *testing.T, b *bench, name string) direct {
	cable := electortest.NewCable(b.Dial)
	me := elector.Candidate{ID: conclave.NodeID{Name: name, Incarnation: "1"}, Lease: b.Lease, Beat: b.Lease / 3}
	s := b.Strategy(t, electortest.NodeSpec{ID: me.ID, Beat: me.Beat, Cable: cable, Rand: rand.New(rand.NewPCG(1, 2)), Logger: slog.New(slog.DiscardHandler)})
	return direct{s.(closing), me}
}

// round plays a round as a follower.
func (d direct) round(t *testing.T) elector.Term {
	term, err := d.Round(t.Context(), d.me, elector.Term{})
	require.NoError(t, err)
	return term
}

// record returns how many statements the record of a term sends.
func (d direct) record(t *testing.T, term elector.Term) uint64 {
	before := d.db.Statements()
	_, err := d.Record(t.Context(), term)
	require.NoError(t, err)
	return d.db.Statements() - before
}

func TestWin_NeverLedReleasesTheOldLockWithItsConnection(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		first, second := newDirect(t, b, "first"), newDirect(t, b, "second")
		defer first.Close()
		defer second.Close()
		term := first.round(t)
		require.Equal(t, first.me.ID, term.Leader)
		alone := first.record(t, term)
		old := b.row(t).lock.String
		second.round(t)
		require.Equal(t, term.Number, second.WaitingFor())

		require.NoError(t, first.Resign(t.Context(), term))
		<-second.Wake()
		won := second.round(t) // on the connection with the old lock
		require.Equal(t, second.me.ID, won.Leader)
		require.True(t, b.holder(t, old).Valid)

		next := second.round(t) // that term is not led: this one replaces it
		require.Equal(t, won.Number+1, next.Number)
		time.Sleep(time.Second)
		assert.False(t, b.holder(t, old).Valid)
		assert.Equal(t, alone, second.record(t, next), "there is no old lock to release")
	})
}
