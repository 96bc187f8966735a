package main

import (
	"slices"
	"strings"
)

// guard is a place in the cluster's code that keeps an invariant, and the patch
// that removes it.
type guard struct {
	name string
	patch
	more []patch // further patches that belong to it, or that remove guards with the same effect
	by   []unit  // the plays that are known to fail without it, soonest first
	test unit    // the test that fails without it if no play does
}

// unit names a test of a package, and its flags.
type unit struct {
	pkg, name string
	flags     []string
}

// patch replaces the text was, which must occur exactly once in the file, with
// the text is.
type patch struct{ file, was, is string }

// guards lists all guards. docs/mutations.md has what fails without each.
var guards = slices.Concat(clusterGuards, articleGuards)

// on returns the plays of scenarios, given as NAME, which is played with seed
// 1, or as NAME@SEED. The name "storm" stands for the storm of the seed.
func on(scenarios ...string) (out []unit) {
	for _, s := range scenarios {
		name, seed, found := strings.Cut(s, "@")
		if !found {
			seed = "1"
		}
		play := unit{"./testbed/simulated", "TestStories", []string{"-cpu", "1", "-seed", seed, "-scenario", name}}
		if name == "storm" {
			play.name, play.flags = "TestStorms", []string{"-cpu", "1", "-seed", seed, "-shrink", "0"}
		}
		out = append(out, play)
	}
	return out
}

// test returns a test without flags.
func test(pkg, name string) unit { return unit{pkg: pkg, name: name} }
