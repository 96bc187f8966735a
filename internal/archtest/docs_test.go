package archtest

import (
	"go/parser"
	"go/token"
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
	linkToPart = regexp.MustCompile(`\]\(([^)#]*)#([^)]+)\)`)
	tourStep   = regexp.MustCompile(`^([\w./-]+\.go): ([\w.]+)$`)
)

// TestDocsNameWhatExists checks that the tests, files and links exist that the pages
// name which map claims to code and to tests. A test is named with its package (the
// folder, or its last part), or after another test of the same package in the same
// row; a file with its path, or after another file of the same folder.
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

// tours are the pages that lead through the code, with the least number of steps
// that each must have.
var tours = map[string]int{"ARCHITECTURE.md": 40, "CONTRIBUTING.md": 20, "docs/articles.md": 30}

// pages returns the Markdown pages that readers are led to.
func pages(t *testing.T) (out []string) {
	for _, pattern := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join("../..", pattern))
		require.NoError(t, err)
		for _, page := range found {
			page, err := filepath.Rel("../..", page)
			require.NoError(t, err)
			out = append(out, page)
		}
	}
	require.Greater(t, len(out), 40)
	return out
}

// TestPages_NameWhatExists checks that each step of a tour (`file.go: name`) names
// a function, a method (with or without its type), a type, a constant or a
// variable that the file declares, and that each named test exists. It also checks
// that the target of each link exists, and on the pages of the first level each
// file and folder.
func TestPages_NameWhatExists(t *testing.T) {
	for _, page := range pages(t) {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("../..", page))
			require.NoError(t, err)
			prose := fenced.ReplaceAllString(string(text), "")
			steps := 0
			for _, m := range quoted.FindAllStringSubmatch(prose, -1) {
				switch name := m[1]; {
				case strings.Contains(name, "NAME"): // stands for a name of the reader's
				case tourStep.MatchString(name):
					steps++
					parts := tourStep.FindStringSubmatch(name)
					assert.True(t, fileDeclares(t, parts[1], parts[2]), "%s declares no %s", parts[1], parts[2])
				case namedTest.MatchString(name):
					parts := namedTest.FindStringSubmatch(name)
					assert.True(t, defines(t, parts[1], parts[2], parts[3] != ""), "there is no %s", name)
				case namedFile.MatchString(name) && filepath.Dir(page) == ".":
					_, err := os.Stat(filepath.Join("../..", name))
					assert.NoError(t, err)
				}
			}
			for _, link := range linkToFile.FindAllStringSubmatch(prose, -1) {
				if !strings.Contains(link[1], "://") {
					_, err := os.Stat(filepath.Join("../..", filepath.Dir(page), link[1]))
					assert.NoError(t, err)
				}
			}
			for _, link := range linkToPart.FindAllStringSubmatch(prose, -1) {
				target := page
				if link[1] != "" {
					target = filepath.Join(filepath.Dir(page), link[1])
				}
				assert.Contains(t, headings(t, target), link[2], "in %s", target)
			}
			assert.GreaterOrEqual(t, steps, tours[page], "the page was understood")
		})
	}
}

// TestArchitecture_CoreIsSmall checks that the files of the first tour have at
// most 6,000 lines.
func TestArchitecture_CoreIsSmall(t *testing.T) {
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	require.NoError(t, err)
	_, tour, _ := strings.Cut(string(text), "## First tour")
	tour, _, _ = strings.Cut(tour, "\nThen:")
	files, lines := 0, 0
	for line := range strings.Lines(tour) {
		if cells := strings.Split(line, "|"); len(cells) == 4 {
			for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
				code, err := os.ReadFile(filepath.Join("../..", m[1]))
				require.NoError(t, err)
				files, lines = files+1, lines+strings.Count(string(code), "\n")
			}
		}
	}
	assert.Greater(t, files, 20, "the page was understood")
	assert.LessOrEqual(t, lines, 6000)
	t.Logf("%d files, %d lines", files, lines)
}

// quotedCode matches a block of Go that begins with the name of a file.
var quotedCode = regexp.MustCompile("(?ms)^```go\n// ([\\w/]+\\.go)\n(.*?)^```$")

// TestPages_QuoteCodeAsItIs checks that a block of code which begins with the
// name of a file is part of that file.
func TestPages_QuoteCodeAsItIs(t *testing.T) {
	blocks := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(filepath.Join("../..", page))
		require.NoError(t, err)
		for _, m := range quotedCode.FindAllStringSubmatch(string(text), -1) {
			blocks++
			code, err := os.ReadFile(filepath.Join("../..", m[1]))
			require.NoError(t, err, page)
			assert.Contains(t, string(code), m[2], "%s, in %s", m[1], page)
		}
	}
	assert.Positive(t, blocks, "the pages were understood")
}

// fenced matches a block of code.
var fenced = regexp.MustCompile("(?ms)^```.*?^```$")

// fileDeclares reports whether a file declares the name at its top level. A
// method may be named without its type.
func fileDeclares(t *testing.T, path, name string) bool {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", path), nil, 0)
	if !assert.NoError(t, err) {
		return false
	}
	declared := map[string]bool{}
	for _, decl := range file.Decls {
		declare(declared, file.Name.Name, decl)
	}
	for full := range declared {
		if strings.HasSuffix(full, "."+name) {
			return true
		}
	}
	return false
}

// headings returns the anchors of a page's headings.
func headings(t *testing.T, page string) (anchors []string) {
	text, err := os.ReadFile(filepath.Join("../..", page))
	require.NoError(t, err)
	for line := range strings.Lines(fenced.ReplaceAllString(string(text), "")) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			anchor := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-")
			anchors = append(anchors, notInAnchor.ReplaceAllString(anchor, ""))
		}
	}
	return anchors
}

// notInAnchor matches what the anchor of a heading leaves out.
var notInAnchor = regexp.MustCompile(`[^\w-]`)

// defines reports whether the tests of a package have a function of that name, or,
// if beginning is set, one whose name begins with it.
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

// testFiles returns the files that match pattern in each folder whose path is pkg, or
// ends with it.
func testFiles(t *testing.T, pkg, pattern string) (files []string) {
	for _, above := range []string{"", "*", "*/*"} {
		found, err := filepath.Glob(filepath.Join("../..", above, pkg, pattern))
		require.NoError(t, err)
		files = append(files, found...)
	}
	return files
}
