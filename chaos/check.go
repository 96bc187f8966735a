package chaos

import (
	"fmt"
	"slices"
	"strings"
)

// check finds what cannot be, whatever the words are.
func (s Scenario) check() error {
	if len(s.Steps) == 0 && s.Until == 0 {
		return fmt.Errorf("nothing is done and nothing is expected")
	}
	for _, step := range s.Steps {
		if name := s.absent(step); name != "" {
			return fmt.Errorf("line %d: there is no %s in this cluster", step.Line, name)
		}
		switch {
		case step.At < 0 || step.Every < 0:
			return fmt.Errorf("line %d: %s lies before the beginning", step.Line, step.At)
		case step.At > s.Until || step.To > s.Until:
			return fmt.Errorf("line %d: %s lies after the end (until %s)", step.Line, max(step.At, step.To), s.Until)
		case step.Every > 0 && (step.To-step.At)/step.Every > 10_000:
			return fmt.Errorf("line %d: that is more than 10,000 times", step.Line)
		}
	}
	if s.Load.Clients > 0 && s.Load.Names == 0 {
		return fmt.Errorf("clients without names: nobody would publish anything")
	}
	if s.Cluster.Slots&(s.Cluster.Slots-1) != 0 {
		return fmt.Errorf("%d slots: want a power of two", s.Cluster.Slots)
	}
	return nil
}

// absent is a name in a step that none of the story's nodes and clients has.
func (s Scenario) absent(step Step) Selector {
	var nouns []Selector
	if step.Deed != nil {
		nouns = append(nouns, step.Deed.Who, step.Deed.Whom)
	}
	if step.Expect != nil {
		nouns = append(nouns, step.Expect.Who)
	}
	c := cast{cluster: s.Cluster, clients: s.Load.Clients}
	for _, n := range nouns {
		role, _, named := strings.Cut(string(n), "-")
		if named && roles[role] != "" && !slices.Contains(c.all(role), string(n)) {
			return n
		}
	}
	return ""
}
