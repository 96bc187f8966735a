package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// remove writes an overlay in which the guards are missing, into dir.
func remove(dir string, out []guard) error {
	texts := map[string]string{}
	for _, g := range out {
		for _, p := range append([]patch{g.patch}, g.more...) {
			if err := p.apply(texts); err != nil {
				return err
			}
		}
	}
	replace := map[string]string{}
	for name, text := range texts {
		file, err := filepath.Abs(filepath.FromSlash(name))
		if err != nil {
			return err
		}
		patched := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(patched, []byte(text), 0o600); err != nil {
			return err
		}
		replace[file] = patched
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), raw, 0o600)
}

// compile builds the simulator's test binary with the overlay in dir.
func compile(dir string) (binary string, err error) {
	binary = filepath.Join(dir, "sim.test")
	build := exec.Command("go", "test", "-overlay", filepath.Join(dir, "overlay.json"), "-c", "-o", binary, "./testbed/simulated")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the patched code does not compile: %w\n%s", err, out)
	}
	return binary, nil
}

// apply replaces the patch's text in the text of its file. texts has the files
// that were patched already, by name.
func (p patch) apply(texts map[string]string) error {
	text, known := texts[p.file]
	if !known {
		raw, err := os.ReadFile(filepath.FromSlash(p.file))
		if err != nil {
			return err
		}
		text = string(raw)
	}
	if n := strings.Count(text, p.was); n != 1 {
		return fmt.Errorf("%s contains %q %d times, want once", p.file, p.was, n)
	}
	texts[p.file] = strings.Replace(text, p.was, p.is, 1)
	return nil
}

// play names a scenario, or a storm, and its seed.
type play struct {
	scenario string // "" for the storm of the seed
	seed     uint64
}

// play plays it and returns what failed, or "".
func (p play) play(binary string) (found string, err error) {
	args := []string{"-test.run", "^TestStorms$", "-shrink", "0"}
	if p.scenario != "" {
		args = []string{"-test.run", "^TestStories$", "-scenario", p.scenario}
	}
	return runSimulator(binary, append(args, "-seed", fmt.Sprint(p.seed)))
}

// fails reports whether the test fails with the overlay in dir.
func (u unit) fails(dir string) (bool, error) {
	args := []string{"test", "-overlay", filepath.Join(dir, "overlay.json"), "-run", "^" + u.name + "$", "-timeout", "5m", "-v", u.pkg}
	if u.pkg == "./data" {
		args = append(args, "-rapid.nofailfile") // otherwise rapid writes a file beside the tests
	}
	run := exec.Command("go", args...)
	out, err := run.CombinedOutput()
	switch {
	case err == nil && !bytes.Contains(out, []byte("--- PASS: "+u.name)):
		return false, fmt.Errorf("%s: no test %s", u.pkg, u.name)
	case err == nil:
		return false, nil
	case !bytes.Contains(out, []byte("--- FAIL: "+u.name)):
		return false, fmt.Errorf("%s %s did not run: %w\n%s", u.pkg, u.name, err, out)
	}
	return true, nil
}

// runSimulator runs the simulator's tests and returns what failed, or "".
func runSimulator(binary string, args []string) (found string, err error) {
	run := exec.Command(binary, append(args, "-test.timeout", "4h")...)
	run.Dir = filepath.Join("testbed", "simulated")
	run.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=400")
	out, err := run.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case !errors.As(err, &exit):
		return "", err
	}
	found = finding(out)
	for i, a := range args {
		if a == "-scenario" {
			found = strings.Replace(found, ":", " seed "+args[i+3]+":", 1)
		}
	}
	return found, nil
}

var (
	failed  = regexp.MustCompile(`--- FAIL: Test(Stories|Storms)/(\S+)`)
	problem = regexp.MustCompile(`Error:\s+(.*)`)
)

// finding returns the scenario or the storm that failed in the output of a run,
// and the first problem.
func finding(out []byte) string {
	where, what := "?", "it crashed"
	if m := failed.FindSubmatch(out); m != nil {
		where = string(m[2])
		if string(m[1]) == "Storms" {
			where = "storm " + where
		}
	}
	if m := problem.FindSubmatch(out); m != nil {
		what = string(m[1])
	} else if i := bytes.Index(out, []byte("panic:")); i >= 0 {
		line, _, _ := bytes.Cut(out[i:], []byte("\n"))
		what = string(line)
	}
	if len(what) > 110 {
		what = what[:110] + ".."
	}
	return where + ": " + what
}
