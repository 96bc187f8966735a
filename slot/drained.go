package slot

import (
	"fmt"
	"slices"
	"strings"

	"conclave"
)

// CanDrain is the admission check before a node is put on the blacklist to be
// drained: ErrNoSuccessor, with the reason, when it leads slots that no other
// live node may take over. forbidden are the names on the blacklist so far.
func CanDrain(t Table, name string, live []conclave.NodeID, forbidden []string) error {
	leads := 0
	for _, s := range t.Slots {
		if s.Leader.Name == name {
			leads++
		}
	}
	if leads == 0 {
		return nil
	}
	var others []string
	for _, n := range live {
		switch {
		case n.Name == name:
		case slices.Contains(forbidden, n.Name):
			others = append(others, n.Name)
		default:
			return nil
		}
	}
	reason := "no other data node is up"
	if len(others) > 0 {
		slices.Sort(others)
		reason = "every other data node is blacklisted: " + strings.Join(others, ", ")
	}
	return fmt.Errorf("drain %s, which leads %d slots: %w: %s", name, leads, ErrNoSuccessor, reason)
}

// Drained says that the named node may stop without anyone missing it: it leads
// no slot, its successors serve (it is no slot's source any more), and it follows
// only slots that have too few other nodes to choose from: its copy there is one
// more than the cluster will have without it.
func Drained(t Table, name string, live []conclave.NodeID, forbidden []string, replicas int) bool {
	is := func(n conclave.NodeID) bool { return n.Name == name }
	standIns := func(s Slot) (n int) {
		for _, l := range live {
			if !is(l) && l != s.Leader && !slices.Contains(forbidden, l.Name) {
				n++
			}
		}
		return n
	}
	for _, s := range t.Slots {
		if is(s.Leader) || is(s.Successor) || is(s.Source) {
			return false
		}
		if slices.ContainsFunc(s.Followers, is) && standIns(s) >= replicas-1 {
			return false
		}
	}
	return true
}
