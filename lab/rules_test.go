package lab

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	ossignal "os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"conclave/internal/long"
	"conclave/internal/mysqltest"
	"conclave/internal/signal"
	conclavesql "conclave/sql"
)

// asCandidate is the environment variable that makes the test binary a
// candidate's process.
const asCandidate = "CONCLAVE_TEST_AS_CANDIDATE"

func TestMain(m *testing.M) {
	if os.Getenv(asCandidate) != "" {
		ctx, stop := ossignal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if Candidate(ctx, os.Stdin, os.Stdout) != nil {
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// testConfig returns a run on the embedded server. Its lease is long, because the machine
// may be busy; the tests do not check how long anything took.
func testConfig(t *testing.T, rules ...Rule) Config {
	cfg := DefaultConfig()
	cfg.DSN, cfg.Rules, cfg.Lease, cfg.Repeat = mysqltest.NewEmbedded(t).DSN, rules, 3*time.Second, 1
	cfg.Spawn = func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), asCandidate+"=1")
		return cmd
	}
	return cfg
}

// newTestGroup returns a laboratory on the embedded server and a group in it
// that runs a rule.
func newTestGroup(t *testing.T, rule Rule) (*laboratory, *group) {
	cfg := testConfig(t, rule)
	cfg.successorTimeout = time.Minute
	require.NoError(t, cfg.Validate())
	l, err := newLaboratory(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(l.close)
	g := &group{laboratory: l, rule: rule, times: rule.times(cfg.Lease), lab: "lab-" + rule.Name, changed: signal.New()}
	t.Cleanup(g.tearDown)
	require.NoError(t, g.setUp(t.Context()))
	return l, g
}

// Each rule elects one of three candidates, and shows its known weakness.
func TestRules(t *testing.T) {
	var (
		overlaps = func(t *testing.T, g *group, tr trial) { assert.Positive(t, tr.overlap, "two believed that they lead") }
		leased   = func(t *testing.T, g *group, tr trial) {
			assert.GreaterOrEqual(t, tr.leaderless, g.times.Lease/2, "the leadership was not handed over: the others waited for the lease")
		}
		exclusive = func(t *testing.T, g *group, tr trial) {
			assert.Zero(t, tr.overlap, "the trust of a leader that was cut off ends before the lease expires")
		}
		kept = func(t *testing.T, g *group, tr trial) {
			assert.Zero(t, tr.fenced, "no guarded write of the old leader took effect")
			if g.rule.Fences {
				assert.NotZero(t, tr.landed, "other guarded writes took effect")
			}
			if g.rule.Exclusive {
				assert.Zero(t, tr.overlap, "no two believed at the same time that they lead")
			}
		}
	)
	for _, test := range []struct {
		rule  Rule
		fault Fault
		check func(t *testing.T, g *group, tr trial)
	}{
		{witnessRule, Pause, kept},
		{leaseRule, Pause, kept},
		{versionRule, Partition, kept},
		{sofaRule, Term, leased},
		{polarisRule, Partition, overlaps},
		{frenoRule, Partition, overlaps},
		{orchestratorRule, Pause, overlaps},
		{dolphinRule, Pause, overlaps},
		{riverRule, Partition, exclusive},
		{clientGoRule, Pause, overlaps},
		{curatorRule, Kill, leased},
		{article000Rule, Partition, func(t *testing.T, g *group, tr trial) {
			exclusive(t, g, tr)
			leased(t, g, tr)
		}},
		{article000SkewRule, Partition, overlaps},
		{article003Rule, Partition, overlaps},
	} {
		t.Run(test.rule.Name, func(t *testing.T) {
			if test.rule.Alone && !long.All() {
				t.Skip("its waiters spin, and its time-outs are too short for a busy machine; it runs with TEST_ALL=1")
			} else if !test.rule.Alone {
				t.Parallel()
			}
			_, g := newTestGroup(t, test.rule)
			leader, err := g.waitForLeader(t.Context())
			require.NoError(t, err)
			assert.Equal(t, []int{leader}, g.leadersAt(stamp(time.Now())))
			tr, err := g.runTrial(t.Context(), test.fault)
			require.NoError(t, err)
			require.True(t, tr.followed, "another candidate leads")
			test.check(t, g, tr)
			assert.NotZero(t, tr.writes)
		})
	}
}

// Article 003, with processes that are late: a leader that lives and ticks is
// deposed, and one election is won twice.
func TestArticle003Late_LivingLeaderDeposedAndElectionWonTwice(t *testing.T) {
	t.Parallel()
	_, g := newTestGroup(t, article003LateRule)
	row := newRow(g.rule, g.times)
	require.NoError(t, g.measureCalm(t.Context(), &row))
	leaderships, _ := g.history()
	deposed, twice := Depositions(leaderships, nil, g.times.Beat)
	t.Logf("%d leaderships: %d living leaders deposed, %d elections won twice", len(leaderships), deposed, twice)
	assert.Positive(t, deposed)
	assert.Positive(t, twice)
}

// Article 001: the row of a dead leader is not deleted, because only a process
// that holds a lock deletes expired rows.
func TestArticle001_DeadLeaderHasNoSuccessor(t *testing.T) {
	t.Parallel()
	_, g := newTestGroup(t, article001Rule)
	g.cfg.successorTimeout = g.times.Lease + 2*g.times.Check
	tr, err := g.runTrial(t.Context(), Kill)
	require.NoError(t, err)
	assert.False(t, tr.followed, "until an operator deletes the row")
	_, err = g.waitForLeader(t.Context())
	assert.NoError(t, err, "the lab has deleted it")
}

// Polaris subtracts times as if they were decimal numbers.
func TestPolaris_OneSecondAcrossAMinuteCountsAs41(t *testing.T) {
	db, err := conclavesql.Open(mysqltest.NewEmbedded(t).DSN, conclavesql.Options{Deadline: 5 * time.Second})
	require.NoError(t, err)
	defer db.Close()
	const difference = "SELECT CAST(DATE_FORMAT(TIMESTAMP '2026-11-21 23:01:00', '%Y%m%d%H%i%s') AS SIGNED) - CAST(DATE_FORMAT(TIMESTAMP '2026-11-21 23:00:59', '%Y%m%d%H%i%s') AS SIGNED)"
	var age int64
	require.NoError(t, db.QueryRow(t.Context(), difference, nil, &age))
	assert.Equal(t, int64(41), age)
}

// An unguarded write is stale if a newer leader has written before it.
func TestWritten_CountsStaleWrites(t *testing.T) {
	l, _ := newTestGroup(t, leaseRule)
	lab := "test-" + time.Duration(rand.N(time.Hour)).String()
	_, err := l.db.Exec(t.Context(), statement("write_seed"), lab)
	require.NoError(t, err)
	for _, number := range []uint64{3, 3, 4, 3, 4, 3} {
		n, err := l.db.Exec(t.Context(), statement("write"), number, number, lab)
		require.NoError(t, err)
		assert.Equal(t, int64(1), n)
	}
	g := &group{laboratory: l, rule: leaseRule, lab: lab}
	w, err := g.written(t.Context())
	require.NoError(t, err)
	assert.Equal(t, written{newest: 4, writes: 6, stale: 2}, w)
}
