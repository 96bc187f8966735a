package termcas

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"

	"conclave/elector"
	conclavesql "conclave/sql"
)

// Takeover is what may end another node's term.
type Takeover string

const (
	// Witness: the lease, or the broken connection of a leader whose port does not
	// answer (rule 4c). A killed leader is replaced within milliseconds.
	Witness Takeover = "witness"
	// Lease: the lease only. No two nodes ever believe they lead at the same time.
	Lease Takeover = "lease"
)

// ParseTakeover returns the Takeover named s.
func ParseTakeover(s string) (Takeover, error) {
	switch t := Takeover(s); t {
	case Witness, Lease:
		return t, nil
	}
	return "", fmt.Errorf("unknown takeover %q (want witness or lease)", s)
}

// Config configures a Strategy. DB and Lock are required.
type Config struct {
	DB   *conclavesql.DB
	Lock conclavesql.Lock // migrated, so that its row exists

	// Takeover is what may end another node's term. Default Witness.
	Takeover Takeover
	// Ask asks the leader of term, at its address, to confirm that it leads it
	// (see elector.Elector.ConfirmLeading); ctx ends after 100 ms. alive is false
	// if the leader has promised never to lead that term again, if the dial was
	// refused, or if neither is known in time; known is for the log. If Ask is nil,
	// no leader ever confirms, and the witness alone decides.
	Ask func(ctx context.Context, address string, term uint64, lock string) (alive, known bool)

	Rand   *rand.Rand   // for nonces and jitter; nil draws a seed from the system
	Logger *slog.Logger // nil discards the log lines
	// Trace receives the events of each statement about the row, for tests and
	// measurements; nil discards them.
	Trace func(elector.Event)
}

// quiet returns c with a logger and a trace that discard, where there is none.
func (c Config) quiet() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Trace == nil {
		c.Trace = func(elector.Event) {}
	}
	return c
}
