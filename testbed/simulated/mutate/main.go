package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// options are the flags.
type options struct {
	only    string
	overlay string
}

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "try only guards whose name contains one of these words, separated by |")
	flag.StringVar(&o.overlay, "overlay", "", "only write overlay.json, in which the guards are missing, into this folder")
	flag.Parse()
	missed, err := run(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
	if missed > 0 {
		os.Exit(2)
	}
}

func run(o options) (missed int, err error) {
	if o.overlay != "" {
		out := slices.DeleteFunc(slices.Clone(guards), func(g guard) bool { return !g.selected(o.only) })
		return 0, remove(o.overlay, out)
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder
	caught, began := 0, time.Now()
	for _, g := range guards {
		if !g.selected(o.only) {
			continue
		}
		by, err := g.result(dir)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", g.name, err)
		}
		if by == "" {
			missed++
			by = "NOT CAUGHT"
		} else {
			caught++
		}
		fmt.Printf("%-55s %s\n", g.name, by)
	}
	fmt.Fprintf(os.Stderr, "%d guards removed in %s: %d caught, %d not caught\n", caught+missed, time.Since(began).Round(time.Second), caught, missed)
	return missed, nil
}

// selected reports whether the guard's name contains one of the words.
func (g guard) selected(only string) bool {
	for words := range strings.SplitSeq(only, "|") {
		if strings.Contains(g.name, words) {
			return true
		}
	}
	return false
}

// result removes the guard, together with those that cover it, and returns what
// failed then, or "" if nothing did.
func (g guard) result(dir string) (string, error) {
	out := []guard{g}
	for _, name := range g.covered {
		other, err := find(name)
		if err != nil {
			return "", err
		}
		out = append(out, other)
	}
	if err := remove(dir, out); err != nil {
		return "", err
	}
	if len(g.by) == 0 {
		return g.unitResult(dir)
	}
	binary, err := compile(dir)
	if err != nil {
		return "", err
	}
	for _, p := range g.by {
		by, err := p.play(binary)
		switch {
		case err != nil:
			return "", err
		case by != "" && len(g.covered) > 0:
			return fmt.Sprintf("covered by \"%s\" (removed together: %s)", strings.Join(g.covered, `" and "`), by), nil
		case by != "":
			return "caught by " + by, nil
		}
	}
	return g.unitResult(dir)
}

// unitResult runs the guard's test, if it has one, and returns what failed, or
// "".
func (g guard) unitResult(dir string) (string, error) {
	if g.test.name == "" {
		return "", nil
	}
	fails, err := g.test.fails(dir)
	if err != nil || !fails {
		return "", err
	}
	return fmt.Sprintf("caught by the test %s of %s, by no scenario", g.test.name, g.test.pkg), nil
}

// find returns the guard of that name.
func find(name string) (guard, error) {
	for _, g := range guards {
		if g.name == name {
			return g, nil
		}
	}
	return guard{}, fmt.Errorf("no guard %q", name)
}
