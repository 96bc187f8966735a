package sql_test

import (
	"context"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/mysqltest"
	"conclave/testbed"
	"conclave/testbed/local"
	"conclave/testbed/local/supervisor"
	"conclave/testbed/scenario"
)

// onReplicated is a cluster of processes whose database is replicated: db in a scenario is
// the server that accepts writes.
type onReplicated struct {
	*local.Cluster
	t        *testing.T
	replicas *mysqltest.Replicas
	start    func() // the server that was killed
}

// Do carries out an action.
func (c *onReplicated) Do(ctx context.Context, a testbed.Action) error {
	if a.Node != testbed.Database {
		return c.Cluster.Do(ctx, a)
	}
	switch a.Verb {
	case testbed.Kill:
		c.start = c.replicas.Primary(c.t).Kill(c.t)
	case testbed.Start:
		c.start()
	default:
		return testbed.ErrUnsupported
	}
	return nil
}

// clusterScenario kills the writer under clients that change their values. When the next
// one is in use, a data node is killed, so that the leader has to write another table
// there. The former writer joins again.
const clusterScenario = `# The server that accepts writes is killed, and then a data node.
cluster 3 meta 2 session 3 data 16 slots 2 replicas
lease 3s
clients 4 names 4 every 500ms
at 1s kill db
at 14s expect leader within 20s
at 16s kill a data for 5s
at 16s expect full within 12s
at 20s start db
at 24s expect leader within 20s
at 25s expect full within 5s
until 28s
figure leaderless
figure push
`

// A whole cluster (metas, sessions, data nodes and clients, each node a process) runs on
// replicated servers, named by one DSN, and its database's writer is killed.
func TestReplicas_WriterOfAClusterKilled(t *testing.T) {
	if !mysqltest.Wanted() {
		t.Skip("replicated servers are not requested: set TEST_ALL=1")
	}
	bin := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin+"/", "conclave/cmd/meta", "conclave/cmd/session", "conclave/cmd/data").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, kind := range mysqltest.Replicated() { // one cluster at a time, because its nodes' leases need the processors
		t.Run(string(kind), func(t *testing.T) { killWriterOfCluster(t, bin, mysqltest.NewReplicas(t, kind)) })
	}
}

// killWriterOfCluster plays clusterScenario on replicated servers.
func killWriterOfCluster(t *testing.T, bin string, r *mysqltest.Replicas) {
	s, err := scenario.Parse("the writer is killed", clusterScenario)
	require.NoError(t, err)
	cluster := local.New(local.Config{Bin: bin, Dir: t.TempDir(),
		Settings: func(c *supervisor.Config) { c.DB = r.DSN }})
	played := &onReplicated{Cluster: cluster, t: t, replicas: r}
	result, err := scenario.Play(t.Context(), s, played)
	require.NoError(t, err)
	require.Empty(t, result.Skipped)
	require.NotNil(t, played.start, "the writer was killed")
	for _, figure := range result.Figures {
		t.Logf("figure: %s", figure)
	}
	assert.Empty(t, result.Problems())
}
