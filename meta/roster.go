package meta

import (
	"maps"
	"slices"
	"time"

	"conclave"
	"conclave/blacklist"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Queries on the roster.

// find returns the member of a name.
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

// holdsLease reports whether this incarnation is a member whose lease is valid.
func (r *roster) holdsLease(id conclave.NodeID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[id.Name]
	return n != nil && n.member.Node == id && r.leases.Remaining(id.Name, time.Now()) > 0
}

// hasLeft reports whether this incarnation has left.
func (r *roster) hasLeft(id conclave.NodeID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left[id]
}

// examining reports whether a data node lost its stream less than limit ago, so
// that the leader is still finding out whether it is dead.
func (r *roster) examining(now time.Time, limit time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.nodes {
		if n.member.Role == conclave.RoleData && n.stream == nil && !n.broke.IsZero() && now.Sub(n.broke) < limit {
			return true
		}
	}
	return false
}

// isSuspect reports whether this incarnation is a member without a stream.
func (r *roster) isSuspect(id conclave.NodeID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[id.Name]
	return n != nil && n.member.Node == id && n.stream == nil
}

// members returns the list to be written: sessions and data nodes, sorted by
// name (getSessionServerMetaInfo and getDataServerMetaInfo in the articles).
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

// lostSessions returns the sessions that were removed and are not known to be
// dead, in the order of their removal.
func (r *roster) lostSessions() []wire.Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.absent)
}

// live returns the data nodes that hold a lease, and their reports.
func (r *roster) live() (ids []conclave.NodeID, reports []slot.Report) {
	ids, _, reports = r.dataNodes()
	return ids, reports
}

// dataNodes returns the data nodes that hold a lease, those of them that have
// not reported in this term, and the reports of the others. A silent node
// answered when it was dialed, or its first beat is being read: it reports with
// its first beat, or its lease expires.
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

// unheardFor is for how many node leases a data node leads no slot after most
// sessions have reported that they do not hear it: a link that fails again and
// again moves its slots once in that time.
const unheardFor = 2

// unheardNodes returns the names of the data nodes that more than half of the
// sessions do not hear, or did not until a short time ago, sorted. A session that
// hears no data node is cut off itself, and not counted; one without a stream counts
// as hearing all. Fewer nodes than the given number are returned.
func (r *roster) unheardNodes(fewer int, now time.Time) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	sessions, count, silent := 0, 0, map[string]int{} // silent: by address
	for _, n := range r.nodes {
		if n.member.Role == conclave.RoleData {
			count++
		}
	}
	for _, n := range r.nodes {
		if n.member.Role != conclave.RoleSession || n.stream != nil && len(n.unheard) >= count {
			continue
		}
		sessions++
		if n.stream != nil {
			for _, address := range n.unheard {
				silent[address]++
			}
		}
	}
	maps.DeleteFunc(r.unheard, func(name string, until time.Time) bool { return !until.After(now) || r.nodes[name] == nil })
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		_, already := r.unheard[name]
		if 2*silent[r.nodes[name].member.Address] > sessions && (already || len(r.unheard)+1 < fewer) {
			r.unheard[name] = now.Add(unheardFor * r.nodeLease)
		}
	}
	return slices.Sorted(maps.Keys(r.unheard))
}

// otherSession reports whether a session other than the named one takes
// clients: it holds its stream, is ready, does not drain and is not on the
// blacklist.
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

// openSessions returns the sessions that take clients, sorted by name, with the
// number of clients that each has reported.
func (r *roster) openSessions(forbidden []string) (out []*wirev1.SessionLoad) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		n := r.nodes[name]
		if n.member.Role == conclave.RoleSession && n.stream != nil && n.ready && !n.draining && !slices.Contains(forbidden, name) {
			out = append(out, &wirev1.SessionLoad{Node: wire.NodeOut(n.member.Node), Address: n.member.Address, Clients: n.load})
		}
	}
	return out
}

// lastContact returns the number of sessions and data nodes, and when one of
// them last sent a beat, or when the term began if none has. Time in which this
// process did not run is left out.
func (r *roster) lastContact(now time.Time) (members int, last time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.catchUp(now)
	return len(r.nodes), r.lastBeat
}

// dataJoins returns when the last and the first data node registered; zero
// times if none has.
func (r *roster) dataJoins() (last, first time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.joined, r.first
}

// allSeen reports whether every member has sent a beat in this term, or is
// known to be dead.
func (r *roster) allSeen() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.nodes {
		if !n.seen && !n.refusedTwice {
			return false
		}
	}
	return true
}

// unseen returns the members that have sent no beat in this term.
func (r *roster) unseen() []wire.Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []wire.Member
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		if n := r.nodes[name]; !n.seen {
			list = append(list, n.member)
		}
	}
	return list
}

// lost returns the names of the data nodes that were removed within the last
// lease and have not come back.
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

// known returns a copy of everything, sorted by name, for the admin API.
func (r *roster) known(now time.Time) (nodes []rosterEntry, remaining []time.Duration, metas []rosterEntry) {
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

// metaMembers returns the metas that hold a stream.
func (r *roster) metaMembers() []wire.Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []wire.Member
	for _, name := range slices.Sorted(maps.Keys(r.metas)) {
		list = append(list, r.metas[name].member)
	}
	return list
}

// metaAddresses returns their addresses.
func (r *roster) metaAddresses() (list []string) {
	for _, m := range r.metaMembers() {
		list = append(list, m.Address)
	}
	return list
}

// forbiddenNames returns the names on the blacklist.
func forbiddenNames(st wire.State) []string {
	return blacklist.Set(st.Blacklist.Entries).Names()
}
