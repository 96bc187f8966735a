package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	quoted     = regexp.MustCompile("`([^`]+)`")
	namedTest  = regexp.MustCompile(`^(?:([\w/]+): )?((?:Test|Fuzz|Benchmark|Example)\w+)(\.\.\.)?$`)
	testFile   = regexp.MustCompile(`^([\w/]+): (\w+_test\.go)$`)
	namedFile  = regexp.MustCompile(`^[\w./-]+(\.(go|sql|txt|md|proto|pml)|/)$`)
	linkToFile = regexp.MustCompile(`\]\(([^)#]+)`)
)

// TestDocsNameWhatExists holds the pages that map claims to code and to tests to their
// word: the tests, files and links that they name are there. A test is named with its
// package (the folder, or its last part), or after another of the same package in the
// same row; a file with its path, or after another one of the same folder.
func TestDocsNameWhatExists(t *testing.T) {
	for _, page := range []string{"docs/articles.md", "docs/elections.md", "docs/track-record.md"} {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("../..", page))
			require.NoError(t, err)
			tests := 0
			for line := range strings.Lines(string(text)) {
				for _, link := range linkToFile.FindAllStringSubmatch(line, -1) {
					if !strings.Contains(link[1], "://") {
						assert.FileExists(t, filepath.Join("../..", filepath.Dir(page), link[1]))
					}
				}
				if !strings.HasPrefix(line, "| ") {
					continue
				}
				pkg, folder := "", ""
				for _, m := range quoted.FindAllStringSubmatch(line, -1) {
					switch name := m[1]; {
					case namedTest.MatchString(name):
						tests++
						parts := namedTest.FindStringSubmatch(name)
						if parts[1] != "" {
							pkg = parts[1]
						}
						assert.True(t, defines(t, pkg, parts[2], parts[3] != ""), "%q has no %s%s:\n%s", pkg, parts[2], parts[3], line)
					case testFile.MatchString(name):
						tests++
						parts := testFile.FindStringSubmatch(name)
						assert.NotEmpty(t, testFiles(t, parts[1], parts[2]), "%s:\n%s", name, line)
					case namedFile.MatchString(name):
						if strings.Contains(strings.TrimSuffix(name, "/"), "/") || strings.HasSuffix(name, "/") {
							folder = filepath.Dir(name)
						} else if _, err := os.Stat(filepath.Join("../..", name)); err != nil {
							name = filepath.Join(folder, name)
						}
						_, err := os.Stat(filepath.Join("../..", name))
						assert.NoError(t, err, "%s", line)
					}
				}
			}
			assert.Greater(t, tests, 10, "the page was understood")
		})
	}
}

// defines says whether a package's tests have a function of that name, or with such a
// name's beginning.
func defines(t *testing.T, pkg, name string, beginning bool) bool {
	end := `\(`
	if beginning {
		end = ""
	}
	function := regexp.MustCompile(`(?m)^func ` + name + end)
	return slices.ContainsFunc(testFiles(t, pkg, "*_test.go"), func(file string) bool {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return function.Match(text)
	})
}

// testFiles are those of a folder, or of all that are called so.
func testFiles(t *testing.T, pkg, pattern string) (files []string) {
	for _, above := range []string{"", "*", "*/*"} {
		found, err := filepath.Glob(filepath.Join("../..", above, pkg, pattern))
		require.NoError(t, err)
		files = append(files, found...)
	}
	return files
}
