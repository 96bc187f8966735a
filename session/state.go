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
	s.drainIfTold(state)
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

// takers are the addresses of the sessions that take clients, without this one
// while it is on its way out.
func (s *Server) takers() []string {
	state := s.view.State()
	s.mu.Lock()
	leaving := s.stopping || s.drained
	s.mu.Unlock()
	out := []string{}
	for _, m := range state.Members.Of(conclave.RoleSession) {
		forbidden := slices.ContainsFunc(state.Blacklist.Entries, func(e blacklisted) bool { return e.Name == m.Node.Name })
		if m.Node == s.Node && leaving || m.Node != s.Node && (m.Draining || forbidden) {
			continue
		}
		out = append(out, m.Address)
	}
	return out
}

// drainIfTold asks the clients to move when the blacklist names this session,
// and takes them again when it no longer does. An entry that an earlier
// incarnation made for its own stop does not count: this one takes it back.
func (s *Server) drainIfTold(state wire.State) {
	told, reason := false, ""
	for _, e := range state.Blacklist.Entries {
		if e.Name == s.Node.Name && !(e.Own() && e.Incarnation != s.Node.Incarnation) {
			told, reason = true, e.Reason
		}
	}
	s.mu.Lock()
	was, stopping := s.drained, s.stopping
	s.drained = told
	s.mu.Unlock()
	if told == was || stopping { // a stop asks by itself
		return
	}
	s.admission()
	if !told {
		s.events.Add(wire.Event{Type: "session.open", Text: "off the blacklist: takes clients again"})
		s.log.Info("off the blacklist: taking clients again")
		return
	}
	asked := s.clients.askToMove(reason)
	s.events.Add(wire.Event{Type: "session.draining", Text: "on the blacklist: clients are asked to move", Data: map[string]any{"reason": reason, "clients": asked}})
	s.log.Info("on the blacklist: clients are asked to move", "reason", reason, "clients", asked)
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
	case s.stopping || s.drained:
		why = "draining"
	}
	s.clients.refuse(why)
}
