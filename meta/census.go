package meta

import (
	"maps"
	"slices"
	"time"

	"conclave"
	"conclave/slot"
	"conclave/wire"
)

// What is asked of the roster: who is on it, and what the leader tells others of them.

// find is the member of a name.
func (r *roster) find(name string) (m wire.Member, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[name]
	if n == nil {
		n = r.metas[name]
	}
	if n == nil {
		return wire.Member{}, false
	}
	return n.member, true
}

// holdsLease says that this incarnation is a member whose lease still runs.
func (r *roster) holdsLease(id conclave.NodeID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[id.Name]
	return n != nil && n.member.Node == id && r.leases.Remaining(id.Name, time.Now()) > 0
}

// hasLeft says that this incarnation took its leave.
func (r *roster) hasLeft(id conclave.NodeID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left[id]
}

// examined says that a data node lost its stream less than patience ago: whether
// it is dead is being found out.
func (r *roster) examined(now time.Time, patience time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.nodes {
		if n.member.Role == conclave.RoleData && n.stream == nil && !n.broke.IsZero() && now.Sub(n.broke) < patience {
			return true
		}
	}
	return false
}

// isSuspect says that this very incarnation is a member without a stream.
func (r *roster) isSuspect(id conclave.NodeID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[id.Name]
	return n != nil && n.member.Node == id && n.stream == nil
}

// members is the list as it should be written: sessions and data nodes, sorted
// by name.
func (r *roster) members(forbidden []string) []wire.Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]wire.Member, 0, len(r.nodes))
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		n := r.nodes[name]
		m := n.member
		m.Draining = n.draining || slices.Contains(forbidden, name)
		list = append(list, m)
	}
	return list
}

// live are the data nodes that hold a lease, and what they reported.
func (r *roster) live() (ids []conclave.NodeID, reports []slot.Report) {
	ids, _, reports = r.dataNodes()
	return ids, reports
}

// dataNodes lists the data nodes that hold a lease, those of them that have not
// reported in this term, and what the others reported. A silent node was dialed
// and answered, or its first beat is being read: it reports with its first beat,
// or its lease ends.
func (r *roster) dataNodes() (live, silent []conclave.NodeID, reports []slot.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		n := r.nodes[name]
		if n.member.Role != conclave.RoleData {
			continue
		}
		live = append(live, n.member.Node)
		reports = append(reports, n.reports...)
		if !n.reported {
			silent = append(silent, n.member.Node)
		}
	}
	return live, silent, reports
}

// otherSession reports whether a session besides the named one takes clients: it
// holds its stream, is ready, and neither drains nor is forbidden.
func (r *roster) otherSession(name string, forbidden func(string) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for other, n := range r.nodes {
		if other != name && n.member.Role == conclave.RoleSession && n.stream != nil && n.ready && !n.draining && !forbidden(other) {
			return true
		}
	}
	return false
}

// reached is how many sessions and data nodes there are, and when the last one
// spoke; the zero time when none did.
func (r *roster) reached() (members int, last time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.nodes), r.spoke
}

// settled says since when no data node has registered, and since when there is
// one; zero times when none ever did.
func (r *roster) settled() (last, first time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.joined, r.first
}

// allHeard says that every member has been heard in this term, or is known to be
// dead.
func (r *roster) allHeard() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.nodes {
		if !n.heard && !n.gone {
			return false
		}
	}
	return true
}

// unheard are the members of whom nothing was heard in this term.
func (r *roster) unheard() []wire.Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []wire.Member
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		if n := r.nodes[name]; !n.heard {
			list = append(list, n.member)
		}
	}
	return list
}

// lost are the names of the data nodes that were taken off within the last lease
// and are not back.
func (r *roster) lost(now time.Time) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losses = slices.DeleteFunc(r.losses, func(l loss) bool { return now.Sub(l.at) >= r.nodeLease })
	var names []string
	for _, l := range r.losses {
		if r.nodes[l.name] == nil && !slices.Contains(names, l.name) {
			names = append(names, l.name)
		}
	}
	slices.Sort(names)
	return names
}

// known is a copy of everything, sorted by name: what the admin API shows.
func (r *roster) known(now time.Time) (nodes []node, remaining []time.Duration, metas []node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		nodes = append(nodes, *r.nodes[name])
		remaining = append(remaining, r.leases.Remaining(name, now))
	}
	for _, name := range slices.Sorted(maps.Keys(r.metas)) {
		metas = append(metas, *r.metas[name])
	}
	return nodes, remaining, metas
}

// metaMembers are the metas that hold a stream, for the beats down.
func (r *roster) metaMembers() []wire.Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []wire.Member
	for _, name := range slices.Sorted(maps.Keys(r.metas)) {
		list = append(list, r.metas[name].member)
	}
	return list
}
