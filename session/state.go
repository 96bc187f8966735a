package session

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/internal/signal"
	"conclave/session/registry"
	"conclave/wire"
	"conclave/wire/serve"
)

// state is the loop that applies the cluster's state at each change: routes from
// the table, addresses from the members, settings from the switches, and from
// the blacklist whether this session is to drain.
type state struct {
	config   Config
	view     *wire.View
	registry *locked
	nodes    *nodes
	drain    *drain
	watches  *watches
	applied  signal.Broadcast // a state has been applied

	// Addresses of every member, and of those that are off the member list but still
	// lead a slot in the last table: without the latter a session would lose its routes
	// when members are removed while the table is frozen.
	addresses map[conclave.NodeID]string
	members   wire.Members // of the last state
}

func (s *state) run(ctx context.Context) {
	for {
		changed := s.view.Changed()
		s.apply(s.view.State())
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (s *state) apply(st wire.State) {
	s.find(st)
	if s.adopt(st) {
		s.config.Logger.Debug("routes changed", "table", st.Table.Epoch.String())
		s.nodes.reroute()
	}
	s.nodes.changed.Set()
	s.configure(st.Switches)
	s.watches.update(st.Config)
	s.drain.update()
	s.applied.Notify()
}

// find brings the addresses up to date.
func (s *state) find(st wire.State) {
	next := map[conclave.NodeID]string{}
	for _, row := range st.Table.Slots {
		if a, known := s.addresses[row.Leader]; known {
			next[row.Leader] = a
		}
	}
	for _, m := range st.Members.List {
		next[m.Node] = m.Address
		if !s.members.Has(m.Node) {
			s.nodes.joined(m.Address)
		}
	}
	s.members = st.Members
	s.addresses = next
}

// adopt adopts the slots and the leader epochs of the table, and reports whether
// a slot has another leader or epoch.
func (s *state) adopt(st wire.State) (moved bool) {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	now := time.Now()
	if n := len(st.Table.Slots); n > 0 {
		s.registry.Resize(n, now)
	}
	for _, row := range st.Table.Slots {
		if !row.LeaderEpoch.IsZero() {
			changed, _ := s.registry.Adopt(row.ID, row.LeaderEpoch, s.addresses[row.Leader], now)
			moved = moved || changed
		}
	}
	return moved
}

// configure applies the switches. An invalid value is ignored: the leader
// checks values when they are set.
func (s *state) configure(switches wire.Switches) {
	window := s.config.PushWindow
	if ms, err := strconv.Atoi(switches.Get(wire.SwitchPushWindow, "")); err == nil && ms >= 0 {
		window = wire.FromMs(int64(ms))
	}
	stopped, guarded := switches.Get(wire.SwitchStopPush, "off") == "on", switches.Get(wire.SwitchPushGuard, "on") != "off"
	if with(s.registry, func(r *registry.Registry) bool { return r.Configure(window, stopped, guarded, time.Now()) }) {
		s.nodes.wakeReaders()
	}
}

// drainState is what this session does about draining.
type drainState int

const (
	stays      drainState = iota // takes clients
	drains                       // takes no clients, and asks its own to move
	servesLast                   // should drain, and serves because no other session takes clients
	evacuates                    // is cut off: takes no new clients, and asks its own to move while that succeeds
)

// drain decides whether this session takes clients, and whether its own are
// asked to move.
type drain struct {
	node    conclave.NodeID
	view    *wire.View
	clients *clients
	events  *serve.Events
	log     hclog.Logger
	cutOff  func() bool // see Server.isCutOff

	mu          sync.Mutex // guards the rest
	opened      bool       // clients have been taken
	stopping    bool       // a graceful stop has begun
	onBlacklist bool       // the blacklist names this session
	refused     bool       // stopping, and the leader refused because no other session takes clients
	marked      bool       // stopping, and the leader agreed, or could not be asked
	closing     bool       // stopping, and the time for the clients to move has ended
	leaving     drainState // follows from these and the other sessions; set by update
}

// set changes what is guarded.
func (d *drain) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

// open takes clients from now on.
func (d *drain) open() {
	d.set(func() { d.opened = true })
	d.admission()
}

// close refuses clients from now on, even as the last session, and ends the requests that
// wait.
func (d *drain) close() {
	d.set(func() { d.marked, d.closing, d.leaving = true, true, drains })
	d.admission()
	d.clients.moveRequests()
}

// refuse records whether the meta leader refused the drain for a stop because no
// other session takes clients, or, with late, refused it before the stop ran out
// of time. first reports whether this is its first refusal.
func (d *drain) refuse(why error, late bool) (opened, refused, first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	first = !d.refused
	d.refused = d.opened && (wire.CodeOf(why) == wire.CodeNoSuccessor || d.refused && late)
	return d.opened, d.refused, first
}

// ready reports whether clients are served. The reason explains why not, or that
// this is the last session.
func (d *drain) ready() (ready bool, reason string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.leaving == drains:
		return false, "draining"
	case d.leaving == evacuates:
		return false, cutOff
	case !d.opened:
		return false, "not on the member list yet"
	case d.leaving == servesLast || d.refused && !d.marked:
		return true, "the last session: serves until another takes clients"
	}
	return true, ""
}

// isOpen reports whether clients are taken and may stay.
func (d *drain) isOpen() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opened && !d.stopping && d.leaving == stays
}

