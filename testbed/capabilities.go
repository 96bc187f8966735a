package testbed

import (
	"context"
	"time"
)

// Capabilities are what is possible on a cluster. What its fields leave out is
// not possible, or not known; the player does without it.
type Capabilities struct {
	// Can returns why a step is not possible; nil: every step is.
	Can func(Step) error
	// Size returns the cluster to expect for a wanted one, where the size
	// cannot be chosen freely; nil: the wanted one.
	Size func(Size) Size

	// Events: the nodes' events reach the gate. Without them a node cannot be
	// held at a point, and checkers that need events have nothing to check.
	Events bool

	// EffectTime returns the time at which an action that began a fault, and was
	// carried out between began and now, took effect: no consequence of a fault
	// may be recorded with an earlier time than the fault. Nil: actions take
	// effect at once.
	EffectTime func(ctx context.Context, a Action, began time.Time) time.Time

	// Stopping reports whether the named node was asked to stop and still runs.
	// The player kills such a node before it starts it, and the history has that
	// kill. Nil: Start kills it.
	Stopping func(node string) bool

	// Partial returns how many slots the data nodes serve without a session that
	// could not be reached. Data nodes that do not answer count as 0.
	Partial func(ctx context.Context) int

	// ProcessesEvery is how often RealCluster.Processes may be asked.
	ProcessesEvery time.Duration

	// SlotCopies returns the complete copies of the data nodes' slots, all of one
	// moment: of leaders that serve, of followers that read their leader's feed,
	// and detached ones. Only the simulated cluster can read them.
	SlotCopies func() []SlotCopy
}

// Allows returns why a step is not possible. HealAll always is, and so is
// everything if c is nil.
func (c *Capabilities) Allows(s Step) error {
	if c == nil || c.Can == nil || s.Verb == HealAll {
		return nil
	}
	return c.Can(s)
}

// Fit returns the cluster to expect for a wanted one.
func (c *Capabilities) Fit(wanted Size) Size {
	if c == nil || c.Size == nil {
		return wanted
	}
	return c.Size(wanted)
}
