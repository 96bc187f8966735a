package elector

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"conclave"
	"conclave/internal/random"
)

// Config is what an Elector needs. ID and Strategy are required.
type Config struct {
	// ID is this node. Its incarnation must be new with each start; if it is empty,
	// New draws one (see Elector.ID).
	ID conclave.NodeID
	// Address is the address that other nodes reach this node at. It is stored
	// beside the term.
	Address string
	// Strategy is how the candidates agree on a leader.
	Strategy Strategy

	// Lease is how long a term lasts without a renewal: the time that the other
	// nodes wait for a silent leader. At least 100 ms. Default 3 s.
	Lease time.Duration
	// Beat is the time between two renewals. At most a third of Lease, so that
	// two of them may be lost. Default a third of Lease.
	Beat time.Duration
	// Margin is how much earlier than its lease the leader's trust in itself
	// ends. It covers the drift between two machines' clocks and the work that
	// is in progress at the end of trust. At most a third of Lease. Default
	// Lease/50, at least 50 ms.
	Margin time.Duration
	// Poll is how often a follower reads the store while the leader's beats are
	// not pushed to it. At least one Beat, at most Lease. A longer Poll is
	// cheaper, but a leader that only its lease shows to be dead is replaced
	// that much later, because a beat is observed from the first read that sees
	// it. Default one Beat.
	Poll time.Duration
	// SafetyRead is how often a follower reads the store even though the
	// leader's beats are pushed to it. At least one Beat. Default 10 s.
	SafetyRead time.Duration

	// HandOver is how long Run continues after its context has ended, to hand the
	// term over: Lead's context ends at once, the term is renewed until Lead has returned,
	// and then one statement gives it up. If this time is not enough, Run renews no more
	// and only waits for Lead: another node leads when Lead has returned and the
	// connections are closed, or when trust has ended. Default 8 s, less than
	// the 10 s after which Docker kills a process. With NoHandOver, the end of Run's
	// context is like a crash, but no connection is closed before Lead has returned or trust
	// has ended.
	HandOver time.Duration
	// Backoff is how long this node does not compete after Lead has failed, so that a
	// task that always fails does not go from node to node without a pause. Default
	// two leases.
	Backoff time.Duration
	// StopOnError makes Run return the error of Lead, after the term was handed over,
	// instead of competing again after Backoff.
	StopOnError bool

	// Observer starts the node as an observer: it does not compete until
	// JoinElection is called.
	Observer bool

	// Lead is called when this node begins to lead. Its context ends when the
	// node stops leading; context.Cause is one of the Err values of this
	// package. The node does not compete again before Lead has returned. If Lead
	// returns earlier, the node resigns. If Lead is nil, leadership shows only
	// in Leading and Changes.
	//
	// Lead has failed if it returns an error before its context has ended: that is
	// logged and counted (Stats.LeadFailed), and Backoff and StopOnError apply.
	// StopOnError does not apply to context.Canceled, nor to an error that wraps
	// ErrDeposed, as fence.ErrTermEnded does: the term may be lost without this node
	// knowing it yet, and then the task is not at fault.
	Lead func(ctx context.Context, term Term) error
	// OnBeat is called after an election that this node has won and after each
	// renewal that the store has acknowledged. Use it to push the term and beat
	// to the followers (see Observe). It must not block.
	OnBeat func(Term)
	// WakePeers notifies the other candidates that the term was resigned, so
	// that they call Resigned. It runs in its own goroutine, with a context that
	// ends after one beat.
	WakePeers func(ctx context.Context, resigned Term)

	// Rand is the source of the loop's jitter. If nil, a seed is drawn from the
	// system.
	Rand *rand.Rand
	// Now is the wall clock, used only for Term.Since and Status.Since. Default time.Now.
	Now func() time.Time
	// Logger receives the log lines; nil discards them.
	Logger *slog.Logger
	// Trace receives the events of this node's leaderships, for tests and
	// measurements; nil discards them. It is called with the elector's lock held:
	// it must not block and must not call the Elector.
	Trace func(Event)
}

// NoHandOver is a Config.HandOver with which Run gives nothing up when its context ends.
const NoHandOver time.Duration = -1

// withDefaults returns c with a default in each field that is zero.
func (c Config) withDefaults() Config {
	c.Lease = cmp.Or(c.Lease, 3*time.Second)
	c.Beat = cmp.Or(c.Beat, c.Lease/3)
	c.Margin = cmp.Or(c.Margin, max(50*time.Millisecond, c.Lease/50))
	c.Poll = cmp.Or(c.Poll, c.Beat)
	c.SafetyRead = cmp.Or(c.SafetyRead, max(10*time.Second, c.Beat))
	c.HandOver = cmp.Or(c.HandOver, 8*time.Second)
	c.Backoff = cmp.Or(c.Backoff, 2*c.Lease)
	if c.Lead == nil {
		c.Lead = func(ctx context.Context, _ Term) error { <-ctx.Done(); return nil }
	}
	if c.OnBeat == nil {
		c.OnBeat = func(Term) {}
	}
	if c.WakePeers == nil {
		c.WakePeers = func(context.Context, Term) {}
	}
	unpredictable := random.New()
	if c.Rand == nil {
		c.Rand = unpredictable
	}
	if c.ID.Incarnation == "" { // not from c.Rand, whose seed may be the same at each start
		c.ID.Incarnation = conclave.NewIncarnation(unpredictable)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Trace == nil {
		c.Trace = func(Event) {}
	}
	return c
}

// Validate reports the first invalid field and the constraint that it violates.
// It applies the defaults first.
func (c Config) Validate() error { return c.withDefaults().validate() }

func (c Config) validate() error {
	if err := conclave.ValidateName(c.ID.Name); err != nil {
		return fmt.Errorf("elector: ID: %w", err)
	}
	switch {
	case c.Strategy == nil:
		return fmt.Errorf("elector: Strategy is missing")
	case c.Lease < 100*time.Millisecond:
		return fmt.Errorf("elector: Lease %v must be at least 100ms", c.Lease)
	case c.Beat <= 0 || c.Beat > c.Lease/3:
		return fmt.Errorf("elector: Beat %v must be positive and at most a third of Lease %v", c.Beat, c.Lease)
	case c.Margin < 0 || c.Margin > c.Lease/3:
		return fmt.Errorf("elector: Margin %v must be at most a third of Lease %v", c.Margin, c.Lease)
	case c.Poll < c.Beat || c.Poll > c.Lease:
		return fmt.Errorf("elector: Poll %v must be at least Beat %v and at most Lease %v", c.Poll, c.Beat, c.Lease)
	case c.SafetyRead < c.Beat:
		return fmt.Errorf("elector: SafetyRead %v must be at least Beat %v", c.SafetyRead, c.Beat)
	case c.HandOver < 0 && c.HandOver != NoHandOver:
		return fmt.Errorf("elector: HandOver %v must be positive, or NoHandOver", c.HandOver)
	case c.Backoff < 0:
		return fmt.Errorf("elector: Backoff %v must be positive", c.Backoff)
	}
	return nil
}
