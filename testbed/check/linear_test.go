package check_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/check"
)

// What is not linearizable gets a page, and the violation names it.
func TestVisualize_NamesThePage(t *testing.T) {
	for id, words := range map[string]string{"P1": "meta-2 wins term 1 from (no owner, term 0, beat 0)", "P2": "the subscriber sees value"} {
		bad, good := forge(), forge()
		forgeries()[id].reject(bad)
		forgeries()[id].accept(good)
		dir := t.TempDir()
		rejected := verdict(t, id, bad)
		require.NotEmpty(t, rejected.Violations)
		require.NoError(t, check.Visualize(dir, []check.Verdict{rejected, verdict(t, id, good)}))
		assert.Contains(t, rejected.Violations[0].What, "; see "+dir+"/"+id+".html")
		page, err := os.ReadFile(dir + "/" + id + ".html")
		require.NoError(t, err)
		assert.Contains(t, string(page), words)
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Len(t, files, len(rejected.Violations))
	}
}
