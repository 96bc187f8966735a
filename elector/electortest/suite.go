package electortest

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	_ "conclave/internal/bubble" // one processor under the race detector
)

// Factory makes a new world for one test. Run calls it inside the bubble, if there is one.
type Factory func(t *testing.T) World

// testCase is one test of the suite.
type testCase struct {
	name string
	run  func(*testing.T, World)
}

// cases returns the tests that every strategy must pass.
func cases() []testCase {
	return []testCase{
		{"one leader of many, and all learn the same", oneLeaderOfMany},
		{"losing is a result", losingIsAResult},
		{"a resignation lets the next round win at once", resigning},
		{"a leader that returns from Lead resigns", leadReturns},
		{"a lone leader that resigned comes back after two leases", resigningAlone},
		{"a dead leader is replaced, terms rise", deadLeader},
		{"a partitioned leader stops before the next one leads", partition},
		{"a leader cut from the store stops by itself", cutFromStore},
		{"trust counts from before the request", trustFromBefore},
		{"an observer never competes", observer},
		{"quit resigns, join competes", quitAndJoin},
		{"a restarted name gets a new term", restarted},
		{"no lost answer makes two leaders", lostAnswers},
		{"a promise is kept although the win was acknowledged", promise},
		{"a higher term seen elsewhere makes the leader jump above it", outranked},
		{"Lead has returned before the next campaign", leadReturnsFirst},
		{"an unreachable leader abstains, at most once in ten leases", abstain},
		{"shutdown hands over", shutdown},
		{"an old leader's effect is refused by the store", staleAct},
		{"no election without a fault", calm},
	}
}

// Run runs the suite against the strategy of the worlds that factory makes. If bubble
// is set, the worlds are in memory and each test runs in a synctest bubble. except
// names the cases that this strategy fails: a faithful copy of an article's election
// has the article's weaknesses, and lists them there. Each of them is run in a process
// of its own, and must fail there.
func Run(t *testing.T, bubble bool, factory Factory, except ...string) {
	names := map[string]bool{}
	for _, c := range cases() {
		names[c.name] = true
		t.Run(c.name, func(t *testing.T) {
			if slices.Contains(except, c.name) && os.Getenv(exemptEnv) == "" {
				failsAlone(t)
				return
			}
			if !bubble {
				c.run(t, factory(t))
				return
			}
			synctest.Test(t, func(t *testing.T) { c.run(t, factory(t)) })
		})
	}
	for _, name := range except {
		assert.True(t, names[name], "the suite has no case %q", name)
	}
}

// exemptEnv is set in the process that runs an exempt case.
const exemptEnv = "ELECTORTEST_EXEMPT"

// failsAlone runs the present test in a process of its own and checks that it fails
// there.
func failsAlone(t *testing.T) {
	var pattern []string
	for part := range strings.SplitSeq(t.Name(), "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	run := exec.Command(os.Args[0], "-test.run", strings.Join(pattern, "/"), "-test.timeout", "1m")
	run.Env = append(os.Environ(), exemptEnv+"=1")
	out, err := run.CombinedOutput()
	assert.Error(t, err, "an exempt case passes")
	assert.Contains(t, string(out), "--- FAIL: "+t.Name()+" ")
}
