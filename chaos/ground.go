package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Ground describes where a scenario is to be played: which actions are possible
// there, and how large the cluster is. A nil Ground is the bubble, where every
// action is possible.
type Ground struct {
	// Can returns why an action is not possible there; a nil Can allows
	// everything.
	Can func(Deed) error
	// Size returns the cluster to expect for a wanted one, where the size
	// cannot be chosen freely; nil: the wanted one.
	Size func(Cluster) Cluster
}

func (g *Ground) can(d Deed) error {
	if g == nil || g.Can == nil || d.Verb == HealAll {
		return nil
	}
	return g.Can(d)
}

func (g *Ground) size(c Cluster) Cluster {
	if g == nil || g.Size == nil {
		return c
	}
	return g.Size(c)
}

// Refuses returns the reasons why a scenario cannot be played there, sorted and
// without duplicates.
func (g *Ground) Refuses(s Scenario) []string {
	if g == nil {
		return nil
	}
	why := map[string]bool{}
	if s.Bubble {
		why["only in the bubble"] = true
	}
	want, have := s.Cluster, g.size(s.Cluster)
	if want.Metas != have.Metas || want.Sessions != have.Sessions || want.Datas != have.Datas {
		why[fmt.Sprintf("a cluster of %d metas, %d sessions and %d data nodes", want.Metas, want.Sessions, want.Datas)] = true
	}
	for _, step := range s.Steps {
		if step.Deed == nil {
			continue
		}
		if err := g.can(*step.Deed); err != nil {
			why[strings.TrimSuffix(err.Error(), ": "+ErrUnsupported.Error())] = true
		}
	}
	return slices.Sorted(maps.Keys(why))
}

// IsMeta reports whether the selector always stands for meta nodes.
func (s Selector) IsMeta() bool {
	switch s {
	case "leader", "follower", "metas", "a meta", "half of metas":
		return true
	}
	return strings.HasPrefix(string(s), "meta-")
}

// Everyone reports whether the selector names no peer in particular.
func (s Selector) Everyone() bool { return slices.Contains([]Selector{"", "everyone"}, s) }
