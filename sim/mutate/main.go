// Command mutate takes the guards of the cluster's code out, one at a time, and
// lets the simulator look for what then goes wrong: a guard that nobody misses is
// either not needed, or not tested. It prints for each guard the story or the
// seed, and the invariant that caught it.
//
//	go run ./sim/mutate [-only WORDS] [-seeds N]
//
// Nothing is changed on disk: the go command compiles with an overlay.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	only := flag.String("only", "", "only guards with these words in their name")
	seeds := flag.Int("seeds", 100, "how many storms to try, when the story does not catch it")
	flag.Parse()
	missed, err := run(*only, *seeds)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
	if missed > 0 {
		os.Exit(2)
	}
}

func run(only string, seeds int) (missed int, err error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder
	caught := 0
	for _, g := range guards {
		if !strings.Contains(g.name, only) {
			continue
		}
		by, err := g.play(dir, seeds)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", g.name, err)
		}
		if by == "" {
			missed++
			by = fmt.Sprintf("NOBODY in %d storms", seeds)
		} else {
			caught++
		}
		fmt.Printf("%-55s caught by %s\n", g.name, by)
	}
	fmt.Printf("%d guards taken out, %d missed by somebody, %d by nobody\n", caught+missed, caught, missed)
	return missed, nil
}

// without is the file's text without the guard.
func (g guard) without() (string, error) {
	text, err := os.ReadFile(filepath.FromSlash(g.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), g.was); n != 1 {
		return "", fmt.Errorf("%s has %q %d times", g.file, g.was, n)
	}
	return strings.Replace(string(text), g.was, g.is, 1), nil
}

// play compiles the simulator without the guard, and plays until something is
// found. It says by what.
func (g guard) play(dir string, seeds int) (string, error) {
	text, err := g.without()
	if err != nil {
		return "", err
	}
	patched, overlay, binary := filepath.Join(dir, filepath.Base(g.file)), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "sim.test")
	if err := os.WriteFile(patched, []byte(text), 0o600); err != nil {
		return "", err
	}
	file, err := filepath.Abs(g.file)
	if err != nil {
		return "", err
	}
	raw, err := json.Marshal(map[string]any{"Replace": map[string]string{file: patched}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, raw, 0o600); err != nil {
		return "", err
	}
	build := exec.Command("go", "test", "-overlay", overlay, "-c", "-o", binary, "./sim")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("it does not compile: %w\n%s", err, out)
	}
	for _, args := range [][]string{
		{"-test.run", "^TestStories$", "-scenario", g.story},
		{"-test.run", "^TestStorms$", "-seed", "1", "-seeds", fmt.Sprint(seeds), "-shrink", "0", "-test.failfast"},
	} {
		run := exec.Command(binary, append(args, "-test.timeout", "20m")...)
		run.Dir = "sim"
		run.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=400")
		if out, err := run.CombinedOutput(); err != nil {
			return finding(out), nil
		}
	}
	return "", nil
}

var (
	failed  = regexp.MustCompile(`--- FAIL: Test(?:Stories|Storms)/(\S+)`)
	problem = regexp.MustCompile(`Error:\s+(.*)`)
)

// finding is what a failed run says: the story or the seed, and the invariant.
func finding(out []byte) string {
	where, what := "?", "it crashed"
	if m := failed.FindSubmatch(out); m != nil {
		where = string(m[1])
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
