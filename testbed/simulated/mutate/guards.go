package main

import (
	"slices"
	"strconv"
	"strings"
)

// guard is a place in the cluster's code that keeps an invariant, and the patch
// that removes it.
type guard struct {
	name string
	patch
	more    []patch  // further patches that belong to it
	covered []string // the guards that have the same effect; all are removed together
	by      []play   // the plays that are known to fail without it, soonest first
	test    unit     // the test that fails without it if no play does
}

// unit names a test of a package.
type unit struct{ pkg, name string }

// patch replaces the text was, which must occur exactly once in the file, with
// the text is.
type patch struct{ file, was, is string }

// guards lists all guards. docs/mutations.md has the result for each.
var guards = slices.Concat(
	electionGuards,
	dataGuards,
	orderGuards,
	slotGuards,
	sessionGuards,
	operatorGuards,
	articleGuards,
)

// on returns the plays of scenarios, given as NAME, which is played with seed
// 1, or as NAME@SEED. The name "storm" stands for the storm of the seed.
func on(scenarios ...string) []play {
	var out []play
	for _, s := range scenarios {
		name, seed, found := strings.Cut(s, "@")
		p := play{name, 1}
		if found {
			p.seed, _ = strconv.ParseUint(seed, 10, 64)
		}
		if name == "storm" {
			p.scenario = ""
		}
		out = append(out, p)
	}
	return out
}
