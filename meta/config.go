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
	"conclave/wire/serve"
)

// StateStore keeps the five kinds of cluster state, each written under the term
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
	List(ctx context.Context, limit int) ([]conclavesql.Election, error)
}

var _ History = (*conclavesql.History)(nil)

// AskWitness asks the meta at address whether it still leads the recorded term,
// as a follower that acquired the leader's lock must (elector/termcas,
// Config.Ask). A refused dial is an answer: no process listens there.
type AskWitness func(ctx context.Context, address string, term uint64, lock string) (alive, answered bool)

// Config configures a Server. Node, Listen, Strategy, Store and History are
// required; DefaultConfig has the rest.
type Config struct {
	Node       conclave.NodeID // name, and an incarnation drawn at this start
	Listen     string          // host:port; port 0 takes a free one
	Advertise  string          // the address given to other nodes; "": the listener's own
	DataCenter string          // nodes that name another one are refused; the Strategy's lock should have it
	Metas      []string        // addresses of all metas; may include this one
	Token      string          // required with every changing request; "": none
	Insecure   bool            // allow listening beyond loopback without a token

	// Strategy makes the election strategy; ask asks a leader at its port.
	Strategy func(ask AskWitness) (elector.Strategy, error)
	Store    StateStore
	History  History
	// Statements returns the number of SQL statements sent so far, for the
	// metrics; may be nil.
	Statements func() uint64

	// Lease is how long the leadership lasts without a renewal; 3 s.
	Lease time.Duration
	// Beat is the time between two renewals, and between two beats down to each
	// node; at most Lease/3, which is the default.
	Beat time.Duration
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
	Replicas int         // copies of a slot, its leader's included; 2
	Limits   slot.Limits // how much one write may move

	Network wire.Network
	Logger  hclog.Logger     // named by the caller
	Trace   trace.Sink       // receives trace events; may be nil
	Rand    *rand.Rand       // source of the random streams of all loops; nil draws a seed
	Now     func() time.Time // for display, and once for the version floor of a table made from nothing
	Version string
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Listen: "127.0.0.1:9615", DataCenter: "default",
		Lease: 3 * time.Second, NodeLease: 3 * time.Second, Settle: 250 * time.Millisecond,
		Slots: 256, Replicas: 2, Limits: slot.DefaultLimits(),
		Network: wire.NewTCP(), Logger: hclog.NewNullLogger(), Now: time.Now,
	}
}

// withDefaults sets zero fields to their defaults.
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

// ElectionBeat returns Beat or its default.
func (c Config) ElectionBeat() time.Duration { return c.withDefaults().Beat }

// Validate reports the first invalid field and the constraint that it violates.
// Zero values stand for their defaults. Strategy, Store and History are checked
// by New, so that settings can be refused before there is a database.
func (c Config) Validate() error {
	c = c.withDefaults()
	if err := conclave.ValidateName(c.Node.Name); err != nil {
		return fmt.Errorf("meta: Node: %w", err)
	}
	if err := serve.CheckListen(c.Listen, c.Token, c.Insecure); err != nil {
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

// derive returns a random stream for one loop.
func derive(r *rand.Rand) *rand.Rand { return rand.New(rand.NewPCG(r.Uint64(), r.Uint64())) }
