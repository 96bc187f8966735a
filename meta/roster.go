package meta

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"conclave"
	"conclave/internal/signal"
	"conclave/lease"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// roster holds the leader's view of the other nodes: every session and data
// node with its lease, its stream and its last beat, and the metas that follow.
// It lives for one term; the next leader fills its own from the stored list and
// from the beats that it receives. A name has one incarnation at a time.
//
//	            first beat                       stream breaks
//	(unknown) -------------> up  <------------------------------> suspect
//	                          |            joins again               |
//	      Leave               | lease expires (no beats)             | two refused dials,
//	      (left) <------------+-----------------> (lost) <-----------+ or lease expires
type roster struct {
	nodeLease, round time.Duration
	arrived          signal.Broadcast // notified when a member was added

	mu         sync.Mutex      // guards the rest; held for look-ups and changes only
	lateness   *lease.Lateness // of the rounds
	nodes      map[string]*rosterEntry
	leases     *lease.Table[string] // of sessions and data nodes, by name
	metas      map[string]*rosterEntry
	left       map[conclave.NodeID]bool // have left: a late beat does not bring them back
	undialable map[string]wire.Member   // by name: the last one refused because it could not be dialed
	losses     []loss                   // of data nodes, the latest last
	unheard    map[string]time.Time     // data nodes that most sessions do not hear, by name: until when they lead no slot
	absent     []wire.Member            // sessions that were removed and are not known to be dead, the latest last
	joined     time.Time                // when a data node last registered; zero: none has
	first      time.Time                // when the first one did
	lastBeat   time.Time                // when a session or data node last sent a beat; before that, when the roster was made
}

// stream is one member's connection to the leader.
type stream struct {
	id   conclave.NodeID
	role conclave.Role
	stop context.CancelCauseFunc // ends the stream
	echo chan uint64             // the last beat received; cap 1, the reader replaces it
}

// rosterEntry is one member as the leader sees it.
type rosterEntry struct {
	member       wire.Member
	stream       *stream // the open one; nil: suspect
	seen         bool    // it has sent a beat in this term, or answered at its port
	refusedTwice bool    // (warm-up) a stored member that refused two dials
	reports      []slot.Report
	reported     bool // reports come from a beat of this term
	load         uint32
	ready        bool
	table        conclave.Epoch // of the slot table that it holds, as reported
	draining     bool           // as reported
	unheard      []string       // addresses of the data nodes that a session does not hear, as reported
	broke        time.Time      // when its stream ended
	lastBeat     time.Time      // when its last beat arrived
}

// takesClients reports whether a session holds its stream, is ready and does not
// drain.
func (n *rosterEntry) takesClients() bool {
	return n.member.Role == conclave.RoleSession && n.stream != nil && n.ready && !n.draining
}

// loss is a data node that was removed from the list without having left.
type loss struct {
	name string
	at   time.Time
}

// newRoster returns an empty roster; tick is to be called each round from now on.
func newRoster(nodeLease, round time.Duration, now time.Time) *roster {
	return &roster{
		nodeLease: nodeLease, round: round, nodes: map[string]*rosterEntry{}, metas: map[string]*rosterEntry{}, left: map[conclave.NodeID]bool{}, undialable: map[string]wire.Member{}, unheard: map[string]time.Time{},
		leases: lease.New[string](), lateness: lease.NewLateness(now, round), lastBeat: now,
	}
}

// book returns the entries of a role; mu is held.
func (r *roster) book(role conclave.Role) map[string]*rosterEntry {
	if role == conclave.RoleMeta {
		return r.metas
	}
	return r.nodes
}

// member returns the entry of this incarnation, nil if it is no member; mu is held.
func (r *roster) member(id conclave.NodeID) *rosterEntry {
	if n := r.nodes[id.Name]; n != nil && n.member.Node == id {
		return n
	}
	return nil
}

// sorted returns the entries in the order of their names; mu is held.
func sorted(book map[string]*rosterEntry) iter.Seq2[string, *rosterEntry] {
	return func(yield func(string, *rosterEntry) bool) {
		for _, name := range slices.Sorted(maps.Keys(book)) {
			if !yield(name, book[name]) {
				return
			}
		}
	}
}

