package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"conclave/testbed"
)

// check returns the first contradiction in a scenario that was parsed.
func (s Scenario) check() error {
	for _, step := range s.Lines {
		if step.Step != nil && step.Step.Verb == testbed.Burst {
			switch {
			case step.Step.Factor > 0 && (s.Load.Clients == 0 || s.Load.Every == 0):
				return fmt.Errorf("line %d: %s: want clients that change values (clients N every D)", step.Number, step.Step)
			case s.Load.Clients == 0:
				return fmt.Errorf("line %d: %s: want clients that stay (clients N)", step.Number, step.Step)
			}
		}
		if name := s.absent(step); name != "" {
			return fmt.Errorf("line %d: there is no %s in this cluster", step.Number, name)
		}
		until := s.Until
		switch {
		case len(s.Scenes) > 0 && step.Scene == 0:
			return fmt.Errorf("line %d: %s stands before the first scene", step.Number, step)
		case step.Scene > 0:
			until = s.Scenes[step.Scene-1].Until
		}
		switch {
		case step.At < 0 || step.Every < 0:
			return fmt.Errorf("line %d: %s is before the beginning", step.Number, step.At)
		case step.At > until || step.To > until:
			return fmt.Errorf("line %d: %s is after the end (until %s)", step.Number, max(step.At, step.To), until)
		case step.Every > 0 && (step.To-step.At)/step.Every > 10_000:
			return fmt.Errorf("line %d: more than 10,000 repetitions", step.Number)
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
func (s Scenario) absent(step Line) testbed.Selector {
	var named []testbed.Selector
	if step.Step != nil {
		named = append(named, step.Step.Who, step.Step.Whom)
	}
	if step.Expect != nil {
		named = append(named, step.Expect.Who)
	}
	c := targets{cluster: s.Cluster, clients: s.Load.Clients}
	for _, n := range named {
		role, _, numbered := strings.Cut(string(n), "-")
		if numbered && slices.Contains([]string{"meta", "session", "data", "client"}, role) && !slices.Contains(c.all(role), string(n)) {
			return n
		}
	}
	return ""
}

// errBudgets is why a scenario with budgets is not played on real machines.
const errBudgets = "a budget (only simulated nodes have one; a real node computes as fast as its machine)"

// Refusals returns the reasons why the scenario cannot be played on a cluster
// with these capabilities, sorted and without duplicates.
func (s Scenario) Refusals(g *testbed.Capabilities) []string {
	if g == nil {
		return nil
	}
	why := map[string]bool{}
	if s.Bubble {
		why["virtual time"] = true
	}
	if s.Cluster.Budgets != (testbed.Budgets{}) && g.Usage == nil {
		why[errBudgets] = true
	}
	if s.Load.Rolling > 0 && g.Lingering == nil {
		why["clients with a linger (only simulated ones)"] = true
	}
	if s.Load.HTTP > 0 && g.ByHTTP == nil {
		why["clients without the SDK"] = true
	}
	if s.Load.Sofa > 0 && g.OfSofa == nil {
		why["clients of SOFARegistry (only simulated sessions serve them)"] = true
	}
	want, have := s.Cluster, g.Fit(s.Cluster)
	if want.Metas != have.Metas || want.Sessions != have.Sessions || want.Datas != have.Datas {
		why[fmt.Sprintf("a cluster of %d metas, %d sessions and %d data nodes", want.Metas, want.Sessions, want.Datas)] = true
	}
	for _, step := range s.Lines {
		if step.Step == nil {
			continue
		}
		if err := g.Allows(*step.Step); err != nil {
			why[strings.TrimSuffix(err.Error(), ": "+testbed.ErrUnsupported.Error())] = true
		}
	}
	return slices.Sorted(maps.Keys(why))
}
