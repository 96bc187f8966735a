package main

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/local/supervisor"
	"conclave/testbed/report"
	"conclave/testbed/scenario"
)

func TestChaosList_NamesEveryScenario(t *testing.T) {
	rows := decode[[]scenarioRow](t, tool(t, "chaos", "list", "--json"))
	require.Len(t, rows, len(scenario.Names())+1)
	var names []string
	for i, r := range rows {
		names = append(names, r.Name)
		assert.Equal(t, i < 24, regexp.MustCompile(`^f\d\d-`).MatchString(r.Name), "F1 to F24 are the first: %s", r.Name)
		assert.NotEmpty(t, r.About, r.Name)
		assert.Contains(t, r.On, "simulator", r.Name)
	}
	assert.ElementsMatch(t, append(scenario.Names(), stormName), names)
}

func TestChaosList_ChoosesByWordsAndPatterns(t *testing.T) {
	names := func(words ...string) (out []string) {
		for _, r := range decode[[]scenarioRow](t, tool(t, append([]string{"chaos", "list", "--json"}, words...)...)) {
			out = append(out, r.Name)
		}
		return out
	}
	assert.Equal(t, []string{"f01-kill-the-leader", "f02-stop-the-leader", "f03-pause-the-leader"}, names("f0[123]*"))
	assert.Equal(t, []string{"all-sessions-are-frozen"}, names("ALL-sessions", "incarnations"))
	assert.Equal(t, exitFailed, tool(t, "chaos", "list", "no such word").code)
}

func TestChaosList_FitsInATerminal(t *testing.T) {
	for line := range strings.Lines(tool(t, "chaos", "list").stdout) {
		assert.LessOrEqual(t, utf8.RuneCountInString(line), usualWidth+1, line)
	}
}

func TestProblems_TooSlowIsNotBroken(t *testing.T) {
	r := &scenario.Result{
		Failures: []string{"line 4: expect new leader within 2s: no node leads", "line 3: expect same leader for 3s: false after 1s: no node leads"},
		Late:     []string{"line 4: expect new leader within 2s: no node leads"},
		Verdicts: []check.Verdict{{ID: "I1", Says: "a term has one owner", Violations: []check.Violation{{What: "two"}}}},
	}
	got := problems(r)
	require.Len(t, got, 3)
	assert.Equal(t, "TOO SLOW: "+r.Failures[0], got[0])
	assert.Equal(t, "BROKEN: "+r.Failures[1], got[1])
	assert.Contains(t, got[2], "BROKEN: I1")
}

func TestChaos_RefusesInvalidArguments(t *testing.T) {
	file := filepath.Join(t.TempDir(), "story.txt")
	require.NoError(t, os.WriteFile(file, []byte("# A story.\ncluster 3 meta 2 session 3 data\nat 1s kick leader\n"), 0o644))
	held := filepath.Join(t.TempDir(), "held.txt")
	require.NoError(t, os.WriteFile(held, []byte("# A story.\ncluster 3 meta 2 session 3 data\nat 1s skew clock of meta-1 by 1h\nuntil 2s\n"), 0o644))
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"an unknown name":         {[]string{"f99"}, exitUsage, `there is no scenario "f99" (near it: f09-slow-database, f19-kill-a-session), and no such file; list the scenarios with ` + "`conclave chaos list`"},
		"more than one":           {[]string{"f0"}, exitUsage, `9 scenarios begin with "f0"`},
		"a folder":                {[]string{filepath.Dir(file)}, exitUsage, "is a directory"},
		"a word that is none":     {[]string{file}, exitUsage, "story.txt:3"},
		"an act of the simulator": {[]string{held}, exitFailed, "cannot run on local (missing there: skew); play it with `make sim SCENARIO="},
		"nowhere":                 {[]string{"f01", "--on", "moon"}, exitUsage, "moon"},
		"never":                   {[]string{"f01", "--times", "0"}, exitUsage, "--times"},
		"none at once":            {[]string{"f01", "--parallel", "0"}, exitUsage, "--parallel"},
		"two on one cluster":      {[]string{"f01", "--parallel", "2", "--dir", t.TempDir()}, exitUsage, "there is one cluster"},
		"no name":                 {nil, exitUsage, "NAME|FILE"},
	} {
		t.Run(name, func(t *testing.T) {
			r := tool(t, append([]string{"chaos", "run"}, c.args...)...)
			assert.Equal(t, c.code, r.code, r.stderr)
			assert.Contains(t, r.stderr, c.want)
		})
	}
}

