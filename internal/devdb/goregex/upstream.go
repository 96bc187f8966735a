//go:build upstream

package regex

// The replacement counts in this module only: `go mod tidy` of a program that
// imports Conclave reads the tests of the packages it imports, finds the
// original library through them, and would add its missing requirement to that
// program's go.mod. This import, which is never built, keeps the requirement in
// Conclave's.
import _ "github.com/tetratelabs/wazero"
