package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/scenario"
)

// Every patch must fit its file, and every guard and scenario that a guard
// names must exist.
func TestGuards_FitTheCode(t *testing.T) {
	t.Chdir("../../..")
	names := map[string]bool{}
	for _, g := range guards {
		texts := map[string]string{}
		for _, p := range append([]patch{g.patch}, g.more...) {
			assert.NoError(t, p.apply(texts), g.name)
		}
		assert.False(t, names[g.name], "two guards are named %s", g.name)
		names[g.name] = true
		for _, other := range g.covered {
			_, err := find(other)
			assert.NoError(t, err, g.name)
		}
		for _, p := range g.by {
			if p.scenario != "" {
				_, err := scenario.Builtin(p.scenario)
				assert.NoError(t, err, g.name)
			}
		}
	}
	assert.GreaterOrEqual(t, len(guards), 20)
}

// Each claim in docs/articles.md names a mutation beside the test that catches it,
// and each mutation of an article's claim is in a row.
func TestArticleGuards_AreNamedByTheirRows(t *testing.T) {
	text, err := os.ReadFile("../../../docs/articles.md")
	require.NoError(t, err)
	quoted := regexp.MustCompile("`([^`]+)`")
	named := map[string]bool{}
	claims := false // the line is in a table of claims
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| claim |") {
			claims = strings.HasPrefix(line, "| claim |")
			continue
		}
		if !claims || strings.HasPrefix(line, "| ---") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		require.Len(t, cells, 4, line)
		mutations := quoted.FindAllStringSubmatch(cells[3], -1)
		assert.NotEmpty(t, mutations, "no mutation: %s", cells[0])
		for _, m := range mutations {
			g, err := find(m[1])
			require.NoError(t, err, cells[0])
			assert.Regexp(t, `\b`+g.test.name+`\b`, cells[2], "the test that %q names", g.name)
			named[g.name] = true
		}
	}
	for _, g := range articleGuards {
		assert.True(t, named[g.name], "no row names the mutation %q", g.name)
	}
	assert.Greater(t, len(named), 40, "the page was understood")
}