func TestFirstSentence(t *testing.T) {
	for about, want := range map[string]string{
		"F1: one line.": "F1: one line.",
		"It goes on\nin a second line, at 1.5 s. And a second sentence.": "It goes on in a second line, at 1.5 s.",
		"Is it? Yes.":     "Is it?",
		"no stop\nat all": "no stop at all",
		"":                "",
	} {
		assert.Equal(t, want, scenario.FirstSentence(about))
	}
}

func TestSummary_AddsASentenceToAShortOne(t *testing.T) {
	assert.Equal(t, "It is lost. Then it is back.", summary("It is\nlost. Then it is back. And more."))
	assert.Equal(t, "It is lost.", summary("It is lost."))
	long := "A session is killed, and its clients reconnect to the other sessions."
	assert.Equal(t, long, summary(long+" More."))
}

// An interrupted run reports it and leaves nothing behind.
func TestChaosRun_InterruptedLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Log("short: without real processes")
		return
	}
	realPrograms(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, interrupt := context.WithCancel(t.Context())
	var stderr bytes.Buffer
	output := &listener{word: "leads term", then: interrupt}
	code := run(ctx, []string{"chaos", "run", "f01"}, output, &stderr)
	assert.Equal(t, exitFailed, code)
	assert.Equal(t, "conclave: interrupted: this run was not checked and left nothing behind\n", stderr.String())
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// listener calls then when the word is written.
type listener struct {
	word string
	then func()
}

func (l *listener) Write(p []byte) (int, error) {
	if strings.Contains(string(p), l.word) {
		l.then()
	}
	return len(p), nil
}

// A scenario with every kind of fault for processes: signals, the network
// between them, and a lost answer of the database.
func TestChaos_OnRealProcesses(t *testing.T) {
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
	report := decode[report.Report](t, r)
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

// calm is a driver of a cluster without faults.
type calm struct {
	testbed.Cluster
	opens  error  // of Open
	ending func() // called by Close
}

func (c *calm) Open(context.Context, testbed.Size, *trace.Gate) error { return c.opens }

func (c *calm) Capabilities() *testbed.Capabilities { return &testbed.Capabilities{} }

func (c *calm) Events(func(time.Time, trace.Claim)) (bool, error) { return false, nil }

func (c *calm) Observe(context.Context) testbed.Snapshot {
	s := testbed.Snapshot{Leader: "meta-1", Term: 1, Leads: 1, Up: []string{"data-1", "meta-1", "session-1"}}
	s.Table.Slots = []slot.Slot{{Phase: slot.Stable, Leader: conclave.NodeID{Name: "data-1"}}}
	return s
}

func (c *calm) Close(context.Context) error {
	c.ending()
	return nil
}

// The scenario has run to its end, so a Ctrl-C while the cluster is being
// stopped has no effect on the result.
func TestChaosPlay_KeepsFailureWhenCleanUpIsInterrupted(t *testing.T) {
	scenario, err := scenario.Parse("scenario.txt", "cluster 1 meta 1 session 1 data 1 slots 1 replicas\nat 1ms expect no leader within 1ms\nuntil 10ms\n")
	require.NoError(t, err)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	stage := &runStage{dir: t.TempDir()}
	var stderr bytes.Buffer
	r, keep, err := stage.play(ctx, scenario, &calm{ending: interrupt}, &stderr)
	require.NoError(t, err)
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	assert.Len(t, r.Problems(), 1)
	assert.True(t, keep)
	assert.FileExists(t, filepath.Join(stage.dir, "history.txt"))
	assert.Contains(t, stderr.String(), stage.dir)

	_, keep, err = stage.play(ctx, scenario, &calm{opens: ctx.Err(), ending: func() {}}, &stderr)
	assert.Equal(t, errInterrupted, err, "the scenario did not run")
	assert.False(t, keep)
}

// `conclave chaos run NAME | head -2` ends as with Ctrl-C, as do demo and soak: no process
// and no folder is left.
func TestRun_ReaderOfTheOutputEnds(t *testing.T) {
	if testing.Short() {
		t.Log("short: without real processes")
		return
	}
	realPrograms(t)
	self, err := os.Executable()
	require.NoError(t, err)
	for args, says := range map[string]string{
		"chaos run f16": "left nothing behind",
		"demo":          "left nothing behind",
		"soak":          "", // its report cannot be written, which is no message
	} {
		t.Run(args, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			cmd := exec.CommandContext(t.Context(), self, strings.Fields(args)...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			var rows []supervisor.Process
			for lines := bufio.NewScanner(out); len(rows) == 0 && lines.Scan(); {
				dirs, err := filepath.Glob(filepath.Join(os.TempDir(), "conclave-*", "cluster"))
				require.NoError(t, err)
				if len(dirs) == 0 {
					continue
				}
				h, err := supervisor.Open(dirs[0])
				if err != nil {
					continue // it is being made
				}
				rows, err = h.Rows()
				require.NoError(t, err)
				if slices.ContainsFunc(rows, func(p supervisor.Process) bool { return p.PID == 0 }) {
					rows = nil // not all have been started
				}
			}
			require.NotEmpty(t, rows)
			require.NoError(t, out.Close())

			var exit *exec.ExitError
			require.ErrorAs(t, cmd.Wait(), &exit)
			assert.Equal(t, exitPipe, exit.ExitCode(), stderr.String())
			assert.Contains(t, stderr.String(), says)
			left, err := os.ReadDir(os.TempDir())
			require.NoError(t, err)
			assert.Empty(t, left)
			for _, p := range rows {
				assert.Error(t, syscall.Kill(p.PID, 0), "%s is still running", p.Name)
			}
		})
	}
}

func TestScenarioCheck_NamesWhereItRunsOrTheLineOfTheError(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	good := file("good.txt", "# It is good.\nat 1s skew clock of meta-1 by 1h\nat 2s expect leader within 1s\nuntil 3s\n")
	r := tool(t, "scenario", "check", good, "f01")
	assert.Equal(t, exitDone, r.code, r.stderr)
	assert.Contains(t, r.stdout, "good is valid: 1 action and 1 expectation in 3.0 s; it runs on simulator\n  not on compose, for it needs: skew\n  not on local, for it needs: skew\n")
	assert.Contains(t, r.stdout, "f01-kill-the-leader is valid: ")
	got := decode[[]scenarioInfo](t, tool(t, "--json", "scenario", "check", good))
	assert.Equal(t, []scenarioInfo{{Name: "good", About: "It is good.", Actions: 1, Expectations: 1, TakesMs: 3000, On: []string{"simulator"}, Needs: map[string][]string{"compose": {"skew"}, "local": {"skew"}}}}, got)

	r = tool(t, "scenario", "check", file("bad.txt", "at 1s kill leader\nat 2s kill leder\n"))
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.stderr, `bad.txt:2: unknown selector "leder"`)
	assert.Equal(t, exitUsage, tool(t, "scenario", "check").code)
}

func TestScenarioGrammar(t *testing.T) {
	assert.Equal(t, scenario.Grammar(), tool(t, "scenario", "grammar").stdout)
}
