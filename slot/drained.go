package slot

import (
	"fmt"
	"slices"
	"strings"

	"conclave"
)

// CanDrain decides whether the named node may be put on the blacklist in order
// to be drained. It returns ErrNoSuccessor, with the reason, if the node leads
// slots that no other live node may take over, or has copies of slots whose
// leader is dead, because it may be granted those. forbidden are the names that
// are already on the blacklist.
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

// Drained reports whether the named node may stop without loss of data, and
// without loss of a copy: it has handed over (HandedOver), and too few other
// nodes are available to hold the copies that it still has, so that the cluster
// has one copy fewer without this node in any case.
func Drained(t Table, name string, live []conclave.NodeID, forbidden []string, replicas int) bool {
	is := func(n conclave.NodeID) bool { return n.Name == name }
	available := func(s Slot) (n int) {
		for _, l := range live {
			if !is(l) && l != s.Leader && !slices.Contains(forbidden, l.Name) {
				n++
			}
		}
		return n
	}
	for _, s := range t.Slots {
		if slices.ContainsFunc(s.Followers, is) && available(s) >= replicas-1 {
			return false
		}
	}
	return HandedOver(t, name, live)
}

// HandedOver reports whether the named node may stop without loss of data. It
// must lead no slot and be the source of none (its successors serve). Every slot
// that it follows must have a live leader that serves it: while a slot's leader
// is dead or compares with the sessions, a follower may have the last complete
// copy, and the next write may make it the leader.
//
// The slots that it follows have a copy fewer when it has stopped, until another
// node has loaded one: Drained waits for that, too.
func HandedOver(t Table, name string, live []conclave.NodeID) bool {
	is := func(n conclave.NodeID) bool { return n.Name == name }
	for _, s := range t.Slots {
		if is(s.Leader) || is(s.Successor) || is(s.Source) {
			return false
		}
		served := (s.Phase == Stable || s.Phase == Preparing) && slices.Contains(live, s.Leader)
		if slices.ContainsFunc(s.Followers, is) && !served {
			return false
		}
	}
	return true
}
