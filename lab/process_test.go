package lab

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/faultnet"
)

// A busy process answers late: its answer to an old query is not taken for the
// answer to a new one.
func TestQueryCost_IgnoresLateAnswer(t *testing.T) {
	cmd := exec.Command("sh", "-c", `read spec; read first; read second
		echo '{"what":"cost","at":1,"statements":10}'
		echo '{"what":"cost","at":9000000000000000000,"statements":20}'
		read third`)
	p, err := startProcess(cmd, Spec{Name: "n1", Incarnation: "1"}, func(*process, Event) {})
	require.NoError(t, err)
	defer p.kill()
	_, ok := p.queryCost(t.Context(), time.Millisecond)
	assert.False(t, ok, "there was no answer")
	got, ok := p.queryCost(t.Context(), time.Minute)
	assert.True(t, ok)
	assert.Equal(t, uint64(20), got.Statements)
	p.kill()
	_, ok = p.queryCost(t.Context(), time.Minute)
	assert.False(t, ok, "it has ended")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	silent, err := startProcess(exec.Command("cat"), Spec{}, func(*process, Event) {})
	require.NoError(t, err)
	defer silent.kill()
	_, ok = silent.queryCost(ctx, time.Hour)
	assert.False(t, ok, "an interrupted query does not wait")
}

// If no candidate leads alone, all are replaced.
func TestGroup_RestartAll(t *testing.T) {
	_, g := newTestGroup(t, leaseRule)
	_, err := g.waitForLeader(t.Context())
	require.NoError(t, err)
	old := g.processes
	require.NoError(t, g.restartAll())
	for place, p := range old {
		assert.True(t, p.hasEnded())
		assert.NotEqual(t, p.id, g.processes[place].id)
	}
	leader, err := g.waitForLeader(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []int{leader}, g.leadersAt(stamp(time.Now())))
	assert.Zero(t, g.unasked)
}

// With several hosts in the DSN each has a proxy, and a candidate is cut off from all of
// them.
func TestLaboratory_EachHostOfTheDSNHasAProxy(t *testing.T) {
	cfg := DefaultConfig()
	cfg.DSN, cfg.Spawn = "u:p@tcp(db1,db2:3307)/d?tls=skip-verify", func() *exec.Cmd { return nil }
	require.NoError(t, cfg.Validate())
	l := &laboratory{cfg: cfg, net: faultnet.New()}
	defer l.net.Close()
	require.NoError(t, l.listen())
	require.Len(t, l.sql, 2)
	assert.NotEmpty(t, l.sql["db1:3306"])
	assert.NotEmpty(t, l.sql["db2:3307"])
	var cut []string
	(&group{laboratory: l}).forEachPath("n1", func(from, to string) { cut = append(cut, from+" to "+to) })
	assert.Len(t, cut, 2*3)
	assert.Contains(t, cut, "/n1 to database db2:3307")
}

// An interrupted run reports what it has measured, and that it is incomplete.
func TestElections_InterruptedRunReportsPartialResults(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := 0
	cfg := testConfig(t, leaseRule, versionRule)
	cfg.Repeat, cfg.AtOnce, cfg.Calm = 10, 1, time.Millisecond
	spawn := cfg.Spawn
	cfg.Spawn = func() *exec.Cmd { // of one rule at a time
		if started++; started == candidates+2 {
			cancel() // the second fault has ended, and is not yet counted
		}
		return spawn()
	}
	report, err := Elections(ctx, cfg)
	require.ErrorIs(t, err, context.Canceled)
	assert.True(t, report.Interrupted)
	assert.Equal(t, candidates+2, started)
	require.Len(t, report.Rows, 2)
	assert.Equal(t, 1, report.Rows[0].of(Kill).N)
	assert.Equal(t, 1, report.Rows[0].total().N)
	assert.Equal(t, interrupted, report.Rows[0].Failed)
	assert.Equal(t, "version-cas", report.Rows[1].Rule)
	assert.Equal(t, interrupted, report.Rows[1].Failed, "it has not begun")
	assert.NotNil(t, report.Rows[1].Cells)
	assert.Contains(t, report.notes(), "conclave-lease: interrupted after 1 faults.")
}
