package session

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"conclave"
	"conclave/blacklist"
	"conclave/internal/signal"
	"conclave/wire"
)

// addressBook holds the addresses of nodes: of every member, and of those that
// are off the member list but still lead a slot in the last table. Without the
// latter a session would lose its routes when members are removed while the
// table is frozen.
type addressBook struct {
	applied signal.Broadcast // this session has applied a state

	mu   sync.Mutex // guards the rest
	of   map[conclave.NodeID]string
	data []string // addresses of the data members
}

func (b *addressBook) update(state wire.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := map[conclave.NodeID]string{}
	for _, sl := range state.Table.Slots {
		if a, ok := b.of[sl.Leader]; ok {
			next[sl.Leader] = a
		}
	}
	b.data = nil
	for _, m := range state.Members.List {
		next[m.Node] = m.Address
		if m.Role == conclave.RoleData {
			b.data = append(b.data, m.Address)
		}
	}
	b.of = next
}

func (b *addressBook) find(n conclave.NodeID) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[n]
}

func (s *Server) dataAddresses() []string {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	return slices.Clone(s.book.data)
}

// runView applies the cluster's state at each change: routes from the table,
// addresses from the members, settings from the switches, and from the
// blacklist whether this session is to drain.
func (s *Server) runView(ctx context.Context) {
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

func (s *Server) apply(state wire.State) {
	s.book.update(state)
	if n := len(state.Table.Slots); n > 0 {
		if s.registry.resize(n) {
			s.topics.resize(s.registry.slotOf, time.Now())
		}
	}
	moved := false
	for _, row := range state.Table.Slots {
		if row.LeaderEpoch.IsZero() {
			continue
		}
		changed, _ := s.fences.adopt(row.ID, row.LeaderEpoch, s.book.find(row.Leader))
		moved = moved || changed
	}
	if moved {
		s.log.Debug("routes changed", "table", state.Table.Epoch.String())
		s.nodes.reroute()
	}
	s.nodes.changed.Set()
	s.configure(state.Switches)
	s.updateDrain()
	s.clients.advertise(s.openAddresses())
	s.book.applied.Notify()
}

// configure applies the switches. An invalid value is ignored: the leader
// checks values when they are set.
func (s *Server) configure(switches wire.Switches) {
	window := s.PushWindow
	if ms, err := strconv.Atoi(switches.Get(wire.SwitchPushWindow, "")); err == nil && ms >= 0 {
		window = wire.FromMs(int64(ms))
	}
	s.topics.configure(window,
		switches.Get(wire.SwitchStopPush, "off") == "on",
		switches.Get(wire.SwitchPushGuard, "on") != "off",
		time.Now())
}

// drainState is what this session does about draining.
type drainState int

const (
	stays      drainState = iota // takes clients
	drains                       // takes no clients, and asks its own to move
	servesLast                   // should drain, and serves because no other session takes clients
)

// openAddresses returns the addresses that clients are given: those of the
// sessions that are neither draining nor on the blacklist. If there is none, it
// returns those of all sessions: each of them then serves as the last one.
func (s *Server) openAddresses() []string {
	s.mu.Lock()
	leaves := s.shouldDrain()
	s.mu.Unlock()
	out, _ := s.openSessions(s.view.State(), leaves)
	return out
}

// openSessions returns the addresses that clients are given, and whether one of
// them belongs to another session. leaves is whether this session should drain:
// it knows that before the cluster's state does.
func (s *Server) openSessions(state wire.State, leaves bool) (addresses []string, others bool) {
	all, staying := []string{}, []string{}
	for _, m := range state.Members.Of(conclave.RoleSession) {
		all = append(all, m.Address)
		if m.Node == s.Node {
			if !leaves {
				staying = append(staying, m.Address)
			}
			continue
		}
		onBlacklist := slices.ContainsFunc(state.Blacklist.Entries, func(e blacklist.Entry) bool { return e.Name == m.Node.Name })
		if !m.Draining && !onBlacklist {
			staying, others = append(staying, m.Address), true
		}
	}
	if leaves && !others {
		return all, false
	}
	return staying, others
}

// shouldDrain reports whether this session should drain; mu is held.
func (s *Server) shouldDrain() bool { return s.marked || s.onBlacklist }

// updateDrain decides whether this session drains: if the blacklist names it or
// it stops, and only while another session takes clients. As the last session
// it serves until another one is back, and drains then; a stop, however, ends
// at its deadline. A blacklist entry that an earlier incarnation made for its
// own stop does not count: this one removes it.
func (s *Server) updateDrain() {
	s.mu.Lock()
	state := s.view.State() // read under the lock, so that of two calls the later one has the newer state
	onBlacklist, reason := false, ""
	for _, e := range state.Blacklist.Entries {
		if e.Name == s.Node.Name && !(e.Own() && e.Incarnation != s.Node.Incarnation) {
			onBlacklist, reason = true, e.Reason
		}
	}
	was := s.leaving
	s.onBlacklist = onBlacklist
	leaves := s.shouldDrain()
	_, others := s.openSessions(state, leaves)
	switch {
	case !leaves:
		s.leaving = stays
	case others || s.closing:
		s.leaving = drains
	default:
		s.leaving = servesLast
	}
	now, stopping := s.leaving, s.stopping
	s.mu.Unlock()
	if now == was {
		return
	}
	s.admission()
	if stopping {
		reason = "the session stops"
	}
	switch now {
	case stays:
		s.events.Add(wire.Event{Type: "session.open", Text: "off the blacklist: takes clients again"})
		s.log.Info("off the blacklist: taking clients again")
	case servesLast:
		s.events.Add(wire.Event{Type: "session.last", Text: "the last session: serves until another takes clients", Data: map[string]any{"reason": reason}})
		s.log.Warn("no other session takes clients: serving until one does", "should drain because", reason)
	case drains:
		asked := s.clients.askToMove(reason)
		s.events.Add(wire.Event{Type: "session.draining", Text: "clients are asked to move", Data: map[string]any{"reason": reason, "clients": asked}})
		s.log.Info("clients are asked to move", "reason", reason, "clients", asked)
	}
}

// admission admits or refuses clients according to the session's state. It does
// so under the lock: otherwise, of two calls at the same time, the one with the
// older state might take effect last.
func (s *Server) admission() {
	s.mu.Lock()
	defer s.mu.Unlock()
	why := ""
	switch {
	case !s.opened:
		why = "starting"
	case s.leaving == drains:
		why = "draining"
	}
	s.clients.refuse(why)
}
