package meta

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"conclave"
	"conclave/elector"
	"conclave/internal/node"
	"conclave/slot"
	conclavesql "conclave/sql"
)

// StateStore keeps the six kinds of cluster state, each written under the term
// and read with its epoch. It is implemented by conclavesql.StateStore.
type StateStore interface {
	Read(ctx context.Context) (map[conclavesql.Kind]conclavesql.State, error)
	Write(ctx context.Context, fence conclavesql.Fence, old, next conclavesql.State) (conclavesql.Outcome, error)
	Seal(ctx context.Context, fence conclavesql.Fence, seq uint64, nonce string) (conclavesql.Outcome, error)
	Settle(ctx context.Context, fence conclavesql.Fence, old, next conclavesql.State) (conclavesql.Outcome, conclavesql.State, error)
}

var _ StateStore = (*conclavesql.StateStore)(nil)

// History lists the elections, the latest first. The elector writes it.
type History interface {
	Before(ctx context.Context, term uint64, limit int) ([]conclavesql.Election, error)
}

var _ History = (*conclavesql.History)(nil)

// Database is what the metrics show of the database. It is implemented by
// conclavesql.DB.
type Database interface {
	Statements() uint64       // sent so far
	RoundTrip() time.Duration // the shortest of the latest statements; 0 before the first
	Blocked() (conclavesql.Block, bool)
}

var _ Database = (*conclavesql.DB)(nil)

// AskWitness asks the meta at address whether it still leads the recorded term,
// as a follower that acquired the leader's lock must (elector/termcas,
// Config.Ask). A refused dial makes it known that no process listens there.
type AskWitness func(ctx context.Context, address string, term uint64, lock string) (alive, known bool)

// Config configures a Server. Node, Strategy, Store and History are required;
// DefaultConfig has the rest. Metas may include this meta; the lock of the
// Strategy should have the DataCenter. Beat is the time between two renewals,
// and between two beats down to each node.
type Config struct {
	node.Config

	// Strategy makes the election strategy; ask asks a leader at its port.
	Strategy func(ask AskWitness) (elector.Strategy, error)
	Store    StateStore
	History  History
	// Database is shown in the metrics; may be nil.
	Database Database

	// Lease is how long the leadership lasts without a renewal; 3 s.
	Lease time.Duration
	// NodeLease is how long a silent session or data node stays a member; 3 s.
	// At least three Beats, so that two lost ones remove no node from the list.
	NodeLease time.Duration
	// Settle is how long the first table waits for another data node after each
	// that registers, so that a starting cluster is spread over all of them at
	// once; 250 ms. Less than NodeLease.
	Settle time.Duration
	// WarmUp, if not zero, is how long a new leader decides nothing, whatever
	// it learns: the original's fixed 30 s, for the profile sofa. If zero, the
	// warm-up ends by evidence.
	WarmUp time.Duration
	// Observer starts this node as one that never competes.
	Observer bool

	Slots    int         // of a table made from nothing; a power of two; 256
	Replicas int         // copies of a slot, its slot leader's included; 2
	Limits   slot.Limits // how much one write may move
}

// DefaultConfig returns the defaults, except for those that are derived from
// another field.
func DefaultConfig() Config {
	return Config{
		Config: node.Config{Listen: "127.0.0.1:9615"},
		Lease:  3 * time.Second, NodeLease: 3 * time.Second, Settle: 250 * time.Millisecond,
		Slots: 256, Replicas: 2, Limits: slot.DefaultLimits(),
	}
}

// withDefaults returns c with its zero fields set to the defaults.
func (c Config) withDefaults() Config {
	c = node.Filled(c, DefaultConfig())
	c.Beat = cmp.Or(c.Beat, c.Lease/3)
	c.Config = c.Config.WithDefaults()
	return c
}

// ElectionBeat returns Beat or its default.
func (c Config) ElectionBeat() time.Duration { return c.withDefaults().Beat }

// Validate reports the first invalid field and the constraint that it violates.
// Zero fields stand for their defaults. Strategy, Store and History are checked
// by New, so that settings can be refused before there is a database.
func (c Config) Validate() error {
	c = c.withDefaults()
	if err := slot.ValidateCount(c.Slots); err != nil {
		return fmt.Errorf("meta: Slots: %w", err)
	}
	switch {
	case c.Replicas < 1 || c.Replicas > 16:
		return fmt.Errorf("meta: Replicas %d: want 1 to 16, the leader included", c.Replicas)
	case c.Lease < 100*time.Millisecond:
		return fmt.Errorf("meta: Lease %v is under 100ms", c.Lease)
	case c.Beat <= 0 || c.Beat > c.Lease/3:
		return fmt.Errorf("meta: Beat %v must be positive and at most a third of Lease %v", c.Beat, c.Lease)
	case c.NodeLease < 3*c.Beat:
		return fmt.Errorf("meta: NodeLease %v must be at least three times Beat %v", c.NodeLease, c.Beat)
	case c.Settle <= 0 || c.Settle >= c.NodeLease:
		return fmt.Errorf("meta: Settle %v must be positive and less than NodeLease %v", c.Settle, c.NodeLease)
	case c.WarmUp < 0:
		return fmt.Errorf("meta: WarmUp %v is negative", c.WarmUp)
	}
	return c.Config.Validate(conclave.RoleMeta)
}

// derive returns a random stream for one loop.
func derive(r *rand.Rand) *rand.Rand { return rand.New(rand.NewPCG(r.Uint64(), r.Uint64())) }