// pick returns what f returns of the entries for which it reports true, sorted by
// name.
func pick[T any](r *roster, book map[string]*rosterEntry, f func(*rosterEntry) (T, bool)) (list []T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range sorted(book) {
		if x, picked := f(n); picked {
			list = append(list, x)
		}
	}
	return list
}

// any reports whether f does of a session or data node.
func (r *roster) any(f func(*rosterEntry) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.nodes {
		if f(n) {
			return true
		}
	}
	return false
}

// tick is called in rounds. The time by which a round is late does not count as
// silence of the members.
func (r *roster) tick(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.excuse(r.lateness.Tick(now, r.round))
}

// catchUp excuses what is late of the round that is due. It is called before a
// beat is recorded and before a lease is judged; mu is held.
func (r *roster) catchUp(now time.Time) { r.excuse(r.lateness.Take(now)) }

func (r *roster) excuse(late time.Duration) {
	if late == 0 {
		return
	}
	r.leases.Delay(late)
	r.lastBeat = r.lastBeat.Add(late)
}

// lostAtMost is how many lost sessions are remembered. One whose host is gone
// for good is never known to be dead, and would stay for ever.
const lostAtMost = 16

// seed fills the roster with the stored list. Each member gets a whole lease,
// since none could renew while there was no leader.
func (r *roster) seed(stored wire.Members, now time.Time) {
	defer r.arrived.Notify()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.catchUp(now)
	for _, m := range stored.Lost {
		if r.nodes[m.Node.Name] == nil {
			r.absent = append(r.absent, m)
		}
	}
	for _, m := range stored.List {
		if n := r.nodes[m.Node.Name]; n != nil { // it joined while the list was read
			n.member.Dialable = n.member.Dialable || n.member.Node == m.Node && m.Dialable
			continue
		}
		r.nodes[m.Node.Name] = &rosterEntry{member: m, draining: m.Draining}
		r.leases.Renew(m.Node.Name, now, r.nodeLease)
	}
}

// admit accepts a member with its first beat on a stream. expected is the owner
// of the name when the caller decided to accept the member; ok is false if the
// name has changed hands since. fresh reports whether this incarnation is new.
func (r *roster) admit(m wire.Member, expected conclave.NodeID, st *stream, now time.Time) (fresh, ok bool) {
	defer r.arrived.Notify()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.catchUp(now)
	book := r.book(m.Role)
	old := book[m.Node.Name]
	if old != nil && old.member.Node != expected && old.member.Node != m.Node {
		return false, false
	}
	if old != nil && old.stream != nil {
		old.stream.stop(wire.Errorf(wire.CodeUnavailable, "%s has joined again", m.Node.Name))
	}
	fresh = old == nil || old.member.Node != m.Node
	if fresh {
		if old != nil {
			// A lease belongs to an incarnation: the new one gets its own.
			r.leases.Cancel(m.Node.Name)
		}
		if m.Role == conclave.RoleData {
			r.joined = now
			if r.first.IsZero() {
				r.first = now
			}
		}
		book[m.Node.Name] = &rosterEntry{}
	}
	delete(r.undialable, m.Node.Name)
	r.found(func(x wire.Member) bool { return x.Node.Name == m.Node.Name })
	n := book[m.Node.Name]
	n.member, n.stream, n.seen, n.refusedTwice, n.lastBeat = m, st, true, false, now
	if m.Role != conclave.RoleMeta {
		r.leases.Renew(m.Node.Name, now, r.nodeLease)
		r.lastBeat = now
	}
	return fresh, true
}

