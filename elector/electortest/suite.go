package electortest

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// Factory makes a fresh world for one test: inside the bubble, if bubble is true.
type Factory func(t *testing.T) World

// claim is one test of the suite.
type claim struct {
	name string
	play func(*testing.T, World)
}

// claims are what every strategy is held to.
func claims() []claim {
	return []claim{
		{"one leader of many, and all learn the same", oneLeaderOfMany},
		{"losing is a result", losingIsAResult},
		{"a resignation lets the next round win at once", resigning},
		{"a leader that returns from Lead resigns", leadReturns},
		{"a lone leader that resigned comes back after two leases", resigningAlone},
		{"a dead leader is followed, terms rise", deadLeader},
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
		{"a useless leader abstains, at most once in ten leases", abstain},
		{"shutdown hands over", shutdown},
		{"an old leader's effect is refused by the store", staleAct},
		{"calm means calm", calm},
	}
}

// Run plays the suite against the strategy of the worlds that factory makes. bubble
// says that they are in memory: then each test runs in a synctest bubble. except
// names the claims that this strategy does not make: a faithful copy of an article's
// way has the article's weaknesses, and says so here.
func Run(t *testing.T, bubble bool, factory Factory, except ...string) {
	names := map[string]bool{}
	for _, claim := range claims() {
		names[claim.name] = true
		if slices.Contains(except, claim.name) {
			continue
		}
		t.Run(claim.name, func(t *testing.T) {
			if !bubble {
				claim.play(t, factory(t))
				return
			}
			synctest.Test(t, func(t *testing.T) { claim.play(t, factory(t)) })
		})
	}
	for _, name := range except {
		assert.True(t, names[name], "the suite has no claim %q", name)
	}
}