// reported returns whether clients have been taken, and whether this session is
// marked as draining for its stop.
func (d *drain) reported() (opened, marked bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opened, d.marked
}

// advertise sends the clients the addresses of the sessions that are neither
// draining nor on the blacklist. If there is none, it sends those of all
// sessions: each of them then serves as the last one.
func (d *drain) advertise() {
	d.mu.Lock()
	leaves, cut := d.shouldDrain(), d.leaving == evacuates
	d.mu.Unlock()
	out, _ := d.openSessions(d.view.State(), leaves)
	if cut {
		out = d.refuges(d.view.State())
	}
	d.clients.advertise(out)
}

// openSessions returns the addresses that clients are given, and whether one of
// them belongs to another session. leaves is whether this session should drain:
// it knows that before the cluster's state does.
func (d *drain) openSessions(state wire.State, leaves bool) (addresses []string, others bool) {
	all, staying := []string{}, []string{}
	for _, m := range state.Members.Of(conclave.RoleSession) {
		all = append(all, m.Address)
		if m.Node == d.node {
			if !leaves {
				staying = append(staying, m.Address)
			}
			continue
		}
		if !m.Draining && !state.Blacklist.Entries.Has(m.Node.Name) {
			staying, others = append(staying, m.Address), true
		}
	}
	if leaves && !others {
		return all, false
	}
	return staying, others
}

// refuges returns the addresses to which a session that is cut off sends its clients. Its
// list may be old: if no other session on it takes clients, those that drain, and those that
// were lost, may do so by now.
func (d *drain) refuges(state wire.State) (addresses []string) {
	if open, others := d.openSessions(state, true); others {
		return open
	}
	for _, m := range slices.Concat(state.Members.Of(conclave.RoleSession), state.Members.Lost) {
		if m.Node != d.node {
			addresses = append(addresses, m.Address)
		}
	}
	return addresses
}

// shouldDrain reports whether this session should drain; mu is held.
func (d *drain) shouldDrain() bool { return d.marked || d.onBlacklist }

// update decides whether this session drains: if the blacklist names it or
// it stops, and only while another session takes clients. As the last session
// it serves until another one is back, and drains then; a stop, however, ends
// at its deadline. A blacklist entry that an earlier incarnation made for its
// own stop does not count: this one removes it. A session that does not hear most
// data nodes evacuates if it knows of another session, which may take clients again
// by now; see spread. It also sends the clients the addresses of the others.
func (d *drain) update() drainState {
	defer d.advertise()
	d.mu.Lock()
	state := d.view.State() // read under the lock, so that of two calls the later one has the newer state
	onBlacklist, reason := false, ""
	for _, e := range state.Blacklist.Entries {
		if e.Name == d.node.Name && !(e.Own() && e.Incarnation != d.node.Incarnation) {
			onBlacklist, reason = true, e.Reason
		}
	}
	was := d.leaving
	d.onBlacklist = onBlacklist
	leaves := d.shouldDrain()
	_, others := d.openSessions(state, leaves)
	switch {
	case !leaves && d.opened && len(d.refuges(state)) > 0 && d.cutOff():
		d.leaving = evacuates
	case !leaves:
		d.leaving = stays
	case others || d.closing:
		d.leaving = drains
	default:
		d.leaving = servesLast
	}
	now, stopping := d.leaving, d.stopping
	d.mu.Unlock()
	if now == was {
		return now
	}
	d.admission()
	if stopping {
		reason = "the session stops"
	}
	switch now {
	case stays:
		d.events.Add(wire.Event{Type: "session.open", Text: "takes clients again"})
		d.log.Info("taking clients again")
	case evacuates:
		d.advertise()
		d.clients.moveRequests()
		d.events.Add(wire.Event{Type: "session.cutoff", Text: cutOff + ": clients are asked to move"})
		d.log.Warn("cut off from most data nodes, or removed from the member list: clients are asked to move, and new ones refused")
	case servesLast:
		d.events.Add(wire.Event{Type: "session.last", Text: "the last session: serves until another takes clients", Data: map[string]any{"reason": reason}})
		d.log.Warn("no other session takes clients: serving until one does", "should drain because", reason)
	case drains:
		d.advertise()
		asked := d.clients.askToMove(reason)
		d.events.Add(wire.Event{Type: "session.draining", Text: "clients are asked to move", Data: map[string]any{"reason": reason, "clients": asked}})
		d.log.Info("clients are asked to move", "reason", reason, "clients", asked)
	}
	return now
}

// admission admits or refuses clients according to the session's state. It does
// so under the lock: otherwise, of two calls at the same time, the one with the
// older state might take effect last.
func (d *drain) admission() {
	d.mu.Lock()
	defer d.mu.Unlock()
	why := ""
	switch {
	case !d.opened:
		why = "starting"
	case d.leaving == drains:
		why = "draining"
	case d.leaving == evacuates:
		why = cutOff
	}
	d.clients.refuse(why)
}
