package slot

import (
	"fmt"
	"slices"
	"strings"

	"conclave"
)

// CanDrain is the admission check before a node is put on the blacklist to be
// drained: ErrNoSuccessor, with the reason, when it leads slots that no other
// live node may take over, or has copies of slots whose leader is dead: it may be
// about to get those. forbidden are the names on the blacklist so far.
func CanDrain(t Table, name string, live []conclave.NodeID, forbidden []string) error {
	leads, inherits := 0, 0
	for _, s := range t.Slots {
		switch {
		case s.Leader.Name == name:
			leads++
		case s.Names(name) && !slices.Contains(live, s.Leader):
			inherits++
		}
	}
	if leads+inherits == 0 {
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
	has := fmt.Sprintf("leads %d slots", leads)
	if leads == 0 {
		has = fmt.Sprintf("has copies of %d slots without a leader", inherits)
	}
	return fmt.Errorf("drain %s, which %s: %w: %s", name, has, ErrNoSuccessor, reason)
}

// Drained reports whether the named node may stop without loss: it leads no slot,
// its successors serve (it is no slot's source any more), and every slot that it
// follows is served by a live leader and has too few other nodes to choose from:
// its copy there is one more than the cluster will have without it. While a
// slot's leader is dead, or compares with the sessions, the copy of a follower may
// be the last complete one, and the next write may make this node its leader.
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
		if !slices.ContainsFunc(s.Followers, is) {
			continue
		}
		served := (s.Phase == Stable || s.Phase == Preparing) && slices.Contains(live, s.Leader)
		if !served || standIns(s) >= replicas-1 {
			return false
		}
	}
	return true
}
