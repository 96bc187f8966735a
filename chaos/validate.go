package chaos

import (
	"fmt"
	"slices"
	"strings"
)

// check returns the first contradiction in a scenario that was parsed.
func (s Scenario) check() error {
	if len(s.Steps) == 0 && s.Until == 0 {
		return fmt.Errorf("no action and no expectation")
	}
	for _, step := range s.Steps {
		if name := s.absent(step); name != "" {
			return fmt.Errorf("line %d: there is no %s in this cluster", step.Line, name)
		}
		switch {
		case step.At < 0 || step.Every < 0:
			return fmt.Errorf("line %d: %s is before the beginning", step.Line, step.At)
		case step.At > s.Until || step.To > s.Until:
			return fmt.Errorf("line %d: %s is after the end (until %s)", step.Line, max(step.At, step.To), s.Until)
		case step.Every > 0 && (step.To-step.At)/step.Every > 10_000:
			return fmt.Errorf("line %d: more than 10,000 repetitions", step.Line)
		}
	}
	if s.Load.Clients > 0 && s.Load.Names == 0 {
		return fmt.Errorf("clients without names: nothing would be published")
	}
	if s.Cluster.Slots&(s.Cluster.Slots-1) != 0 {
		return fmt.Errorf("%d slots: want a power of two", s.Cluster.Slots)
	}
	return nil
}

// absent returns a name in a step that no node or client of the scenario has.
func (s Scenario) absent(step Step) Selector {
	var named []Selector
	if step.Deed != nil {
		named = append(named, step.Deed.Who, step.Deed.Whom)
	}
	if step.Expect != nil {
		named = append(named, step.Expect.Who)
	}
	c := targets{cluster: s.Cluster, clients: s.Load.Clients}
	for _, n := range named {
		role, _, numbered := strings.Cut(string(n), "-")
		if numbered && roles[role] != "" && !slices.Contains(c.all(role), string(n)) {
			return n
		}
	}
	return ""
}
