package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"conclave/testbed/console/journal"
)

// scenarios is where the scenarios of the recordings are, as NAME.txt.
const scenarios = "testbed/playground/page/scenarios"

// recorded are the recordings. A promise breaks in one of them.
var recorded = []struct {
	name   string
	breaks bool
}{{"leader-killed", false}, {"leader-frozen", false}, {"drain", false}, {"power-cut", false}, {"guard-out", true}}

// recordings plays the scenarios in virtual time.
func recordings(out string) error {
	if err := os.Mkdir(filepath.Join(out, "recordings"), 0o755); err != nil { //nolint:gosec // for everyone
		return err
	}
	simulator, err := filepath.Abs(filepath.Join(work, "sim.test"))
	if err != nil {
		return err
	}
	if _, err := goTool([]string{"CGO_ENABLED=0"}, "test", "-trimpath", "-overlay", oneTrace, "-tags", "onetrace", "-c", "-o", simulator, "./testbed/simulated"); err != nil {
		return err
	}
	for _, r := range recorded {
		if err := record(simulator, r.name, filepath.Join(out, "recordings", r.name+".rec"), r.breaks); err != nil {
			return fmt.Errorf("record %s: %w", r.name, err)
		}
	}
	return nil
}

// record plays one scenario into a file, and checks that promises are broken in it, or that
// none is.
func record(simulator, name, file string, breaks bool) error {
	scenario, err := filepath.Abs(filepath.Join(scenarios, name+".txt"))
	if err != nil {
		return err
	}
	if file, err = filepath.Abs(file); err != nil {
		return err
	}
	cmd := exec.Command(simulator, "-test.run", "^TestStories$", "-test.timeout", "5m", "-scenario", scenario, "-seed", "1", "-recording", file)
	cmd.Dir = "testbed/simulated"
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=400", "GODEBUG=memprofilerate=0")
	said, failed := cmd.CombinedOutput()
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("the simulator has recorded nothing: %w\n%s", err, said)
	}
	defer f.Close()
	r, err := journal.Open(f)
	if err != nil {
		return err
	}
	broken := 0
	for _, v := range r.Result.Verdicts {
		broken += len(v.Violations)
	}
	if breaks != (broken > 0) || breaks != (failed != nil) || len(r.Result.Failures) > 0 {
		return fmt.Errorf("%d promises were broken, want some: %t; the simulator: %s\n%s", broken, breaks, fmt.Sprint(failed), said)
	}
	return nil
}
