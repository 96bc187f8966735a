package sql_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	conclavesql "conclave/sql"
)

// sqlFiles returns the paths of all statements of the module, from its root:
// those of package sql, and those that stand beside their owners.
func sqlFiles(t *testing.T) (files []string) {
	require.NoError(t, fs.WalkDir(os.DirFS("../.."), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || len(path) > 1 && entry.Name()[0] == '.'):
			return fs.SkipDir
		case strings.HasSuffix(path, ".sql"):
			files = append(files, path)
		}
		return nil
	}))
	require.Greater(t, len(files), 120, "the walk reaches all places")
	return files
}

// Each statement of the module begins with the reason for its predicates.
func TestStatements_HaveComments(t *testing.T) {
	for _, path := range sqlFiles(t) {
		text, err := os.ReadFile(filepath.Join("../..", path))
		require.NoError(t, err)
		comment, _, _ := strings.Cut(string(text), "\n"+firstLine(string(text)))
		assert.True(t, strings.HasPrefix(comment, "-- "), "%s must begin with a comment", path)
		sent := conclavesql.Statement(os.DirFS("../.."), path)
		assert.NotEmpty(t, sent, path)
		assert.NotContains(t, sent, "--", "%s: comments must not be sent", path)
		assert.NotContains(t, sent, ";", "%s must be one statement", path)
		if strings.HasPrefix(sent, "UPDATE ") || strings.HasPrefix(sent, "DELETE ") {
			assert.Contains(t, sent, "WHERE", path)
			assert.Contains(t, comment, "predicate", "%s must give the reason for its predicates", path)
		}
	}
}

// firstLine returns the first line that is not a comment.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			return line
		}
	}
	return ""
}

// byFile finds the statements that a package names by their file, without its ending.
var byFile = regexp.MustCompile(`\bstatement\("([^".]*)"\)`)

// Each statement is named in the package that owns it, so none is left behind, and each
// that is named by its file is there.
func TestStatements_AreNamedByTheirOwners(t *testing.T) {
	named := map[string]bool{} // by owner and file
	for _, file := range sqlFiles(t) {
		owner := path.Dir(path.Dir(file))
		sources, err := filepath.Glob(filepath.Join("../..", owner, "*.go"))
		require.NoError(t, err)
		for _, source := range sources {
			text, err := os.ReadFile(source)
			require.NoError(t, err)
			for _, m := range byFile.FindAllStringSubmatch(string(text), -1) {
				name := path.Join(owner, "sql", m[1]+".sql")
				assert.FileExists(t, filepath.Join("../..", name), source)
				named[name] = true
			}
			if strings.Contains(string(text), `"`+strings.TrimPrefix(file, owner+"/")+`"`) {
				named[file] = true
			}
		}
	}
	for _, file := range sqlFiles(t) {
		if !strings.Contains(file, "/schema/0") { // found by its number
			assert.True(t, named[file], "nothing names %s", file)
		}
	}
}

// The engine of a table is never the server's default.
func TestStatements_CreateTablesOnInnoDB(t *testing.T) {
	for _, path := range sqlFiles(t) {
		text, err := os.ReadFile(filepath.Join("../..", path))
		require.NoError(t, err)
		if strings.Contains(string(text), "\nCREATE TABLE") {
			assert.Contains(t, string(text), "\n) ENGINE=InnoDB", path)
		}
	}
}
