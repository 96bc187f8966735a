package meta

import (
	"slices"
	"strings"
	"sync"
	"time"

	"conclave"
	"conclave/lease"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// roster is who the leader hears: every session and data node with its lease,
// its stream and what its newest beat said, and the metas that follow. It lives
// for one term; the next leader fills its own from the stored list and from the
// beats that come in. One incarnation of a name at a time.
//
//	            first beat                       stream breaks
//	(unknown) -------------> up  <------------------------------> suspect
//	                          |            joins again               |
//	      Leave               | lease ends (no beats)                | refused twice, or
//	      (left) <------------+-----------------> (lost) <-----------+ lease ends
type roster struct {
	nodeLease time.Duration

	mu     sync.Mutex // guards the rest; held for look-ups and changes only
	nodes  map[string]*node
	leases *lease.Table[string, conclave.NodeID] // of sessions and data nodes
	metas  map[string]*node
	left   map[conclave.NodeID]bool // took their leave: a late beat does not bring them back
	shut   map[string]wire.Member   // by name: the newest that was refused because it could not be dialled
	losses []loss                   // of data nodes, the newest last
	joined time.Time                // when a data node last registered; zero: none did
	first  time.Time                // when the first one did
	spoke  time.Time                // when a session or data node was last heard
}

// node is one member as the leader sees it.
type node struct {
	member   wire.Member
	stream   *stream // the newest one that is open; nil: suspect
	heard    bool    // in this term
	gone     bool    // (warm-up) stored, and refused twice since
	reports  []slot.Report
	reported bool // its reports are those of a beat: what it has is known
	load     uint32
	ready    bool
	table    conclave.Epoch // what it holds, as it said
	draining bool           // as it said
	broke    time.Time      // when its stream ended
	spoke    time.Time      // when its newest beat arrived
}

// loss is a data node that was taken off the list without having left.
type loss struct {
	name string
	at   time.Time
}

// departure says who was lost, and why.
type departure struct {
	member wire.Member
	why    string
}

func newRoster(nodeLease time.Duration) *roster {
	same := func(a, b conclave.NodeID) bool { return a == b }
	return &roster{
		nodeLease: nodeLease, nodes: map[string]*node{}, metas: map[string]*node{}, left: map[conclave.NodeID]bool{}, shut: map[string]wire.Member{},
		leases: lease.New(strings.Compare, same),
	}
}

// seed fills the roster with the stored list; each gets a whole lease, since
// nobody could renew while there was no leader.
func (r *roster) seed(stored []wire.Member, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range stored {
		if n := r.nodes[m.Node.Name]; n != nil { // has joined while the list was read
			n.member.Dialable = n.member.Dialable || n.member.Node == m.Node && m.Dialable
			continue
		}
		r.nodes[m.Node.Name] = &node{member: m, draining: m.Draining}
		r.leases.Renew(m.Node.Name, m.Node, now, r.nodeLease)
	}
}

// admit lets a member in with its first beat on a stream. expected is whom the
// name belonged to when the caller judged that it may; false means that it has
// changed hands since. fresh says that this incarnation was not known.
func (r *roster) admit(m wire.Member, expected conclave.NodeID, st *stream, now time.Time) (fresh, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	book := r.nodes
	if m.Role == conclave.RoleMeta {
		book = r.metas
	}
	old := book[m.Node.Name]
	if old != nil && old.member.Node != expected && old.member.Node != m.Node {
		return false, false
	}
	if old != nil && old.stream != nil {
		old.stream.end(wire.Errorf(wire.CodeUnavailable, "%s has joined again", m.Node.Name))
	}
	fresh = old == nil || old.member.Node != m.Node
	if fresh {
		if old != nil {
			// A lease belongs to an incarnation: the new one begins its own.
			r.leases.Cancel(m.Node.Name)
		}
		if m.Role == conclave.RoleData {
			r.joined = now
			if r.first.IsZero() {
				r.first = now
			}
		}
		book[m.Node.Name] = &node{}
	}
	delete(r.shut, m.Node.Name)
	n := book[m.Node.Name]
	n.member, n.stream, n.heard, n.gone, n.spoke = m, st, true, false, now
	if m.Role != conclave.RoleMeta {
		r.leases.Renew(m.Node.Name, m.Node, now, r.nodeLease)
		r.spoke = now
	}
	return fresh, true
}

// beat takes a beat of an admitted stream: it renews the lease from the moment
// at which it arrived. news says that the arranger should look; false in ok that
// the stream is not this member's any more.
func (r *roster) beat(st *stream, m *wirev1.JoinRequest, at time.Time) (news, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[st.id.Name]
	if st.role == conclave.RoleMeta {
		n = r.metas[st.id.Name]
	}
	if n == nil || n.stream != st {
		return false, false
	}
	if st.role != conclave.RoleMeta {
		r.leases.Renew(st.id.Name, st.id, at, r.nodeLease)
		r.spoke = at
	}
	n.spoke = at
	n.load, n.ready, n.table = m.GetLoad(), m.GetReady(), wire.EpochIn(m.GetHave().GetTable())
	if d := m.GetMember().GetDraining(); d != n.draining {
		n.draining, news = d, true
	}
	if m.GetAllReports() || len(m.GetReports()) > 0 {
		reports := reportsIn(st.id, m.GetReports())
		news = news || !sameNews(n.reports, reports)
		n.reports, n.reported = reports, true
	}
	return news, true
}

// reportsIn reads what a data node says of its slots.
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

// sameNews says that nothing changed that could move a slot: positions and
// counters do so with every write.
func sameNews(a, b []slot.Report) bool {
	return slices.EqualFunc(a, b, func(x, y slot.Report) bool {
		return x.Slot == y.Slot && x.Epoch == y.Epoch && x.State == y.State && (x.LagMs <= slot.MaxLagMs) == (y.LagMs <= slot.MaxLagMs)
	})
}

// broken notes that a stream ended. suspect says that the member, which is
// returned, has no other one.
func (r *roster) broken(st *stream) (m wire.Member, suspect bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.metas[st.id.Name]; st.role == conclave.RoleMeta {
		if n != nil && n.stream == st {
			delete(r.metas, st.id.Name)
		}
		return wire.Member{}, false
	}
	n := r.nodes[st.id.Name]
	if n == nil || n.stream != st {
		return wire.Member{}, false
	}
	n.stream, n.broke = nil, time.Now()
	return n.member, true
}

// extend lets no lease end before now + d.
func (r *roster) extend(now time.Time, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leases.Extend(now, d)
}

// evict takes a suspect off that was found dead before its lease ended.
func (r *roster) evict(id conclave.NodeID, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[id.Name]
	if n == nil || n.member.Node != id || n.stream != nil {
		return false
	}
	r.lose(n, now)
	return true
}

// expire takes off everybody whose lease has run out.
func (r *roster) expire(now time.Time) []departure {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lost []departure
	for _, l := range r.leases.Expire(now) {
		n := r.nodes[l.Key]
		if n.stream != nil {
			n.stream.end(wire.Errorf(wire.CodeUnavailable, "the lease of %s ran out", l.Key))
		}
		lost = append(lost, departure{n.member, "its lease ran out"})
		r.lose(n, now)
	}
	return lost
}

// lose takes a member off and counts it; mu is held.
func (r *roster) lose(n *node, now time.Time) {
	name := n.member.Node.Name
	delete(r.nodes, name)
	r.leases.Cancel(name)
	if n.member.Role == conclave.RoleData {
		r.losses = append(r.losses, loss{name, now})
	}
}

// leave takes a member off at its own wish.
func (r *roster) leave(id conclave.NodeID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left[id] = true
	n := r.nodes[id.Name]
	if n == nil || n.member.Node != id {
		return
	}
	if n.stream != nil {
		n.stream.end(wire.Errorf(wire.CodeUnavailable, "%s has left", id.Name))
	}
	delete(r.nodes, id.Name)
	r.leases.Cancel(id.Name)
}

// refused notes that a node could not be dialled, and reports whether that is new.
func (r *roster) refused(m wire.Member) (fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh = r.shut[m.Node.Name] != m
	r.shut[m.Node.Name] = m
	return fresh
}

// dead notes that a stored member has refused twice; false when it was heard.
func (r *roster) dead(id conclave.NodeID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[id.Name]
	if n == nil || n.member.Node != id || n.heard {
		return false
	}
	n.gone = true
	return true
}

// keep gives a member that answered a whole lease, as if it had been heard.
func (r *roster) keep(id conclave.NodeID, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.nodes[id.Name]; n != nil && n.member.Node == id {
		n.heard = true
		r.leases.Renew(id.Name, id, now, r.nodeLease)
	}
}

// forgive forgets the losses: they were answered by a freeze that is over.
func (r *roster) forgive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losses = nil
}

// nextExpiry is when expire may find somebody.
func (r *roster) nextExpiry() (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leases.NextExpiry()
}