// beat records a beat of an admitted stream and renews the lease from the
// beat's arrival. news reports whether the arranger should run; ok is false if
// the stream is no longer this member's.
func (r *roster) beat(st *stream, m *wirev1.JoinRequest, at time.Time) (news, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.book(st.role)[st.id.Name]
	if n == nil || n.stream != st {
		return false, false
	}
	r.catchUp(at)
	if st.role != conclave.RoleMeta {
		r.leases.Renew(st.id.Name, at, r.nodeLease)
		r.lastBeat = at
	}
	n.lastBeat, n.table = at, wire.EpochIn(m.GetHave().GetTable())
	if !m.GetAllReports() {
		return false, true // what the node has reported before stays
	}
	reports := reportsIn(st.id, m.GetReports())
	news = m.GetMember().GetDraining() != n.draining || !sameNews(n.reports, reports)
	n.load, n.ready, n.draining = m.GetLoad(), m.GetReady(), m.GetMember().GetDraining()
	n.reports, n.reported, n.unheard = reports, true, m.GetUnheard()
	return news, true
}

// reportsIn decodes a data node's reports on its slots.
func reportsIn(id conclave.NodeID, in []*wirev1.SlotReport) []slot.Report {
	out := make([]slot.Report, len(in))
	for i, x := range in {
		out[i] = slot.Report{
			Node: id, Slot: int(x.GetSlot()), Epoch: wire.EpochIn(x.GetLeaderEpoch()), State: slot.ReportState(x.GetState()),
			Position: x.GetPosition(), LagMs: x.GetLagMs(), Counter: x.GetCounter(),
		}
	}
	return out
}

// sameNews reports whether two lists of reports are equal in everything that
// can move a slot. Positions and counters cannot: they change with every write.
func sameNews(a, b []slot.Report) bool {
	return slices.EqualFunc(a, b, func(x, y slot.Report) bool {
		return x.Node == y.Node && x.Slot == y.Slot && x.Epoch == y.Epoch && x.State == y.State && (x.LagMs <= slot.MaxLagMs) == (y.LagMs <= slot.MaxLagMs)
	})
}

// arranged is what a table is made from. Of the reports only news count (see sameNews),
// and of the input not what the next table alone has: its epoch and version floor.
type arranged struct {
	table   conclave.Epoch
	in      slot.Input
	reports [][]slot.Report
}

// as reports whether nothing differs by which slot.Arrange could move a slot.
func (x arranged) as(y arranged) bool {
	a, b := x.in, y.in
	return x.table == y.table && a.Replicas == b.Replicas && a.Frozen == b.Frozen && a.Limits == b.Limits &&
		slices.Equal(a.Live, b.Live) && slices.Equal(a.Silent, b.Silent) && slices.Equal(a.Forbidden, b.Forbidden) &&
		slices.Equal(a.Unheard, b.Unheard) && slices.EqualFunc(x.reports, y.reports, sameNews)
}

// streamEnded records the end of a stream. suspect reports whether the member,
// which is returned, has no other one.
func (r *roster) streamEnded(st *stream) (m wire.Member, suspect bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.book(st.role)[st.id.Name]
	if n == nil || n.stream != st {
		return wire.Member{}, false
	}
	if st.role == conclave.RoleMeta {
		delete(r.metas, st.id.Name)
		return wire.Member{}, false
	}
	n.stream, n.broke = nil, time.Now()
	return n.member, true
}

// evict removes a member that has no stream, before its lease expires. dead
// reports whether its process is known to have ended.
func (r *roster) evict(id conclave.NodeID, dead bool, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.member(id)
	if n == nil || n.stream != nil {
		return false
	}
	r.lose(n, dead || n.refusedTwice, now)
	return true
}

// expire removes all members whose leases have expired, and returns them.
func (r *roster) expire(now time.Time) (lost []wire.Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.catchUp(now)
	for _, name := range r.leases.Expire(now) {
		n := r.nodes[name]
		if n.stream != nil {
			n.stream.stop(wire.Errorf(wire.CodeUnavailable, "the lease of %s has expired", name))
		}
		lost = append(lost, n.member)
		r.lose(n, false, now)
	}
	return lost
}

// lose removes a member and records the loss. A session that may be alive is
// remembered until it joins again, leaves, or is replaced by another incarnation
// of its name. mu is held.
func (r *roster) lose(n *rosterEntry, dead bool, now time.Time) {
	name := n.member.Node.Name
	delete(r.nodes, name)
	r.leases.Cancel(name)
	if n.member.Role == conclave.RoleData {
		r.losses = append(r.losses, loss{name, now})
	}
	if n.member.Role == conclave.RoleSession && !dead {
		r.absent = append(r.absent, n.member)
		r.absent = r.absent[max(0, len(r.absent)-lostAtMost):]
	}
}

