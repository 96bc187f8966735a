package meta

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/elector"
	"conclave/internal/trace"
	"conclave/slot"
	conclavesql "conclave/sql"
	"conclave/wire"
)

// StateStore keeps the five kinds of cluster state, each written under the term
// and read with its epoch. conclavesql.StateStore is the one.
type StateStore interface {
	Read(ctx context.Context) (map[conclavesql.Kind]conclavesql.State, error)
	Write(ctx context.Context, fence conclavesql.Fence, old, next conclavesql.State) (conclavesql.Outcome, error)
	Seal(ctx context.Context, fence conclavesql.Fence, seq uint64, nonce string) (conclavesql.Outcome, error)
	Settle(ctx context.Context, fence conclavesql.Fence, old, next conclavesql.State) (conclavesql.Outcome, conclavesql.State, error)
}

var _ StateStore = (*conclavesql.StateStore)(nil)

// History lists the elections, the newest first. The elector writes it.
type History interface {
	List(ctx context.Context, limit int) ([]conclavesql.Election, error)
}

var _ History = (*conclavesql.History)(nil)

// AskWitness asks the meta at address whether it still leads the term on the
// record, as whoever was handed the leader's lock must: elector/termcas, rule 4c,
// whose Config.Ask it is. A refused dial is an answer: nobody listens there.
type AskWitness func(ctx context.Context, address string, term uint64, lock string) (alive, answered bool)

// Config is what a Server needs. Node, Listen, Strategy, Store and History are
// required; DefaultConfig has the rest.
type Config struct {
	Node       conclave.NodeID // name, and an incarnation drawn at this start
	Listen     string          // host:port; port 0 takes a free one
	Advertise  string          // what others are told; "": the listener's own address
	DataCenter string          // nodes that name another one are refused; the Strategy's lock should have it
	Metas      []string        // addresses of all metas; may include this one
	Token      string          // asked of every changing request; "": none
	Insecure   bool            // listen beyond loopback without a token

	// Strategy makes the way in which the metas agree; ask is how it may question
	// a leader at its port.
	Strategy func(ask AskWitness) (elector.Strategy, error)
	Store    StateStore
	History  History
	// Statements counts the SQL statements sent so far, for the metrics; may be
	// nil.
	Statements func() uint64

	// Lease is how long the leadership lasts without a renewal; 3 s.
	Lease time.Duration
	// Beat is the time between two renewals, and between two beats down to each
	// node; at most Lease/3, which is the default.
	Beat time.Duration
	// NodeLease is how long a silent session or data node stays a member; 3 s. At
	// least three Beats, so that two lost ones take nobody off the list.
	NodeLease time.Duration
	// Settle is how long the first table waits for another data node after each
	// that registers, so that a cluster that starts is spread at once over all of
	// them; 250 ms. Less than NodeLease.
	Settle time.Duration
	// WarmUp, when it is not zero, is how long a new leader decides nothing,
	// whatever it hears: the original's fixed 30 s, for the profile sofa. Zero
	// ends it by evidence.
	WarmUp time.Duration
	// Observer starts this node as one that never competes.
	Observer bool

	Slots    int         // of a table made from nothing; a power of two; 256
	Replicas int         // copies of a slot, its leader's included; 2
	Limits   slot.Limits // what one write may set in motion

	Network wire.Network
	Logger  hclog.Logger     // named by the caller
	Trace   trace.Sink       // hears what this node claims; nil: nobody listens
	Rand    *rand.Rand       // the streams of all loops are derived from it; nil draws a seed
	Now     func() time.Time // only to show it, and once for the version floor of a table made from nothing
	Version string
}

// DefaultConfig has every default.
func DefaultConfig() Config {
	return Config{
		Listen: "127.0.0.1:9615", DataCenter: "default",
		Lease: 3 * time.Second, NodeLease: 3 * time.Second, Settle: 250 * time.Millisecond,
		Slots: 256, Replicas: 2, Limits: slot.DefaultLimits(),
		Network: wire.NewTCP(), Logger: hclog.NewNullLogger(), Now: time.Now,
	}
}

// withDefaults fills what was left empty.
func (c Config) withDefaults() Config {
	d := DefaultConfig()
	or := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	or(&c.Lease, d.Lease)
	or(&c.Beat, c.Lease/3)
	or(&c.NodeLease, d.NodeLease)
	or(&c.Settle, d.Settle)
	if c.DataCenter == "" {
		c.DataCenter = d.DataCenter
	}
	if c.Slots == 0 {
		c.Slots = d.Slots
	}
	if c.Replicas == 0 {
		c.Replicas = d.Replicas
	}
	if c.Network == nil {
		c.Network = d.Network
	}
	if c.Logger == nil {
		c.Logger = d.Logger
	}
	if c.Now == nil {
		c.Now = d.Now
	}
	if c.Rand == nil {
		var seed [32]byte
		crand.Read(seed[:])
		c.Rand = rand.New(rand.NewChaCha8(seed))
	}
	return c
}

// ElectionBeat is Beat, or what it is by default.
func (c Config) ElectionBeat() time.Duration { return c.withDefaults().Beat }

// Validate names the field that cannot be, and the one that it must fit. Zero
// values stand for their defaults. What stands for the database is checked by
// New, so that settings can be refused before there is one.
func (c Config) Validate() error {
	c = c.withDefaults()
	if err := conclave.ValidateName(c.Node.Name); err != nil {
		return fmt.Errorf("meta: Node: %w", err)
	}
	if err := wire.CheckListen(c.Listen, c.Token, c.Insecure); err != nil {
		return fmt.Errorf("meta: Listen: %w", err)
	}
	if err := slot.ValidateCount(c.Slots); err != nil {
		return fmt.Errorf("meta: Slots: %w", err)
	}
	switch {
	case c.Node.Incarnation == "":
		return fmt.Errorf("meta: Node %s has no incarnation", c.Node.Name)
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
	return nil
}

// derive makes a stream of randomness for one loop.
func derive(r *rand.Rand) *rand.Rand { return rand.New(rand.NewPCG(r.Uint64(), r.Uint64())) }
