package archtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/long"
)

// root is the checkout.
const root = "../.."

// command runs a command in a folder and returns what it printed. go.mod and
// go.sum may be changed, and object files do not depend on the folder, so that
// the second run of a test finds those of the first in the cache.
func command(t *testing.T, dir string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -trimpath -buildvcs=false")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %s: %s", name, strings.Join(args, " "), out)
	return strings.TrimSpace(string(out))
}

// An application that imports the client or the election gets few modules in its
// go.mod, and none for serving, metrics or the embedded database. Its go.sum also lists
// modules that the tests of the packages import that it uses, which go mod tidy looks at,
// and two lines for this module once that is hosted, which are counted here.
func TestEmptyMain_RequiresFewModules(t *testing.T) {
	module := command(t, root, "go", "list", "-m")
	repo, err := filepath.Abs(root)
	require.NoError(t, err)
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	example, err := os.ReadFile(filepath.Join(root, "elector/example/main.go"))
	require.NoError(t, err)
	driver := []string{"filippo.io/edwards25519", "github.com/go-sql-driver/mysql"}
	for _, app := range []struct {
		imports  []string // or nil: the program in README
		requires []string // besides this module
		number   int      // of them, if they are not listed
		sums     int      // lines of go.sum, at most
	}{
		{[]string{""}, nil, 0, 8},
		{[]string{"/client"}, []string{"connectrpc.com/connect", "google.golang.org/protobuf"}, 0, 16},
		{nil, driver, 0, 12},
		{[]string{"", "/sql", "/elector", "/elector/termcas", "/elector/fence", "/elector/once", "/elector/electorhttp", "/elector/electorfake"}, driver, 0, 12},
		{[]string{"/client/conclavetest"}, nil, 43, 190}, // with the embedded database
	} {
		t.Run(cmp.Or(strings.Join(app.imports, " "), "README"), func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			main := "package main\n\n"
			for _, path := range app.imports {
				main += fmt.Sprintf("import _ %q\n", module+path)
			}
			main += "\nfunc main() {}\n"
			if app.imports == nil {
				main = string(example)
			}
			write("main.go", main)
			command(t, dir, "go", "mod", "init", "app")
			command(t, dir, "go", "mod", "edit", "-replace", module+"="+repo)
			if app.number > 0 { // as README asks for: without it, tidy would download the original
				command(t, dir, "go", "mod", "edit", "-replace", "github.com/dolthub/go-icu-regex="+repo+"/internal/devdb/goregex")
			}
			write("go.sum", string(sums)) // without it, tidy would ask the checksum database
			command(t, dir, "go", "mod", "tidy")
			if app.imports == nil {
				command(t, dir, "go", "build", "-o", "worker")
			}

			listed, err := os.ReadFile(filepath.Join(dir, "go.sum"))
			require.NoError(t, err)
			assert.LessOrEqual(t, strings.Count(string(listed), "\n")+2, app.sums, "go.sum:\n%s", listed)
			var mod struct{ Require []struct{ Path string } }
			require.NoError(t, json.Unmarshal([]byte(command(t, dir, "go", "mod", "edit", "-json")), &mod))
			var requires []string
			for _, r := range mod.Require {
				requires = append(requires, r.Path)
			}
			if app.number > 0 {
				assert.Len(t, requires, 1+app.number)
				return
			}
			assert.ElementsMatch(t, append([]string{module}, app.requires...), requires)
		})
	}
}

// The linker leaves out methods that nothing calls, unless a program may look
// methods up by name, as templates do: then it keeps all exported ones, and a
// process is 3 MB larger, in the file and in memory. (cobra's SetVersionTemplate
// once did that.)
func TestBinaries_LookNoMethodUpByName(t *testing.T) {
	if testing.Short() {
		t.Log("short: builds nothing")
		return
	}
	for _, role := range []string{"meta", "session", "data", "node"} {
		binary := filepath.Join(t.TempDir(), role)
		command(t, root, "go", "build", "-o", binary, "./cmd/"+role)
		symbols := command(t, root, "go", "tool", "nm", binary)
		assert.Contains(t, symbols, "main.main", role)
		assert.NotContains(t, symbols, "text/template.(*Template).execute", role)
	}
}

// What applications import exports nothing whose type they cannot name.
func TestPublicPackages_ExportNoInternalType(t *testing.T) {
	for _, dir := range []string{"", "client", "client/conclavetest", "elector", "elector/termcas", "elector/fence", "elector/once"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			internal := map[string]bool{} // the names of imported internal packages
			for _, i := range parsed.Imports {
				if path, _ := strconv.Unquote(i.Path.Value); strings.Contains(path, "/internal/") {
					internal[path[strings.LastIndex(path, "/")+1:]] = true
				}
			}
			// Declarations that are not exported are removed, function bodies too.
			ast.FileExports(parsed)
			for _, decl := range parsed.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok {
					f.Body = nil
				}
				ast.Inspect(decl, func(n ast.Node) bool {
					if s, ok := n.(*ast.SelectorExpr); ok {
						if x, ok := s.X.(*ast.Ident); ok {
							assert.False(t, internal[x.Name], "%s: %s.%s", set.Position(s.Pos()), x.Name, s.Sel.Name)
						}
					}
					return true
				})
			}
		}
	}
}

// `make rename` gives the module another path, and everything still builds.
func TestRename_TreeBuildsUnderAnotherPath(t *testing.T) {
	for _, tool := range []string{"make", "perl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed; make rename needs it", tool)
		}
	}
	dir := t.TempDir()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch to {
		case ".git":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case ".tools", "bin", ".conclave":
			return fs.SkipDir
		}
		to = filepath.Join(dir, to)
		if d.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, info.Mode())
	}))
	// From a path that contains the old one, to another.
	for _, module := range []string{"example.com/you/conclave", "example.org/a-registry"} {
		command(t, dir, "make", "rename", "MODULE="+module)
		assert.Equal(t, module, command(t, dir, "go", "list", "-m"))
		command(t, dir, "go", "list", "-deps", "-test", "./...") // fails if an import is not found
		command(t, filepath.Join(dir, "client/conclavegrpc"), "go", "list", "-deps", "-test", "./...")
		assert.Empty(t, command(t, dir, "gofmt", "-l", "."))
	}
	assert.Contains(t, command(t, dir, "make", "-n", "build"), "-X example.org/a-registry/internal/cli.version=")
	// The descriptors of the protocol are checked when a program starts.
	command(t, dir, "go", "test", "-count=1", "-run", "^TestCheckPublisher_", "./wire")
	if !long.All() {
		return // building all programs again takes minutes
	}
	command(t, dir, "go", "build", "./...")
	command(t, dir, "go", "vet", "./...")
}
