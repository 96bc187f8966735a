package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDemo_RefusesInvalidFlags(t *testing.T) {
	for want, args := range map[string][]string{
		`invalid argument "cloud" for "--on" flag: want local or compose`:       {"--on", "cloud"},
		`invalid argument "force" for "--takeover" flag: want witness or lease`: {"--on", "compose", "--takeover", "force"},
		`--project: project name "My cluster"`:                                  {"--on", "compose", "--project", "My cluster"},
	} {
		r := tool(t, append([]string{"demo"}, args...)...)
		assert.Equal(t, exitUsage, r.code, want)
		assert.Contains(t, r.stderr, want)
	}
}

func TestDemo_ReportsMissingDocker(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	r := tool(t, "demo", "--on", "compose")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, "docker compose cannot be used here")
}
