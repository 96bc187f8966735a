package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/lab"
)

func TestLab_RefusesInvalidFlags(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no such rule":    {[]string{"--rules", "conclave,paxos"}, "paxos"},
		"no time":         {[]string{"--lease", "1ms"}, "Lease"},
		"a limit below":   {[]string{"--limit", "-1s"}, "--limit"},
		"a host alone":    {[]string{"--zookeeper", "nohost"}, "--zookeeper"},
		"one twice":       {[]string{"--rules", "freno,river,freno"}, "freno twice"},
		"never":           {[]string{"--repeat", "-1"}, "--repeat"},
		"an unreadable":   {[]string{"--db", "somewhere"}, "DSN"},
		"not to be cut":   {[]string{"--db", "u@unix(/tmp/no.sock)/d"}, "TCP"},
		"an argument":     {[]string{"now"}, "now"},
		"an unknown flag": {[]string{"--fast"}, "fast"},
	} {
		t.Run(name, func(t *testing.T) {
			r := tool(t, append([]string{"lab", "elections"}, c.args...)...)
			assert.Equal(t, exitUsage, r.code, r.stderr)
			assert.Contains(t, r.stderr, c.want)
		})
	}
	r := tool(t, "lab")
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.stderr, "elections")
}

// The client of ZooKeeper tries again and again, and would only report that time has
// run out.
func TestLab_ReportsThatZooKeeperCannotBeReached(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := closed.Addr().String()
	require.NoError(t, closed.Close())
	for _, args := range [][]string{{"oversell"}, {"elections", "--rules", "curator"}} {
		r := tool(t, append(append([]string{"lab"}, args...), "--zookeeper", address)...)
		assert.Equal(t, exitFailed, r.code, r.stderr)
		assert.Contains(t, r.stderr, "--zookeeper: dial tcp "+address+": connect: connection refused")
	}
}

// Two rules lose their leaders by each kind of fault. Conclave's keeps its
// guarantees even on a busy machine.
func TestLabElections(t *testing.T) {
	realPrograms(t)
	file := filepath.Join(t.TempDir(), "lab.html")
	r := tool(t, "lab", "elections", "--rules", "conclave-lease,freno", "--repeat", "1", "--limit", "1s", "--lease", "1500ms", "--html", file, "--json")
	require.Equal(t, exitDone, r.code, r.stderr)
	var report lab.Report
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &report), r.stdout)
	require.Len(t, report.Rows, 2)
	for _, row := range report.Rows {
		require.Len(t, row.Cells, 4, row.Rule)
		if row.StatementsPerSecond != nil { // a busy machine may be late with the answer
			assert.Positive(t, *row.StatementsPerSecond, row.Rule)
		}
		for _, c := range row.Cells {
			assert.Equal(t, 1, c.N, "%s, %s", row.Rule, c.Fault)
			assert.Equal(t, 1, c.Never+c.Leaderless.N, "%s, %s: followed, or never", row.Rule, c.Fault)
			assert.Len(t, c.Samples, c.Leaderless.N)
		}
	}
	ours, freno := report.Rows[0], report.Rows[1]
	require.Equal(t, "conclave-lease", ours.Rule)
	var landed uint64
	for _, c := range ours.Cells {
		landed += c.Landed
		assert.Zero(t, c.Overlap.Max, "%s: two believed", c.Fault)
		assert.Zero(t, c.Guarded, "%s: a guarded write of the old leader landed", c.Fault)
		assert.NotZero(t, c.Writes, c.Fault)
	}
	assert.NotZero(t, landed, "guarded writes of leaders landed")
	assert.Equal(t, lab.Partition, freno.Cells[3].Fault)
	if freno.Cells[3].Leaderless.N == 1 {
		assert.Positive(t, freno.Cells[3].Overlap.Max, "who cannot reach the database keeps leading")
	}
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(page), "All promises were kept")
}
