package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Ground is where a story is to be played: what can be done there, and to what.
// A nil Ground is the bubble, where everything can.
type Ground struct {
	// Can says why something cannot be done there; a nil Can allows everything.
	Can func(Deed) error
	// Size is the cluster that is made of the one that is wished for, where its size
	// cannot be chosen freely; nil: the wish.
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

// Refuses lists what stands against playing a scenario there, sorted and once each.
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

// IsMeta says that whomever a noun stands for is a meta, whatever the moment.
func (s Selector) IsMeta() bool {
	switch s {
	case "leader", "follower", "metas", "a meta", "half of metas":
		return true
	}
	return strings.HasPrefix(string(s), "meta-")
}

// Everyone says that the noun is no peer in particular.
func (s Selector) Everyone() bool { return slices.Contains([]Selector{"", "everyone"}, s) }
