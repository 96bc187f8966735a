package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"conclave/testbed/console/journal"
)

// recordings plays the scenarios of the page in virtual time, and records them. A promise
// breaks in the one in which a guard is taken out, and in no other.
func recordings(out string) error {
	const simulator = work + "/sim.test"
	if _, err := goTool([]string{"CGO_ENABLED=0"}, "test", "-trimpath", "-overlay", oneTrace, "-tags", "onetrace", "-c", "-o", simulator, "./testbed/simulated"); err != nil {
		return err
	}
	scenarios, err := filepath.Glob("testbed/playground/page/scenarios/*.txt")
	if err != nil {
		return err
	}
	for _, s := range scenarios {
		name := strings.TrimSuffix(filepath.Base(s), ".txt")
		file := filepath.Join(out, "recordings", name+".rec")
		cmd := exec.Command("../../"+simulator, "-test.run", "^TestStories$", "-test.timeout", "5m", "-scenario", "../../"+s, "-seed", "1", "-recording", file)
		cmd.Dir = "testbed/simulated"
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=400", "GODEBUG=memprofilerate=0")
		said, failed := cmd.CombinedOutput()
		if err := checked(file, name == "guard-out", failed); err != nil {
			return fmt.Errorf("record %s: %w; the simulator: %s", name, err, said)
		}
	}
	return nil
}

// checked returns an error unless promises are broken in a recording as they should, and
// the simulator has failed if they are.
func checked(file string, breaks bool, failed error) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	r, err := journal.Open(bytes.NewReader(text))
	if err != nil {
		return err
	}
	broken := 0
	for _, v := range r.Result.Verdicts {
		broken += len(v.Violations)
	}
	if breaks != (broken > 0) || breaks != (failed != nil) || len(r.Result.Failures) > 0 {
		return fmt.Errorf("%d promises were broken, want some: %t; %w", broken, breaks, failed)
	}
	return nil
}
