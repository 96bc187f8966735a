package demo

import (
	_ "embed"
	"strings"

	"conclave/testbed/scenario"
)

var (
	//go:embed demo.txt
	scenes string
	//go:embed outages.txt
	outages string // further scenes, which need hosts of their own and a real database
	//go:embed kills.txt
	kills string
)

// Scenario returns the demo; with containers also its scenes that need them.
func Scenario(containers bool) (scenario.Scenario, error) {
	if containers {
		return scenario.Parse("demo.txt", scenes+outages)
	}
	return scenario.Parse("demo.txt", scenes)
}

// Kills returns the scenario that kills the leader n times.
func Kills(n int) (scenario.Scenario, error) {
	head, round, _ := strings.Cut(kills, "scene ")
	return scenario.Parse("kills.txt", head+strings.Repeat("scene "+round, n))
}