// found removes lost sessions that are accounted for; mu is held.
func (r *roster) found(which func(wire.Member) bool) {
	r.absent = slices.DeleteFunc(r.absent, which)
}

// leave removes a member at its own request.
func (r *roster) leave(id conclave.NodeID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left[id] = true
	r.found(func(x wire.Member) bool { return x.Node == id })
	n := r.member(id)
	if n == nil {
		return
	}
	if n.stream != nil {
		n.stream.stop(wire.Errorf(wire.CodeUnavailable, "%s has left", id.Name))
	}
	delete(r.nodes, id.Name)
	r.leases.Cancel(id.Name)
}

// refused records that a node could not be dialed, and reports whether that is
// new.
func (r *roster) refused(m wire.Member) (fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh = r.undialable[m.Node.Name] != m
	r.undialable[m.Node.Name] = m
	return fresh
}

// markDead records that a stored member refused two dials. It returns false if
// the member has sent a beat since.
func (r *roster) markDead(id conclave.NodeID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.member(id)
	if n == nil || n.seen {
		return false
	}
	n.refusedTwice = true
	return true
}

// markAlive gives a member that answered at its port a whole lease, as after a
// beat.
func (r *roster) markAlive(id conclave.NodeID, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.catchUp(now)
	if n := r.member(id); n != nil {
		n.seen = true
		r.leases.Renew(id.Name, now, r.nodeLease)
	}
}

// clearLosses forgets the losses after a protection that they caused has ended.
func (r *roster) clearLosses() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losses = nil
}

// nextExpiry returns when the next lease may expire.
func (r *roster) nextExpiry() (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leases.NextExpiry()
}

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
	return r.member(id) != nil && r.leases.Remaining(id.Name, time.Now()) > 0
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
	return r.any(func(n *rosterEntry) bool {
		return n.member.Role == conclave.RoleData && n.stream == nil && !n.broke.IsZero() && now.Sub(n.broke) < limit
	})
}

// isSuspect reports whether this incarnation is a member without a stream.
func (r *roster) isSuspect(id conclave.NodeID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.member(id)
	return n != nil && n.stream == nil
}

