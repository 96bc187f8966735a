package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	only := flag.String("only", "", "try only guards whose name contains one of these words, separated by |")
	overlay := flag.String("overlay", "", "only write overlay.json, in which the guards are missing, into this folder")
	flag.Parse()
	missed, err := run(*only, *overlay)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
	if missed > 0 {
		os.Exit(2)
	}
}

func run(only, overlay string) (missed int, err error) {
	selected := slices.DeleteFunc(slices.Clone(guards), func(g guard) bool {
		return !slices.ContainsFunc(strings.Split(only, "|"), func(words string) bool { return strings.Contains(g.name, words) })
	})
	if overlay != "" {
		return 0, remove(overlay, selected...)
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder
	began := time.Now()
	for _, g := range selected {
		by, err := g.result(dir)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", g.name, err)
		}
		if by == "" {
			missed++
			by = "NOT CAUGHT"
		}
		fmt.Printf("%-55s %s\n", g.name, by)
	}
	fmt.Fprintf(os.Stderr, "%d guards removed in %s: %d not caught\n", len(selected), time.Since(began).Round(time.Second), missed)
	return missed, nil
}

// result removes the guard and returns what failed then, or "" if nothing did.
func (g guard) result(dir string) (string, error) {
	if err := remove(dir, g); err != nil {
		return "", err
	}
	for _, u := range append(slices.Clone(g.by), g.test) {
		if u.name == "" {
			continue
		}
		if why, err := u.fails(dir); err != nil || why != "" {
			return why, err
		}
	}
	return "", nil
}

// remove writes an overlay in which the guards are missing, into dir.
func remove(dir string, out ...guard) error {
	texts, applied := map[string]string{}, map[patch]bool{}
	for _, g := range out {
		for _, p := range append([]patch{g.patch}, g.more...) {
			if applied[p] {
				continue // guards that cover each other have it in common
			}
			applied[p] = true
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
		replace[file] = filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(replace[file], []byte(text), 0o600); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), raw, 0o600)
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

// limit is for one test, or one play.
const limit = 30 * time.Minute

// problem is what a test, or a play of the simulator, says first.
var problem = regexp.MustCompile(`Error:\s+(.{0,110})|(panic: .{0,110})`)

// fails plays the test with the overlay in dir. It returns what failed, or "".
func (u unit) fails(dir string) (why string, err error) {
	args := []string{"test", "-overlay", filepath.Join(dir, "overlay.json"), "-run", "^" + u.name + "$", "-timeout", limit.String(), "-v", u.pkg}
	if u.pkg == "./data" {
		args = append(args, "-rapid.nofailfile") // otherwise rapid writes a file beside the tests
	}
	run := exec.Command("go", append(args, u.flags...)...)
	run.Env = append(os.Environ(), "GOGC=400")
	out, err := run.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil && !bytes.Contains(out, []byte("--- PASS: "+u.name)):
		return "", fmt.Errorf("%s: no test %s", u.pkg, u.name)
	case err == nil:
		return "", nil
	case bytes.Contains(out, []byte("panic: test timed out")):
		return "", fmt.Errorf("%s %s has not ended within %v", u.pkg, u.name, limit)
	case !errors.As(err, &exit), !bytes.Contains(out, []byte("--- FAIL: "+u.name)) && !bytes.Contains(out, []byte("panic: ")):
		return "", fmt.Errorf("%s %s did not run: %w\n%s", u.pkg, u.name, err, out)
	}
	return strings.TrimSpace(fmt.Sprintln("caught by", u.pkg, u.name, strings.Join(u.flags, " "), "", string(problem.Find(out)))), nil
}
