package demo

import (
	_ "embed"

	"conclave/testbed/scenario"
)

var (
	//go:embed demo.txt
	scenes string
	//go:embed outages.txt
	outages string // further scenes, which need hosts of their own and a real database
)

// Scenario returns the demo; with containers also its scenes that need them.
func Scenario(containers bool) (scenario.Scenario, error) {
	if containers {
		return scenario.Parse("demo.txt", scenes+outages)
	}
	return scenario.Parse("demo.txt", scenes)
}
