package main

import (
	"slices"
	"strconv"
	"strings"
)

// guard is one place in the cluster's code that keeps an invariant, and the same
// place without it. Was must occur exactly once in the file.
type guard struct {
	name string
	patch
	more    []patch  // that belong to it
	covered []string // other guards that do the same: all are taken out together
	by      []play   // what is known to catch it, soonest first
	test    unit     // what catches it where no story does
	open    string   // why nothing does
}

// unit is a test of a package.
type unit struct{ pkg, name string }

// patch is one place, and the same place without the guard. Was must occur
// exactly once in the file.
type patch struct{ file, was, is string }

// guards are what the storms and the stories have to miss when it is gone.
var guards = slices.Concat(electionGuards, dataGuards, sessionGuards)

// on lists plays: stories with seed 1, or NAME@SEED.
func on(stories ...string) []play {
	var out []play
	for _, s := range stories {
		name, seed, found := strings.Cut(s, "@")
		p := play{name, 1}
		if found {
			p.seed, _ = strconv.ParseUint(seed, 10, 64)
		}
		if name == "storm" {
			p.story = ""
		}
		out = append(out, p)
	}
	return out
}
