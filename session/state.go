package session

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"conclave"
	"conclave/wire"
)

// addressBook knows where nodes answer: every member, and those that are off
// the list but still lead a slot of the last table. Without them a session
// would lose its routes when members go while the table is frozen.
type addressBook struct {
	mu   sync.Mutex // guards the rest
	of   map[conclave.NodeID]string
	data []string      // addresses of the data members
	did  chan struct{} // closed, and replaced, at each update
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

// applied is closed when the next state has been applied by this session.
func (b *addressBook) applied() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.did == nil {
		b.did = make(chan struct{})
	}
	return b.did
}

func (b *addressBook) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.did != nil {
		close(b.did)
		b.did = nil
	}
}

func (s *Server) dataAddresses() []string {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	return slices.Clone(s.book.data)
}

// runView applies what the cluster decides: routes from the table, addresses
// from the members, settings from the switches, and whether this session is to
// be drained from the blacklist.
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
	wake(s.nodes.changed)
	s.configure(state.Switches)
	s.departs()
	s.clients.tell(s.takers())
	s.book.done()
}

// configure reads the switches. A value that is none is ignored: the leader
// checks them when they are set.
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

// leaving is whether this session drains.
type leaving int

const (
	stays      leaving = iota // takes clients
	drains                    // takes none, and asks those that it has to move
	servesLast                // should drain, and serves: no other session takes clients
)

// takers are the addresses that clients are given: the sessions that are neither
// draining nor on the blacklist. If there is none, these are all sessions: each
// of them then serves as the last one.
func (s *Server) takers() []string {
	s.mu.Lock()
	leaves := s.leaves()
	s.mu.Unlock()
	out, _ := s.offered(s.view.State(), leaves)
	return out
}

// offered returns takers, and whether a session other than this one is among
// them that stays. leaves is whether this one should drain: it knows that before
// the cluster does.
func (s *Server) offered(state wire.State, leaves bool) (addresses []string, others bool) {
	all, staying := []string{}, []string{}
	for _, m := range state.Members.Of(conclave.RoleSession) {
		all = append(all, m.Address)
		if m.Node == s.Node {
			if !leaves {
				staying = append(staying, m.Address)
			}
			continue
		}
		forbidden := slices.ContainsFunc(state.Blacklist.Entries, func(e blacklisted) bool { return e.Name == m.Node.Name })
		if !m.Draining && !forbidden {
			staying, others = append(staying, m.Address), true
		}
	}
	if leaves && !others {
		return all, false
	}
	return staying, others
}

// leaves reports whether this session should drain; mu is held.
func (s *Server) leaves() bool { return s.marked || s.forbidden }

// departs decides whether this session drains: because the blacklist names it,
// or because it stops, and only while another session takes clients. As the
// last one it serves until another is back, and the drain goes on then; but a
// stop ends at its deadline. An entry that an earlier incarnation made for its
// own stop does not count: this one takes it back.
func (s *Server) departs() {
	s.mu.Lock()
	state := s.view.State() // read under the lock: of two calls the later one knows more
	forbidden, reason := false, ""
	for _, e := range state.Blacklist.Entries {
		if e.Name == s.Node.Name && !(e.Own() && e.Incarnation != s.Node.Incarnation) {
			forbidden, reason = true, e.Reason
		}
	}
	was := s.leaving
	s.forbidden = forbidden
	leaves := s.leaves()
	_, others := s.offered(state, leaves)
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

// admission tells the clients' door what the session's state asks for. It tells
// it under the lock, or of two that decide at once the older one might speak last.
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
