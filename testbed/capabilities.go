package testbed

// Capabilities describe which actions are possible on a cluster, and how large it
// is. Nil stands for the simulated cluster, where every action is possible.
type Capabilities struct {
	// Can returns why an action is not possible there; a nil Can allows
	// everything.
	Can func(Step) error
	// Size returns the cluster to expect for a wanted one, where the size
	// cannot be chosen freely; nil: the wanted one.
	Size func(Size) Size
}

// Allows returns why an action is not possible; HealAll always is.
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
