// Package random has the source of random numbers of a process.
package random

import (
	crand "crypto/rand"
	"math/rand/v2"
)

// New returns a source with a seed of the system. Its numbers are ids and nonces, too:
// none of them can be computed from others, as it is possible with those of a PCG. It
// is not safe for concurrent use.
func New() *rand.Rand {
	var seed [32]byte
	crand.Read(seed[:])
	return rand.New(rand.NewChaCha8(seed))
}
