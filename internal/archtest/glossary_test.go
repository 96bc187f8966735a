package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// glossaryRow is a row of docs/glossary.md; its last cell names identifiers.
var glossaryRow = regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]+ \| [^|]+ \| ([^|]+) \|$`)

// TestGlossary_NamesWhatExists checks that each word has one meaning and that
// each identifier in the glossary is declared in a package of that name.
func TestGlossary_NamesWhatExists(t *testing.T) {
	text, err := os.ReadFile("../../docs/glossary.md")
	require.NoError(t, err)
	declared := declarations(t)
	terms := map[string]bool{}
	for _, row := range glossaryRow.FindAllStringSubmatch(string(text), -1) {
		term := row[1]
		if term == "word" && strings.Contains(row[2], "in the code") || strings.HasPrefix(term, "---") {
			continue
		}
		assert.False(t, terms[term], "%q has two meanings", term)
		terms[term] = true
		for _, name := range quoted.FindAllStringSubmatch(row[2], -1) {
			assert.True(t, declared[name[1]], "%s: %s is not declared", term, name[1])
		}
	}
	assert.Greater(t, len(terms), 40, "the page was understood")
}

// declarations returns all names that the packages declare at the top level, as
// package.Name or package.Type.Method, and the fields of structs likewise.
func declarations(t *testing.T) map[string]bool {
	out := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != "." && d.Name() != ".." {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			declare(out, file.Name.Name, decl)
		}
		return nil
	})
	require.NoError(t, err)
	return out
}

func declare(out map[string]bool, pkg string, decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			out[pkg+"."+d.Name.Name] = true
			return
		}
		if name := receiver(d.Recv.List[0].Type); name != "" {
			out[pkg+"."+name+"."+d.Name.Name] = true
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				out[pkg+"."+s.Name.Name] = true
				if fields, ok := s.Type.(*ast.StructType); ok {
					for _, f := range fields.Fields.List {
						for _, n := range f.Names {
							out[pkg+"."+s.Name.Name+"."+n.Name] = true
						}
					}
				}
			case *ast.ValueSpec:
				for _, n := range s.Names {
					out[pkg+"."+n.Name] = true
				}
			}
		}
	}
}

// receiver returns the name of a method's type, without pointer and parameters.
func receiver(of ast.Expr) string {
	switch x := of.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}
