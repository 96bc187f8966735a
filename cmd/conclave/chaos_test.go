package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/chaos"
)

func TestChaosListNamesEveryScenario(t *testing.T) {
	rows := decode[[]scenarioRow](t, tool(t, "chaos", "list", "--json"))
	require.Len(t, rows, len(chaos.Scenarios()))
	for i, r := range rows {
		assert.Equal(t, chaos.Scenarios()[i], r.Name)
		assert.NotEmpty(t, r.About, r.Name)
		assert.Contains(t, r.On, "simulator", r.Name)
	}
}

func TestChaosSaysWhatIsWrongBeforeItBreaksAnything(t *testing.T) {
	file := filepath.Join(t.TempDir(), "story.txt")
	require.NoError(t, os.WriteFile(file, []byte("# A story.\ncluster 3 meta 2 session 3 data\nat 1s kick leader\n"), 0o644))
	held := filepath.Join(t.TempDir(), "held.txt")
	require.NoError(t, os.WriteFile(held, []byte("# A story.\ncluster 3 meta 2 session 3 data\nat 1s skew clock of meta-1 by 1h\nuntil 2s\n"), 0o644))
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"an unknown name":         {[]string{"nothing-like-it"}, exitUsage, "nothing-like-it"},
		"a word that is none":     {[]string{file}, exitUsage, "story.txt:3"},
		"an act of the simulator": {[]string{held}, exitFailed, "skew"},
		"nowhere":                 {[]string{"f01", "--on", "moon"}, exitUsage, "moon"},
		"never":                   {[]string{"f01", "--times", "0"}, exitUsage, "--times"},
		"no name":                 {nil, exitUsage, "NAME|FILE"},
	} {
		t.Run(name, func(t *testing.T) {
			r := tool(t, append([]string{"chaos", "run"}, c.args...)...)
			assert.Equal(t, c.code, r.code, r.stderr)
			assert.Contains(t, r.stderr, c.says)
		})
	}
}

// One story of everything that is done to processes: signals, the network between
// them, and an answer of the database that is lost.
func TestChaosOnRealProcesses(t *testing.T) {
	if testing.Short() {
		t.Log("short: without real processes")
		return
	}
	realPrograms(t)
	dir := t.TempDir()
	file, page := filepath.Join(dir, "story.txt"), filepath.Join(dir, "report.html")
	require.NoError(t, os.WriteFile(file, []byte(`# Everything, a little.
cluster 3 meta 2 session 3 data 16 slots 2 replicas
clients 4 names 2 every 100ms
at 1s kill leader
at 2s cut data-1 from session-1
at 3s mend data-1 from session-1
at 4s lose the next answer of db to leader
at 5s reset links of session-1
at 6s kill data-2
at 8s start data-2
until 9s
figure leaderless
`), 0o644))
	r := tool(t, "--json", "chaos", "run", file, "--html", page)
	report := decode[chaos.Report](t, r)
	assert.True(t, report.Ok, r.stdout)
	assert.Empty(t, report.Skipped)
	checks := map[string]int{}
	for _, v := range report.Verdicts {
		checks[v.ID] = v.Checks
		assert.Empty(t, v.Violations, v.ID)
	}
	for _, id := range []string{"I6", "I7", "I10", "I11", "L7", "P2"} {
		assert.Positive(t, checks[id], id)
	}
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Contains(t, string(html), "kill leader")
	assert.NotContains(t, string(html), "src=\"http")
}
