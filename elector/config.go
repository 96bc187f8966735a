package elector

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/internal/trace"
)

// Config is what an Elector needs. ID and Strategy are required.
type Config struct {
	// ID is this node, with an incarnation that is new with each start.
	ID conclave.NodeID
	// Address is where others reach this node; stored beside the term.
	Address string
	// Strategy is how the candidates agree.
	Strategy Strategy

	// Lease is how long a term lasts without a renewal. Others wait this long for
	// a leader that fell silent. Default 3 s.
	Lease time.Duration
	// Beat is the time between two renewals. At most a third of Lease, so that two
	// of them may be lost. Default a third of Lease.
	Beat time.Duration
	// Margin is how much earlier than its lease ends the leader stops trusting
	// itself: for the drift between two machines' clocks and for acts that are
	// under way. At most a third of Lease. Default Lease/50, at least 50 ms.
	Margin time.Duration
	// Poll is how often a follower reads the store while nobody pushes it the leader's
	// beats. At least one Beat, at most Lease. Longer is cheaper, and a leader whose end
	// only the lease tells is followed that much later, because a beat is observed from
	// the first look that sees it. Default one Beat.
	Poll time.Duration
	// SafetyRead is how often a follower reads the store although the leader's
	// pushed beats tell it the same. At least one Beat. Default 10 s.
	SafetyRead time.Duration

	// Observer starts the node as one that never competes, until JoinElection.
	Observer bool

	// Lead is called when this node begins to lead, with a context that ends when
	// it stops: resigned, deposed, or the end of trust (context.Cause says which).
	// The node does not compete again before Lead has returned. Returning earlier
	// resigns. nil: leading is only seen through Leading.
	Lead func(ctx context.Context, term Term) error
	// Beaten is called after each renewal that the store has acknowledged, and
	// after the election: push the term and beat to the followers. It must not
	// block.
	Beaten func(Term)
	// WakePeers tells the other candidates that the term was resigned: they should
	// call Wake. It runs beside the loop and has one beat of time.
	WakePeers func(ctx context.Context, resigned Term)

	// Rand is the stream of this loop's jitter; nil draws a seed from the system.
	Rand *rand.Rand
	// Now is the wall clock, only for Term.Since. nil is time.Now.
	Now func() time.Time
	// Logger is named by the caller; nil drops everything.
	Logger hclog.Logger
	// Trace hears what this node claims; nil: nobody listens.
	Trace trace.Sink
}

// withDefaults fills what was left empty.
func (c Config) withDefaults() Config {
	if c.Lease == 0 {
		c.Lease = 3 * time.Second
	}
	if c.Beat == 0 {
		c.Beat = c.Lease / 3
	}
	if c.Margin == 0 {
		c.Margin = max(50*time.Millisecond, c.Lease/50)
	}
	if c.Poll == 0 {
		c.Poll = c.Beat
	}
	if c.SafetyRead == 0 {
		c.SafetyRead = max(10*time.Second, c.Beat)
	}
	if c.Lead == nil {
		c.Lead = func(ctx context.Context, _ Term) error { <-ctx.Done(); return nil }
	}
	if c.Beaten == nil {
		c.Beaten = func(Term) {}
	}
	if c.WakePeers == nil {
		c.WakePeers = func(context.Context, Term) {}
	}
	if c.Rand == nil {
		var seed [32]byte
		crand.Read(seed[:])
		c.Rand = rand.New(rand.NewChaCha8(seed))
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}

// Validate names the field that cannot be, and the one that it must fit. Zero
// durations stand for their defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	if err := conclave.ValidateName(c.ID.Name); err != nil {
		return fmt.Errorf("elector: ID: %w", err)
	}
	switch {
	case c.ID.Incarnation == "":
		return fmt.Errorf("elector: ID %q has no incarnation", c.ID.Name)
	case c.Strategy == nil:
		return fmt.Errorf("elector: Strategy is missing")
	case c.Lease < 100*time.Millisecond:
		return fmt.Errorf("elector: Lease %v is under 100ms", c.Lease)
	case c.Beat <= 0 || c.Beat > c.Lease/3:
		return fmt.Errorf("elector: Beat %v must be positive and at most a third of Lease %v", c.Beat, c.Lease)
	case c.Margin < 0 || c.Margin > c.Lease/3:
		return fmt.Errorf("elector: Margin %v must be at most a third of Lease %v", c.Margin, c.Lease)
	case c.Poll < c.Beat || c.Poll > c.Lease:
		return fmt.Errorf("elector: Poll %v must be at least Beat %v and at most Lease %v", c.Poll, c.Beat, c.Lease)
	case c.SafetyRead < c.Beat:
		return fmt.Errorf("elector: SafetyRead %v is shorter than Beat %v", c.SafetyRead, c.Beat)
	}
	return nil
}
