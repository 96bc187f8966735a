package simulated_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/long"
	"conclave/testbed/scenario"
	"conclave/testbed/simulated"
)

var (
	only   = flag.String("scenario", "", "play only this scenario: a built-in one or a file")
	seed   = flag.Uint64("seed", 0, "the seed to play")
	record = flag.String("record", "", "write logs and histories to this folder")
	tell   = flag.Bool("timeline", false, "print what is done and what changes, and the result")
	tape   = flag.String("recording", "", "record the run in this file, which `conclave console` plays")
	all    = flag.Bool("all", long.All(), "play all scenarios")
)

// raced are the scenarios that are also played under the race detector, which
// takes ten times as long: an election, a crash of each other role, broken
// links.
var raced = []string{"f01-kill-the-leader", "f16-kill-a-data-node", "f19-kill-a-session", "half-open-feeds"}

// share matches the names of the scenarios that make test plays, F1 to F8: one fault each,
// of the election and of the metas. `make sim STORIES=1` plays all.
var share = regexp.MustCompile(`^f0[1-8]-`)

// TestStories plays every built-in scenario, and the examples, in a bubble.
func TestStories(t *testing.T) {
	examples, err := filepath.Glob("../scenario/examples/*.txt")
	require.NoError(t, err)
	names := append(scenario.Names(), examples...)
	switch {
	case *only != "":
		names = []string{*only}
	case raceDetector:
		t.Logf("under the race detector %d of %d scenarios are played", len(raced), len(names))
		names = raced
	case !*all:
		names = slices.DeleteFunc(names, func(name string) bool { return !share.MatchString(name) })
		t.Logf("%d of %d scenarios are played; make sim STORIES=1 plays all", len(names), len(scenario.Names())+len(examples))
	}
	collectSeldom(t)
	next, err := numbers(*queue)
	require.NoError(t, err)
	for {
		at, err := next()
		require.NoError(t, err)
		if at >= len(names) {
			break
		}
		name := names[at]
		t.Run(name, func(t *testing.T) {
			s, err := load(name)
			require.NoError(t, err)
			s.Cluster.Seed = max(1, *seed)
			if r := playAndCheck(t, s); t.Failed() && *tell {
				because(t, r)
			}
		})
	}
}

// collectSeldom leaves collecting to simulated.Play, which runs the collector before
// each scenario in the build of `make sim`; elsewhere it makes it rarer.
func collectSeldom(t *testing.T) {
	percent := 400
	if simulated.OneTrace {
		percent = -1
		wantLargePages()
	}
	before := debug.SetGCPercent(percent)
	t.Cleanup(func() { debug.SetGCPercent(before) })
}

// load returns the scenario of a file, or else the built-in one of that name.
func load(name string) (scenario.Scenario, error) {
	if text, err := os.ReadFile(name); err == nil {
		return scenario.Parse(name, string(text))
	}
	return scenario.Builtin(name)
}

// playAndCheck plays one scenario and fails the test for each problem.
func playAndCheck(t *testing.T, s scenario.Scenario) *scenario.Result {
	var o simulated.Options
	if *record != "" {
		f, err := os.Create(filepath.Join(*record, s.Name+".log"))
		require.NoError(t, err)
		defer f.Close()
		o.Log = f
	}
	if *tell {
		o.Timeline = os.Stdout
	}
	if *tape != "" {
		o.Recording = &simulated.Recording{}
	}
	r, err := simulated.Play(t, s, o)
	assert.NoError(t, err) // if only the end of the cluster failed, the result is complete
	if *tell {
		conclude(s, r)
	}
	if r.Skipped != "" {
		t.Skip(r.Skipped)
	}
	if o.Recording != nil {
		keep(t, *tape, o.Recording, r)
	}
	if *record != "" {
		f, err := os.Create(filepath.Join(*record, s.Name+".history"))
		require.NoError(t, err)
		defer f.Close()
		require.NoError(t, simulated.Transcript(f, r))
	}
	for _, p := range r.Problems() {
		assert.Fail(t, p)
	}
	if t.Failed() {
		t.Logf("play it again: %s\n%s", command(s), s)
	}
	for _, f := range r.Figures {
		t.Log(f)
	}
	return r
}

// conclude prints the result of a run.
func conclude(s scenario.Scenario, r *scenario.Result) {
	fmt.Println()
	for _, f := range r.Figures {
		fmt.Println(f)
	}
	checks, result := 0, "all invariants held"
	for _, v := range r.Verdicts {
		checks += v.Checks
	}
	switch {
	case r.Skipped != "":
		result = "not played: " + r.Skipped
	case !r.Ok():
		result = "FAILED:\n" + strings.Join(r.Problems(), "\n")
	}
	fmt.Printf("%s, seed %d: %s (%d checks)\n", s.Name, s.Cluster.Seed, result, checks)
}

// keep writes a recording to a file.
func keep(t *testing.T, name string, recording *simulated.Recording, r *scenario.Result) {
	f, err := os.Create(name)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, recording.Write(f, r))
	require.NoError(t, f.Close())
	fmt.Printf("recording: %s; play it: bin/conclave console --recording %[1]s\n", name)
}

// command returns the command that plays the scenario again.
func command(s scenario.Scenario) string {
	if s.Name == fmt.Sprintf("storm-%d", s.Cluster.Seed) {
		return fmt.Sprintf("make sim SEED=%d", s.Cluster.Seed)
	}
	return fmt.Sprintf("make sim SCENARIO=%s SEED=%d", s.Name, s.Cluster.Seed)
}
