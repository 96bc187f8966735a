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
		for _, u := range g.by {
			if u.name == "TestStories" {
				_, err := scenario.Builtin(u.flags[len(u.flags)-1])
				assert.NoError(t, err, g.name)
			}
		}
	}
	assert.GreaterOrEqual(t, len(guards), 20)
}

// Each claim in docs/articles.md names a test that a mutation of its article must
// be caught by, and the test of each of these mutations is in a row.
func TestArticleGuards_AreNamedByTheirRows(t *testing.T) {
	text, err := os.ReadFile("../../../docs/articles.md")
	require.NoError(t, err)
	test := regexp.MustCompile(`\bTest\w+`)
	mutated, named := map[string]bool{}, map[string]bool{} // tests, with their article
	for _, g := range articleGuards {
		mutated[g.name[:len("000: ")]+g.test.name] = true
	}
	article := ""
	claims := false // the line is in a table of claims
	for line := range strings.Lines(string(text)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			article = title[:len("000: ")]
		}
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| claim |") {
			claims = strings.HasPrefix(line, "| claim |")
			continue
		}
		if !claims || strings.HasPrefix(line, "| ---") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		require.Contains(t, []int{2, 3}, len(cells), line) // with and without the code
		found := false
		for _, name := range test.FindAllString(cells[len(cells)-1], -1) {
			found = found || mutated[article+name]
			named[article+name] = true
		}
		assert.True(t, found, "no mutation makes this claim false: %s", cells[0])
	}
	for _, g := range articleGuards {
		assert.True(t, named[g.name[:len("000: ")]+g.test.name], "no row names the test of the mutation %q", g.name)
	}
	assert.Greater(t, len(named), 40, "the page was understood")
}
