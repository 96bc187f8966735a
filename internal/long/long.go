// Package long determines how much a test plays: a share of its rounds in `make test`, whose
// end people wait for, and all of them with TEST_ALL=1, as `make test-all` sets it.
package long

import "os"

// All reports whether everything is requested (TEST_ALL=1).
func All() bool { return os.Getenv("TEST_ALL") == "1" }

// Rounds returns all with TEST_ALL=1, and otherwise few.
func Rounds(few, all int) int {
	if All() {
		return all
	}
	return few
}
