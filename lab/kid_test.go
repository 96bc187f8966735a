package lab

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/mysqltest"
)

// A busy process answers late: what it says to an old question is no answer to a new one.
func TestALateAnswerIsNotTakenForTheNextOne(t *testing.T) {
	cmd := exec.Command("sh", "-c", `read seat; read first; read second
		echo '{"what":"cost","ask":1,"statements":10}'
		echo '{"what":"cost","ask":2,"statements":20}'
		read third
		echo '{"what":"cost","ask":0,"statements":30}'`)
	k, err := spawn(cmd, Seat{Name: "n1", Incarnation: "1"}, func(*kid, Event) {})
	require.NoError(t, err)
	defer k.end()
	_, ok := k.ask(t.Context(), time.Millisecond)
	assert.False(t, ok, "nothing was said")
	got, ok := k.ask(t.Context(), time.Minute)
	assert.True(t, ok)
	assert.Equal(t, Event{What: "cost", Ask: 2, Statements: 20}, got)
	for range 2 {
		got, ok = k.ask(t.Context(), time.Minute)
		assert.True(t, ok, "what it said when it stopped")
		assert.Equal(t, uint64(30), got.Statements)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	deaf, err := spawn(exec.Command("cat"), Seat{}, func(*kid, Event) {})
	require.NoError(t, err)
	defer deaf.end()
	_, ok = deaf.ask(ctx, time.Hour)
	assert.False(t, ok, "who was interrupted waits for nothing")
}

// Where nobody leads alone an operator ends them all, and seats others.
func TestAGroupBeginsAnew(t *testing.T) {
	_, g := bench(t, leaseRule)
	_, err := g.steady(t.Context())
	require.NoError(t, err)
	old := g.kids
	require.NoError(t, g.anew())
	for place, k := range old {
		assert.True(t, k.ended())
		assert.NotEqual(t, k.who, g.kids[place].who)
	}
	leader, err := g.steady(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []int{leader}, g.believers(stamp(time.Now())))
	assert.Zero(t, g.unasked)
}

// What was measured before an interruption is reported, and is not called whole.
func TestAnInterruptedRunReportsWhatItHas(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seats := 0
	report, err := Elections(ctx, Config{
		DSN: mysqltest.NewEmbedded(t).DSN, Rules: []Rule{leaseRule, rowRule}, Lease: 3 * time.Second, AtOnce: 1, Calm: time.Millisecond,
		Spawn: func() *exec.Cmd { // of one rule at a time
			if seats++; seats == candidates+2 {
				cancel() // the second fault has ended, and is not yet counted
			}
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), asCandidate+"=1")
			return cmd
		},
	})
	require.ErrorIs(t, err, context.Canceled)
	assert.True(t, report.Interrupted)
	assert.Equal(t, candidates+2, seats)
	require.Len(t, report.Rows, 2)
	assert.Equal(t, 1, report.Rows[0].of(Kill).N)
	assert.Equal(t, 1, report.Rows[0].total().N)
	assert.Equal(t, interrupted, report.Rows[0].Failed)
	assert.Equal(t, "row-lock", report.Rows[1].Rule)
	assert.Equal(t, interrupted, report.Rows[1].Failed, "it has not even begun")
	assert.NotNil(t, report.Rows[1].Cells)
	assert.Contains(t, report.notes(), "conclave-lease: interrupted after 1 faults.")
}
