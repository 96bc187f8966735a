package mysqltest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDatabasesPage_NamesExistingTests checks docs/databases.md: each difference
// ends with the names of its tests, and they exist.
func TestDatabasesPage_NamesExistingTests(t *testing.T) {
	page, err := os.ReadFile("../../docs/databases.md")
	require.NoError(t, err)
	named := regexp.MustCompile("`(?:([a-z/]+): )?(Test\\w+)`")
	rows, differences := 0, false // whether a table of differences is being read
	for line := range strings.Lines(string(page)) {
		differences = strings.HasPrefix(line, "|") && (differences || strings.HasPrefix(line, "| | MySQL") || strings.HasPrefix(line, "| | group"))
		if !differences || strings.HasPrefix(line, "| |") || strings.HasPrefix(line, "| ---") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		require.Contains(t, []int{5, 6}, len(cells), line) // with and without the embedded server
		tests := named.FindAllStringSubmatch(cells[len(cells)-1], -1)
		assert.NotEmpty(t, tests, line)
		pkg := ""
		for _, test := range tests {
			if test[1] != "" {
				pkg = test[1]
			}
			assert.True(t, defines(t, pkg, test[2]), "%s has no %s", pkg, test[2])
		}
	}
	assert.Greater(t, rows, 30)
}

// defines reports whether a package, or its folder tests, has a test of that name.
func defines(t *testing.T, pkg, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", pkg, "*_test.go"))
	require.NoError(t, err)
	inFolder, err := filepath.Glob(filepath.Join("../..", pkg, "tests/*_test.go"))
	require.NoError(t, err)
	for _, file := range append(files, inFolder...) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(text), "func "+test+"(") {
			return true
		}
	}
	return false
}
