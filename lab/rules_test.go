package lab

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// asCandidate makes the test binary a candidate's process.
const asCandidate = "CONCLAVE_TEST_AS_CANDIDATE"

func TestMain(m *testing.M) {
	if os.Getenv(asCandidate) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if Candidate(ctx, os.Stdin, os.Stdout) != nil {
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// bench is a laboratory on the embedded server, with a group for a rule in it. A busy
// machine is waited for: nothing here judges how long something took.
func bench(t *testing.T, rule Rule) (*laboratory, *group) {
	lease := time.Duration(0) // the default: the rules of others are played with TEST_ALL=1 only, when little else runs
	if rule.Fences {
		lease = 3 * time.Second // half a beat is what each statement may take
	}
	cfg := Config{
		DSN: mysqltest.NewEmbedded(t).DSN, Rules: []Rule{rule}, Lease: lease, Repeat: 1, follow: time.Minute,
		Spawn: func() *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), asCandidate+"=1")
			return cmd
		},
	}.withDefaults()
	require.NoError(t, cfg.Validate())
	l, err := newLaboratory(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(l.close)
	g := &group{
		cfg: cfg, rule: rule, times: rule.times(cfg.Lease), lab: "lab-" + rule.Name,
		net: l.net, paths: l.paths, db: l.db, news: make(chan struct{}, 1),
	}
	t.Cleanup(g.tearDown)
	require.NoError(t, g.setUp(t.Context()))
	return l, g
}

// theirs: rules that promise nothing take seconds each to show it, so they are
// played with TEST_ALL=1 only.
func theirs(t *testing.T) {
	t.Helper()
	if os.Getenv("TEST_ALL") == "" {
		t.Skip("the rules of others are not asked for: TEST_ALL=1")
	}
}

// Each rule elects one of three, and what is known to be wrong with it is seen.
func TestRules(t *testing.T) {
	var (
		overlaps = func(t *testing.T, g *group, tr trial) { assert.Positive(t, tr.overlap, "two believed") }
		leased   = func(t *testing.T, g *group, tr trial) {
			assert.GreaterOrEqual(t, tr.leaderless, g.times.Lease/2, "nothing was given back: the others waited for the lease")
		}
		alone = func(t *testing.T, g *group, tr trial) {
			assert.Zero(t, tr.overlap, "who is cut off ends its trust before the database gives the place away")
		}
		kept = func(t *testing.T, g *group, tr trial) {
			assert.Zero(t, tr.fenced, "no guarded write of the old leader landed")
			if g.rule.Fences {
				assert.NotZero(t, tr.landed, "and others did")
			}
			if g.rule.Exclusive {
				assert.Zero(t, tr.overlap, "at no time two believed")
			}
		}
	)
	for _, test := range []struct {
		rule  Rule
		fault Fault
		claim func(t *testing.T, g *group, tr trial)
	}{
		{witnessRule, Pause, kept},
		{leaseRule, Pause, kept},
		{versionRule, Partition, kept},
		{rowRule, Pause, kept},
		{zookeeperRule, Pause, kept},
		{sofaRule, Term, leased},
		{polarisRule, Partition, overlaps},
		{frenoRule, Partition, overlaps},
		{orchestratorRule, Pause, overlaps},
		{dolphinRule, Pause, overlaps},
		{riverRule, Partition, alone},
		{clientGoRule, Pause, overlaps},
		{curatorRule, Kill, kept},
		{article003Rule, "", nil},
	} {
		t.Run(test.rule.Name, func(t *testing.T) {
			if !test.rule.Fences {
				theirs(t)
			}
			_, g := bench(t, test.rule)
			leader, err := g.steady(t.Context())
			require.NoError(t, err)
			assert.Equal(t, []int{leader}, g.believers(stamp(time.Now())))
			if test.claim == nil {
				return
			}
			tr, err := g.play(t.Context(), test.fault)
			require.NoError(t, err)
			require.True(t, tr.followed, "somebody else leads")
			test.claim(t, g, tr)
			assert.NotZero(t, tr.writes)
		})
	}
}

// Article 001: when the only holder dies nobody cleans up after it.
func TestArticle001IsNeverFollowed(t *testing.T) {
	theirs(t)
	_, g := bench(t, article001Rule)
	g.cfg.follow = g.times.Lease + 2*g.times.Check
	tr, err := g.play(t.Context(), Kill)
	require.NoError(t, err)
	assert.False(t, tr.followed, "until an operator deletes the row")
	_, err = g.steady(t.Context())
	assert.NoError(t, err, "as the lab has done")
}

// Polaris subtracts times as if they were numbers.
func TestPolarisCountsFortyOneSecondsOverAMinutesEnd(t *testing.T) {
	db, err := conclavesql.Open(mysqltest.NewEmbedded(t).DSN, conclavesql.Options{Deadline: 5 * time.Second})
	require.NoError(t, err)
	defer db.Close()
	const difference = "SELECT CAST(DATE_FORMAT(TIMESTAMP '2026-11-21 23:01:00', '%Y%m%d%H%i%s') AS SIGNED) - CAST(DATE_FORMAT(TIMESTAMP '2026-11-21 23:00:59', '%Y%m%d%H%i%s') AS SIGNED)"
	var age int64
	require.NoError(t, db.QueryRow(t.Context(), difference, nil, &age))
	assert.Equal(t, int64(41), age)
}

// Writes are stale from a newer leader's first on, whatever the old one's guard says.
func TestAStaleWriteIsCountedWhereItLands(t *testing.T) {
	l, _ := bench(t, leaseRule)
	lab := "forged-" + time.Duration(rand.N(time.Hour)).String()
	_, err := l.db.Exec(t.Context(), conclavesql.LabWriteSeed, lab)
	require.NoError(t, err)
	for _, number := range []uint64{3, 3, 4, 3, 4, 3} {
		n, err := l.db.Exec(t.Context(), conclavesql.LabWrite, number, number, lab)
		require.NoError(t, err)
		assert.Equal(t, int64(1), n)
	}
	g := &group{rule: leaseRule, db: l.db, lab: lab}
	w, err := g.written(t.Context())
	require.NoError(t, err)
	assert.Equal(t, written{newest: 4, writes: 6, stale: 2}, w)
}
