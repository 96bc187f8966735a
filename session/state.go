package session

import (
	"context"
	"strconv"
	"time"

	"conclave"
	"conclave/internal/signal"
	"conclave/session/registry"
	"conclave/wire"
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
	}
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
