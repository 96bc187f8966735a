package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"

	"conclave/testbed/console/journal"
)

// scenarios is where the scenarios of the recordings are, as NAME.txt.
const scenarios = "testbed/playground/page/scenarios"

// recorded are the recordings, with the guard of testbed/simulated/mutate that is missing in
// the cluster; "": none is, and every promise holds.
var recorded = []struct{ name, guard string }{
	{"leader-killed", ""},
	{"leader-frozen", ""},
	{"drain", ""},
	{"power-cut", ""},
	{"guard-out", "write without the lock row"},
}

// recordings plays the scenarios in virtual time.
func recordings(out, work string) error {
	if err := os.Mkdir(filepath.Join(out, "recordings"), 0o755); err != nil { //nolint:gosec // for everyone
		return err
	}
	simulators := map[string]string{} // by the guard that is missing
	for _, r := range recorded {
		if simulators[r.guard] == "" {
			file, err := simulator(work, r.guard)
			if err != nil {
				return err
			}
			simulators[r.guard] = file
		}
		if err := record(simulators[r.guard], r.name, filepath.Join(out, "recordings", r.name+".rec"), r.guard != ""); err != nil {
			return fmt.Errorf("record %s: %w", r.name, err)
		}
	}
	return nil
}

// simulator compiles the simulator without a guard, and with the overlay by which one seed
// gives one trace.
func simulator(work, guard string) (string, error) {
	work, err := filepath.Abs(work)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(work, "simulator")
	if err != nil {
		return "", err
	}
	overlays := [][]string{{"run", "./testbed/simulated/onetrace", "-out"}}
	if guard != "" {
		overlays = append(overlays, []string{"run", "./testbed/simulated/mutate", "-only", guard, "-overlay"})
	}
	var all struct{ Replace map[string]string }
	all.Replace = map[string]string{}
	for i, args := range overlays {
		part := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(part, 0o700); err != nil {
			return "", err
		}
		if _, err := goTool(nil, append(args, part)...); err != nil {
			return "", err
		}
		text, err := os.ReadFile(filepath.Join(part, "overlay.json"))
		if err != nil {
			return "", err
		}
		var o struct{ Replace map[string]string }
		if err := json.Unmarshal(text, &o); err != nil {
			return "", err
		}
		maps.Copy(all.Replace, o.Replace)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return "", err
	}
	overlay, file := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "sim.test")
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return "", err
	}
	_, err = goTool([]string{"CGO_ENABLED=0"}, "test", "-trimpath", "-overlay", overlay, "-tags", "onetrace", "-c", "-o", file, "./testbed/simulated")
	return file, err
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