// list returns the lists to be written: sessions and data nodes, sorted by name
// (getSessionServerMetaInfo and getDataServerMetaInfo in the articles), and the lost
// sessions.
func (r *roster) list(forbidden []string) wire.Members {
	list := pick(r, r.nodes, func(n *rosterEntry) (wire.Member, bool) {
		m := n.member
		m.Draining = n.draining || slices.Contains(forbidden, m.Node.Name)
		return m, true
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	return wire.Members{List: list, Lost: slices.Clone(r.absent)}
}

// dataNodes is what the roster has of the data nodes at one moment.
type dataNodes struct {
	live          []conclave.NodeID // those that hold a lease, sorted by name
	silent        []conclave.NodeID // those of them that have not reported in this term
	reports       [][]slot.Report   // of each of them; never changed
	lost          []string          // the names of those that were removed within the last lease and have not come back, sorted
	joined, first time.Time         // when the last and the first one registered; zero: none has
}

// data returns what is known of the data nodes. A silent one answered when it was
// dialed, or its first beat is being read: it reports with its first beat, or its
// lease expires.
func (r *roster) data(now time.Time) dataNodes {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := dataNodes{joined: r.joined, first: r.first}
	for _, n := range sorted(r.nodes) {
		if n.member.Role != conclave.RoleData {
			continue
		}
		d.live = append(d.live, n.member.Node)
		d.reports = append(d.reports, n.reports)
		if !n.reported {
			d.silent = append(d.silent, n.member.Node)
		}
	}
	r.losses = slices.DeleteFunc(r.losses, func(l loss) bool { return now.Sub(l.at) >= r.nodeLease })
	for _, l := range r.losses {
		if r.nodes[l.name] == nil {
			d.lost = append(d.lost, l.name)
		}
	}
	slices.Sort(d.lost)
	d.lost = slices.Compact(d.lost)
	return d
}

// live returns the data nodes that hold a lease.
func (r *roster) live() []conclave.NodeID { return r.data(time.Now()).live }

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
	for name, n := range sorted(r.nodes) {
		_, already := r.unheard[name]
		if 2*silent[n.member.Address] > sessions && (already || len(r.unheard)+1 < fewer) {
			r.unheard[name] = now.Add(unheardFor * r.nodeLease)
		}
	}
	return slices.Sorted(maps.Keys(r.unheard))
}

// otherSession reports whether a session other than the named one takes
// clients, and is not on the blacklist.
func (r *roster) otherSession(name string, forbidden func(string) bool) bool {
	return r.any(func(n *rosterEntry) bool {
		other := n.member.Node.Name
		return other != name && n.takesClients() && !forbidden(other)
	})
}

// openSessions returns the sessions that take clients, sorted by name, with the
// number of clients that each has reported.
func (r *roster) openSessions(forbidden []string) []*wirev1.SessionLoad {
	return pick(r, r.nodes, func(n *rosterEntry) (*wirev1.SessionLoad, bool) {
		open := n.takesClients() && !slices.Contains(forbidden, n.member.Node.Name)
		return &wirev1.SessionLoad{Node: wire.NodeOut(n.member.Node), Address: n.member.Address, Clients: n.load}, open
	})
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

// allSeen reports whether every member has sent a beat in this term, or is
// known to be dead.
func (r *roster) allSeen() bool {
	return !r.any(func(n *rosterEntry) bool { return !n.seen && !n.refusedTwice })
}

// unseen returns the members that have sent no beat in this term.
func (r *roster) unseen() []wire.Member {
	return pick(r, r.nodes, func(n *rosterEntry) (wire.Member, bool) { return n.member, !n.seen })
}

// behind returns the members that hold a stream and an older table, sorted.
func (r *roster) behind(table conclave.Epoch) []string {
	return pick(r, r.nodes, func(n *rosterEntry) (string, bool) {
		return n.member.Node.Name, n.stream != nil && n.table.Less(table)
	})
}

// known returns a copy of everything, sorted by name, for the admin API.
func (r *roster) known(now time.Time) (nodes []rosterEntry, remaining []time.Duration, metas []rosterEntry) {
	nodes = pick(r, r.nodes, func(n *rosterEntry) (rosterEntry, bool) {
		remaining = append(remaining, r.leases.Remaining(n.member.Node.Name, now))
		return *n, true
	})
	return nodes, remaining, r.following()
}

// following returns a copy of the metas that hold a stream.
func (r *roster) following() []rosterEntry {
	return pick(r, r.metas, func(n *rosterEntry) (rosterEntry, bool) { return *n, true })
}

// metaAddresses returns their addresses.
func (r *roster) metaAddresses() []string {
	return pick(r, r.metas, func(n *rosterEntry) (string, bool) { return n.member.Address, true })
}

// propagation measures for how long two slot tables coexist: from the
// publication of a table until every member that holds a stream has reported
// it, or a newer one. Article 002 gives about a second for the original; here
// members report a table as soon as they have applied it.
type propagation struct {
	mu    sync.Mutex     // guards the rest
	table conclave.Epoch // the last that was published
	at    time.Time      // when; zero: every member has it
	last  time.Duration  // how long the last table took to reach every member
}

// published starts the clock for a table, unless the previous one has not
// reached every member yet: then its time continues.
func (p *propagation) published(table conclave.Epoch, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.table.Less(table) {
		return
	}
	p.table = table
	if p.at.IsZero() {
		p.at = now
	}
}

// held stops the clock if no member is behind.
func (p *propagation) held(behind func(table conclave.Epoch) []string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() || len(behind(p.table)) > 0 {
		return
	}
	p.last, p.at = now.Sub(p.at), time.Time{}
}

// took returns how long the last table took, or how long the current one has
// been taking, if that is longer.
func (p *propagation) took(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() {
		return p.last
	}
	return max(p.last, now.Sub(p.at))
}
