package playground

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "conclave/internal/bubble"
	"conclave/testbed/console"
	"conclave/testbed/simulated"
	"conclave/testbed/simulated/simnet"
)

// run begins a world, and returns what has the digest of everything that was sent until the
// world has ended, which the function waits for.
func run(t *testing.T, start string) (w *World, sent func() []string) {
	s, err := ParseStart(start)
	require.NoError(t, err)
	cryptotest.SetGlobalRandom(t, s.Seed)
	w = New(s, func(f func()) { synctest.Test(t, func(*testing.T) { f() }) })
	var lines []string
	w.tap = func(x simnet.Sent) {
		h := fnv.New32()
		_, _ = h.Write(x.Data)
		lines = append(lines, fmt.Sprintf("%d %s > %s %s %d %x", time.Now().UnixNano(), x.From, x.To, x.What, len(x.Data), h.Sum32()))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	hub := console.NewHub()
	go func() {
		defer close(ended)
		assert.NoError(t, w.Run(ctx, hub))
	}()
	end := func() { cancel(); <-ended }
	t.Cleanup(end)
	return w, func() []string { end(); return lines }
}

// await waits until time stands still. It does not ask again and again: a goroutine that
// becomes ready meanwhile changes the order of the bubble's goroutines.
func await(t *testing.T, w *World) Pace {
	t.Helper()
	for {
		still := w.still.Next()
		if p := w.Pace(); p.Paused && !p.Replays && p.Step == "" {
			return p
		}
		<-still
	}
}

func TestStep_StopsAtTheNextElection(t *testing.T) {
	w, _ := run(t, "1")
	require.NoError(t, w.Step(Election))
	assert.Regexp(t, `^\d\.\d+ s: meta-\d leads term 1$`, await(t, w).Reached)
	require.NoError(t, w.Step(Message))
	assert.Regexp(t, ` s: \S+ to \S+: .`, await(t, w).Reached)
	assert.Error(t, w.Step("lunch"))
}

func TestPause_StandsStill(t *testing.T) {
	w, _ := run(t, "1~8")
	at := await(t, w)
	assert.InDelta(t, 8000, at.AtMs, 0)
	time.Sleep(50 * time.Millisecond)
	assert.InDelta(t, at.AtMs, w.Pace().AtMs, 0)
	require.NoError(t, w.SetPace(100, false))
	require.Eventually(t, func() bool { return w.Pace().AtMs > at.AtMs+100 }, 10*time.Second, time.Millisecond)
	assert.Error(t, w.SetPace(-1, false))
}

func TestAct_KillOfTheLeaderLeadsToTheNextTerm(t *testing.T) {
	w, _ := run(t, "1~8")
	await(t, w)
	says, err := w.Explain(t.Context(), console.Request{Do: "kill", Node: leader(t, w)})
	require.NoError(t, err)
	assert.Contains(t, says, "It leads term 1: another meta takes over as term 2.")
	require.NoError(t, w.Act(t.Context(), console.Request{Do: "kill", Node: leader(t, w)}))
	require.NoError(t, w.Step(Election))
	assert.Contains(t, await(t, w).Reached, "leads term 2")
	require.NoError(t, w.Step(Violation))
	assert.Contains(t, await(t, w).Reached, "no violation within")
	assert.Contains(t, w.Pace().Start, "1~8*kill*meta-")
	assert.Error(t, w.Act(t.Context(), console.Request{Do: "step"}))
	assert.Error(t, w.Act(t.Context(), console.Request{Do: "kill", Node: "no word"}))
}

// leader returns the leader that the page shows.
func leader(t *testing.T, w *World) (name string) {
	require.True(t, w.in(func(b *inside) { name = b.cluster.Observe(t.Context()).Leader }))
	require.NotEmpty(t, name)
	return name
}

// TestOneStartOneState plays a run with acts and steps, and then its start.
func TestOneStartOneState(t *testing.T) {
	if !simulated.OneTrace {
		t.Skip("needs the overlay of testbed/simulated/onetrace, and -tags onetrace")
	}
	warm, end := run(t, "1~3") // what is initialized at its first use
	await(t, warm)
	end()
	w, first := run(t, "5~7")
	await(t, w)
	require.NoError(t, w.Act(t.Context(), console.Request{Do: "freeze", Node: leader(t, w)}))
	require.NoError(t, w.Step(Election))
	await(t, w)
	for range 3 {
		require.NoError(t, w.Step(Message))
		await(t, w)
	}
	_, err := w.Explain(t.Context(), console.Request{Do: "drain", Node: "data-1"})
	require.NoError(t, err)
	require.NoError(t, w.Act(t.Context(), console.Request{Do: "drain", Node: "data-1"}))
	require.True(t, w.in(func(b *inside) { b.advance(b.now()+6*time.Second, "") }))
	moment := w.Pace().Start
	require.Contains(t, moment, "*step*")
	want := first()
	again, second := run(t, moment)
	assert.Equal(t, moment, await(t, again).Start)
	got := second()
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			from := max(0, i-3)
			require.Fail(t, "the second run differs", "%s: line %d of %d\n%s\n--\n%s", moment, i, len(want), strings.Join(want[from:i+1], "\n"), strings.Join(got[from:i+1], "\n"))
		}
	}
	t.Log(moment, len(want))
}
