package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
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

// tours are the pages that lead through the code, and to tests, with the least number of
// steps that each must have.
var tours = map[string]int{
	"ARCHITECTURE.md": 40, "CONTRIBUTING.md": 20, "docs/articles.md": 30, "docs/elections.md": 10, "docs/track-record.md": 10,
}

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
	require.Greater(t, len(out), 35)
	return out
}

// TestPages_NameWhatExists checks that each step of a tour (`file.go: name`) names
// a function, a method (with or without its type), a type, a constant or a
// variable that the file declares, and that each named test exists: in the package
// that stands before it (the folder, or its last part), or before another test of
// the same line. It also checks that the target of each link exists, and each file
// and folder.
func TestPages_NameWhatExists(t *testing.T) {
	files := tree(t)
	tests := testNames(t, files)
	declared := map[string]map[string]bool{} // by file
	for _, page := range pages(t) {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("../..", page))
			require.NoError(t, err)
			prose := fenced.ReplaceAllString(string(text), "")
			steps := 0
			for line := range strings.Lines(prose) {
				pkg := ""
				for _, m := range quoted.FindAllStringSubmatch(line, -1) {
					switch name := m[1]; {
					case strings.Contains(name, "NAME"): // stands for a name of the reader's
					case testFile.MatchString(name):
						assert.True(t, fileExists(page, strings.ReplaceAll(name, ": ", "/"), files), "there is no %s", name)
					case tourStep.MatchString(name):
						steps++
						parts := tourStep.FindStringSubmatch(name)
						if declared[parts[1]] == nil {
							declared[parts[1]] = declarationsOf(t, parts[1])
						}
						assert.True(t, declared[parts[1]][parts[2]], "%s declares no %s", parts[1], parts[2])
					case namedTest.MatchString(name):
						steps++
						parts := namedTest.FindStringSubmatch(name)
						if parts[1] != "" {
							pkg = parts[1]
						}
						assert.True(t, defines(tests, pkg, parts[2], parts[3] != ""), "%q has no %s%s", pkg, parts[2], parts[3])
					case namedFile.MatchString(name):
						assert.True(t, fileExists(page, name, files), "there is no %s", name)
					}
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

// tree returns the paths of all files and folders, with a slash before each and
// one after a folder.
func tree(t *testing.T) (paths []string) {
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == "../.." {
			return err
		}
		path = strings.TrimPrefix(path, "../..")
		switch {
		case !d.IsDir():
		case path == "/.git" || path == "/.tools":
			return fs.SkipDir
		default:
			path += "/"
		}
		paths = append(paths, path)
		return nil
	}))
	return paths
}

// fileExists reports whether a page names a file of the tree: by its path, by its
// path from the page, or, on the pages in docs, by the end of its path.
func fileExists(page, name string, files []string) bool {
	if slices.Contains(files, "/"+name) {
		return true
	}
	return filepath.Dir(page) != "." && slices.ContainsFunc(files, func(f string) bool { return strings.HasSuffix(f, "/"+strings.TrimPrefix(name, "../")) })
}

var (
	makeCommand  = regexp.MustCompile(`(?m)(?:^|\x60|&& )(?:[ ]{4})?make ([a-z][^\x60\n#]*)`)
	makeVariable = regexp.MustCompile(`^([A-Z_]+)=`)
	makeTarget   = regexp.MustCompile(`^[a-z-]+$`)
)

// TestPages_NameTargetsOfMake checks that the Makefile has each target and each
// variable of a call of make.
func TestPages_NameTargetsOfMake(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	calls := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(filepath.Join("../..", page))
		require.NoError(t, err)
		for _, m := range makeCommand.FindAllStringSubmatch(string(text), -1) {
			for i, word := range strings.Fields(m[1]) {
				if v := makeVariable.FindStringSubmatch(word); v != nil {
					assert.Regexp(t, `\b`+v[1]+`\b`, string(makefile), "%s: make %s", page, m[1])
				} else if i == 0 && makeTarget.MatchString(word) {
					calls++
					assert.Regexp(t, `(?m)^([a-z-]+ )*`+word+`( [a-z-]+)*:`, string(makefile), "%s: make %s", page, m[1])
				}
			}
		}
	}
	assert.Greater(t, calls, 40, "the pages were understood")
}

// TestMakefile_ListsTestsThatExist checks the lists of tests that make test leaves out.
func TestMakefile_ListsTestsThatExist(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	tests := testNames(t, tree(t))
	listed := 0
	for _, list := range regexp.MustCompile(`(?m)^(?:HEAVY|SLOW) := .*$`).FindAllString(string(makefile), -1) {
		for _, name := range regexp.MustCompile(`\bTest\w+`).FindAllString(list, -1) {
			listed++
			assert.True(t, defines(tests, "", name, false), "there is no %s", name)
		}
	}
	assert.Greater(t, listed, 20, "the Makefile was understood")
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

// quotedDiff matches a difference that begins with the name of a file, and removedLine a
// line that is not in the file any more.
var (
	quotedDiff  = regexp.MustCompile("(?ms)^```diff\n // ([\\w/]+\\.go)\n(.*?)^```$")
	removedLine = regexp.MustCompile(`(?m)^-.*\n`)
	keptLine    = regexp.MustCompile(`(?m)^[ +]`)
)

// TestPages_QuoteCodeAsItIs checks that a block of code which begins with the
// name of a file is part of that file, and that the result of a difference is.
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
		for _, m := range quotedDiff.FindAllStringSubmatch(string(text), -1) {
			blocks++
			code, err := os.ReadFile(filepath.Join("../..", m[1]))
			require.NoError(t, err, page)
			after := keptLine.ReplaceAllString(removedLine.ReplaceAllString(m[2], ""), "")
			assert.Contains(t, string(code), after, "%s, in %s", m[1], page)
		}
	}
	assert.Positive(t, blocks, "the pages were understood")
}

// fenced matches a block of code.
var fenced = regexp.MustCompile("(?ms)^```.*?^```$")

// declarationsOf returns what a file declares at its top level: a method with and
// without its type.
func declarationsOf(t *testing.T, path string) map[string]bool {
	names := map[string]bool{}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", path), nil, parser.SkipObjectResolution)
	if !assert.NoError(t, err) {
		return names
	}
	declared := map[string]bool{}
	for _, decl := range file.Decls {
		declare(declared, file.Name.Name, decl)
	}
	for full := range declared {
		parts := strings.Split(full, ".")
		for i := 1; i < len(parts); i++ {
			names[strings.Join(parts[i:], ".")] = true
		}
	}
	return names
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

// testNames returns the names of the tests of each folder.
func testNames(t *testing.T, files []string) map[string][]string {
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)
	out := map[string][]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			text, err := os.ReadFile("../.." + file)
			require.NoError(t, err)
			for _, m := range function.FindAllSubmatch(text, -1) {
				out[filepath.Dir(file)] = append(out[filepath.Dir(file)], string(m[1]))
			}
		}
	}
	return out
}

// defines reports whether a package, which is named by the end of its folder, has
// a test of that name, or, if beginning is set, one whose name begins with it. Its
// folder tests belongs to it.
func defines(tests map[string][]string, pkg, name string, beginning bool) bool {
	for folder, names := range tests {
		if pkg != "" && !strings.HasSuffix(strings.TrimSuffix(folder, "/tests"), "/"+pkg) {
			continue
		}
		if slices.ContainsFunc(names, func(n string) bool { return n == name || beginning && strings.HasPrefix(n, name) }) {
			return true
		}
	}
	return false
}
