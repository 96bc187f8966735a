package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A package declares the order in which its files are read in its doc.go, under
// this heading, with one line for each file:
//
//	// # Files, in reading order
//	//
//	//   - main.go: handles signals
//	//   - root.go: the commands
//
// What a file uses is declared in it or below it: a reader who goes from the
// first to the last file meets the purpose before the means.
const orderHeading = "# Files, in reading order"

var orderLine = regexp.MustCompile(`(?m)^  - (\w+\.go): \S.*$`)

// mostBack is the share of a package's references between files that may go
// back up its declared order: one in ten.
const mostBack = 10

// TestFiles_DependDownTheirDeclaredOrder holds each package whose doc.go
// declares an order of its files to it: the list names every file, and at most
// one reference in ten runs back. A reference is a pair of files of which the
// first uses an identifier (a name, a method or a field) that the second one
// declares; back means that the second stands before the first.
func TestFiles_DependDownTheirDeclaredOrder(t *testing.T) {
	if testing.Short() {
		t.Log("short: without types")
		return
	}
	docs, err := exec.Command("git", "-C", "../..", "ls-files", "--cached", "--others", "--exclude-standard", "*doc.go").Output()
	require.NoError(t, err)
	c := newChecker(t)
	declared := 0
	for path := range strings.FieldsSeq(string(docs)) {
		dir := filepath.Join("../..", filepath.Dir(path))
		order := declaredOrder(t, filepath.Join("../..", path))
		if order == nil || filepath.Base(path) != "doc.go" {
			continue
		}
		declared++
		t.Run(filepath.Dir(path), func(t *testing.T) {
			uses := c.references(t, dir)
			files, err := filepath.Glob(filepath.Join(dir, "*.go"))
			require.NoError(t, err)
			var here []string
			for _, f := range files {
				if name := filepath.Base(f); name != "doc.go" && !strings.HasSuffix(name, "_test.go") {
					here = append(here, name)
				}
			}
			listed := slices.Clone(order)
			slices.Sort(listed)
			require.Equal(t, here, listed, "the files, and those that doc.go lists")
			var back []string
			for _, u := range uses {
				if slices.Index(order, u.to) < slices.Index(order, u.from) {
					back = append(back, u.String())
				}
			}
			t.Logf("%d of %d references between files run back", len(back), len(uses))
			assert.LessOrEqual(t, len(back)*mostBack, len(uses), "references that run back up the order of doc.go:\n%s", strings.Join(back, "\n"))
		})
	}
	assert.Positive(t, declared)
}

// declaredOrder returns the files that a doc.go lists, nil if it lists none.
func declaredOrder(t *testing.T, path string) (order []string) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.PackageClauseOnly)
	require.NoError(t, err)
	_, list, found := strings.Cut(file.Doc.Text(), orderHeading+"\n")
	if !found {
		return nil
	}
	list, _, _ = strings.Cut(list, "\n# ")
	for _, m := range orderLine.FindAllStringSubmatch(list, -1) {
		order = append(order, m[1])
	}
	return order
}

// reference is a pair of files, with the names that one declares and the other
// uses.
type reference struct {
	from, to string
	names    []string
}

func (r reference) String() string {
	return fmt.Sprintf("%s -> %s: %s", r.from, r.to, strings.Join(r.names, ", "))
}

// references returns the references between the files of a package, sorted.
func (c *checker) references(t *testing.T, dir string) (out []reference) {
	files, info := c.check(t, dir)
	names := map[[2]string][]string{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			used := info.Uses[id]
			if used == nil || used.Pkg() == nil || used.Pkg().Name() != f.Name.Name || !used.Pos().IsValid() {
				return true
			}
			from, to := filepath.Base(c.set.File(id.Pos()).Name()), filepath.Base(c.set.File(used.Pos()).Name())
			pair := [2]string{from, to}
			if from != to && filepath.Dir(c.set.File(used.Pos()).Name()) == dir && !slices.Contains(names[pair], used.Name()) {
				names[pair] = append(names[pair], used.Name())
			}
			return true
		})
	}
	for pair, n := range names {
		slices.Sort(n)
		out = append(out, reference{pair[0], pair[1], n})
	}
	slices.SortFunc(out, func(a, b reference) int { return strings.Compare(a.from+" "+a.to, b.from+" "+b.to) })
	return out
}

// checker resolves the identifiers of packages. What they import is read once for all
// of them, from the export data of the go command.
type checker struct {
	files    map[string][]string // of a folder
	exports  map[string]string   // of the path of an import
	set      *token.FileSet
	importer types.Importer
}

// newChecker asks the go command about all packages at once.
func newChecker(t *testing.T) *checker {
	list := exec.Command("go", "list", "-export", "-deps", "-f", `{{.Dir}}:{{.ImportPath}}:{{.Export}}:{{join .GoFiles " "}}`, "../../...", "../../.ci")
	var complaints bytes.Buffer
	list.Stderr = &complaints
	text, err := list.Output()
	require.NoError(t, err, complaints.String())
	c := &checker{files: map[string][]string{}, exports: map[string]string{}, set: token.NewFileSet()}
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 4)
		require.Len(t, f, 4, line)
		c.exports[f[1]], c.files[f[0]] = f[2], strings.Fields(f[3])
	}
	c.importer = importer.ForCompiler(c.set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(c.exports[path]) })
	return c
}

// check parses a package without its tests and resolves its identifiers.
func (c *checker) check(t *testing.T, dir string) ([]*ast.File, *types.Info) {
	absolute, err := filepath.Abs(dir)
	require.NoError(t, err)
	var files []*ast.File
	for _, name := range c.files[absolute] {
		f, err := parser.ParseFile(c.set, filepath.Join(dir, name), nil, 0)
		require.NoError(t, err)
		files = append(files, f)
	}
	require.NotEmpty(t, files, dir)
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	_, err = (&types.Config{Importer: c.importer}).Check(dir, c.set, files, info)
	require.NoError(t, err)
	return files, info
}
