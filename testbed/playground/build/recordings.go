package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// recordings plays the scenarios of the page in virtual time, and records them. The simulator
// fails in the one in which a guard is taken out, since a promise breaks, and in no other.
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
		if said, err := cmd.CombinedOutput(); (err != nil) != (name == "guard-out") {
			return fmt.Errorf("record %s: the simulator ends with %v: %s", name, err, said) //nolint:errorlint // it may be nil
		}
	}
	return nil
}
