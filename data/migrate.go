package data

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"connectrpc.com/connect"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// migration is the way of one slot from its grant to the moment at which this
// node serves it. It belongs to the state loop.
//
//	             Finish answered            position reached
//	finishing ------------------> applying ------------------> (serve)
//	    |  refused, or 300 ms        |  300 ms                    ^
//	    v                            v                            |
//	 hearing <-----------------------+     all who must be heard -+
//	    ^                                  answered a fenced diff
//	    | crash: there is no source
type migration struct {
	r     *replica
	epoch conclave.Epoch
	phase phase

	source      conclave.NodeID
	sourceEpoch conclave.Epoch
	sent        bool      // Finish was asked
	position    uint64    // the source's last
	counter     int64     // the source's, or the highest that a session has pushed
	marked      time.Time // until when the source's marks last
	deadline    time.Time // of finishing and applying

	began   time.Time                // nobody serves the slot, as far as this node can tell, since then
	asked   map[conclave.NodeID]bool // ever
	pending map[conclave.NodeID]bool // asked, and not yet answered or given up
	heard   map[conclave.NodeID]bool
	answer  time.Time                // when the first session answered
	gone    map[conclave.NodeID]bool // given up: on no list, not connected, no answer
	waiting time.Time                // when it was last said who is waited for
}

type phase int

const (
	finishing phase = iota
	applying
	hearing
)

// grant begins a migration. A slot that is handed over takes what its source
// has; any other, and one whose source is silent, hears the sessions.
func (s *slots) grant(row slot.Slot, r *replica, now time.Time) {
	m := &migration{
		r: r, epoch: row.LeaderEpoch, began: now, waiting: now,
		asked: map[conclave.NodeID]bool{}, pending: map[conclave.NodeID]bool{}, heard: map[conclave.NodeID]bool{}, gone: map[conclave.NodeID]bool{},
	}
	r.mu.Lock()
	was := r.state
	r.enter(slot.Migrating, row.LeaderEpoch, &s.server.watchers)
	r.base, r.first = row.VersionBase, row.First
	r.trace.Claim(trace.Claim{Kind: trace.Migrating, Slot: r.id, Epoch: r.epoch})
	if row.Phase == slot.Switching && !row.Source.IsZero() {
		m.source, m.sourceEpoch = row.Source, row.SourceEpoch
		m.deadline = now.Add(s.server.config.FinishTimeout)
		r.follow(m.source, m.sourceEpoch, now) // as it did before: no change
	} else {
		m.phase = hearing
		r.unfollow()
	}
	r.mu.Unlock()
	s.migrations[r.id] = m
	s.server.log.Debug("slot granted", "slot", r.id, "epoch", m.epoch, "phase", row.Phase, "source", m.source.Name, "was", was)
}

// finishAll asks each source to stop, once for all slots that the table has just
// moved from it to this node: a drain costs a question for each batch of slots,
// not for each slot.
func (s *slots) finishAll() {
	bySource := map[conclave.NodeID][]*migration{}
	for _, id := range slices.Sorted(maps.Keys(s.migrations)) {
		if m := s.migrations[id]; m.phase == finishing && !m.sent {
			m.sent = true
			bySource[m.source] = append(bySource[m.source], m)
		}
	}
	for _, source := range sortedNodes(bySource) {
		s.finish(source, bySource[source])
	}
}

// finish asks one source, and tells the loop what it said.
func (s *slots) finish(source conclave.NodeID, all []*migration) {
	member, listed := s.server.view.State().Members.Find(source.Name)
	if !listed || member.Node != source {
		for _, m := range all {
			s.hear(m, "the source is not on the member list")
		}
		return
	}
	ask := &wirev1.FinishRequest{Successor: wire.NodeOut(s.server.config.Node)}
	for _, m := range all {
		ask.Slots = append(ask.Slots, &wirev1.FinishSlot{Slot: uint32(m.r.id), LeaderEpoch: wire.EpochOut(m.epoch)})
	}
	deadline := all[0].deadline // all were granted by one table; counts from before the request is sent
	s.tasks.Go(func() {
		ctx, cancel := context.WithDeadline(s.ctx, deadline)
		defer cancel()
		s.server.config.Trace.Claim(trace.Claim{Kind: trace.Finishing, Peer: source, Count: len(all)})
		res, err := s.server.peers.Data(member.Address).Finish(ctx, connect.NewRequest(ask))
		if err == nil && len(res.Msg.GetSlots()) != len(all) {
			err = fmt.Errorf("asked for %d slots, answered for %d", len(all), len(res.Msg.GetSlots()))
		}
		s.post(func() {
			for i, m := range all {
				if err != nil {
					s.finished(m, nil, err)
				} else {
					s.finished(m, res.Msg.GetSlots()[i], nil)
				}
			}
		})
	})
}

// finished takes the source's answer.
func (s *slots) finished(m *migration, answer *wirev1.FinishedSlot, err error) {
	if s.migrations[m.r.id] != m || m.phase != finishing {
		return
	}
	switch {
	case err != nil:
		s.hear(m, "the source did not finish: "+err.Error())
	case answer.GetAccess() != wirev1.Access_ACCESS_ACCEPT || wire.EpochIn(answer.GetSourceEpoch()) != m.sourceEpoch:
		s.hear(m, "the source has not the copy that this one follows")
	default:
		m.phase, m.position, m.counter = applying, answer.GetPosition(), answer.GetCounter()
		m.marked = time.Now().Add(wire.FromMs(answer.GetUnconfirmedMs()))
	}
}

// hear falls back to the sessions: the copy is kept as it is.
func (s *slots) hear(m *migration, why string) {
	if !m.source.IsZero() {
		s.server.log.Info("slot is taken over from the sessions", "slot", m.r.id, "epoch", m.epoch, "why", why)
	}
	m.phase = hearing
	m.r.mu.Lock()
	m.r.unfollow()
	m.r.mu.Unlock()
	s.refollow = true
}

// advance carries a migration on, and says when it must be looked at again
// even if nothing happens; zero: only then.
func (s *slots) advance(m *migration, now time.Time) time.Time {
	if m.phase == applying && m.r.reached(m.sourceEpoch, m.position) {
		s.serve(m, now)
		return time.Time{}
	}
	if m.phase != hearing {
		if now.Before(m.deadline) {
			return m.deadline
		}
		s.hear(m, "the source was silent, or its feed too slow")
	}
	missing := s.unheard(m, now)
	if len(missing) == 0 {
		s.serve(m, now)
		return time.Time{}
	}
	for _, session := range missing {
		if !m.pending[session] {
			m.asked[session], m.pending[session] = true, true
			s.server.differ.ask(diffJob{r: m.r, epoch: m.epoch, session: session, fence: true, done: func(highest int64, err error) {
				s.post(func() { m.answered(session, highest, err) })
			}})
		}
	}
	if now.Sub(m.waiting) >= 5*time.Second {
		m.waiting = now
		s.server.log.Warn("slot waits for sessions", "slot", m.r.id, "epoch", m.epoch, "sessions", missing)
	}
	next := m.waiting.Add(5 * time.Second)
	for _, session := range missing {
		at := s.givenUpAt(m, session, now)
		if at.After(now) && at.Before(next) {
			next = at
		}
	}
	return next
}

// answered notes how a session's fenced diff ended.
func (m *migration) answered(session conclave.NodeID, highest int64, err error) {
	delete(m.pending, session)
	if err != nil {
		m.gone[session] = true // asked again if it comes back; see unheard
		return
	}
	if len(m.heard) == 0 {
		m.answer = time.Now()
	}
	m.heard[session] = true
	delete(m.gone, session)
	m.counter = max(m.counter, highest)
}

// unheard lists who must still be heard before the slot may serve: the
// sessions on the member list, those that are connected, and
// the owners of copies here. The member list is never older than the table,
// since whoever hands a state on hands on all of it. An owner that is neither
// on the list nor connected is asked once, if its address was ever known: it
// does not block, and its copies stay for its grace. Neither does a session that
// was given up (unreached.go).
func (s *slots) unheard(m *migration, now time.Time) []conclave.NodeID {
	var out []conclave.NodeID
	need := s.server.owners.living()
	for _, n := range need {
		if !m.heard[n] && !s.givenUp(m, n, now) {
			out = append(out, n)
		}
	}
	m.r.mu.Lock()
	owners := m.r.store.Owners()
	m.r.mu.Unlock()
	for _, n := range owners {
		if !m.heard[n] && !m.gone[n] && !containsNode(need, n) && s.server.owners.address(n) != "" {
			out = append(out, n)
		}
	}
	return out
}

// partial reports whether a slot that has asked all sessions may still lack
// registrations of sessions that are gone, whose clients are on their way: it
// has no complete copy, or its leader crashed and no session could answer. A
// slot that had no leader before lacks nothing, unless this node knows of a
// session that was lost since. The lock is held.
func (s *slots) partial(m *migration) bool {
	owners := s.server.owners
	switch {
	case m.r.first:
		return m.r.copyEpoch.IsZero() && owners.missed()
	case m.r.copyEpoch.IsZero():
		return true
	}
	return m.source.IsZero() && len(owners.living()) == 0
}

func (r *replica) reached(epoch conclave.Epoch, position uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.copyEpoch == epoch && r.copyPosition >= position
}

// serve ends a migration: from here on reads are answered.
func (s *slots) serve(m *migration, now time.Time) {
	r := m.r
	heard := m.phase == hearing
	partial := s.unreached(m)
	r.mu.Lock()
	unheard := false
	if heard {
		unheard = s.partial(m)
		for _, n := range r.store.Owners() {
			unheard = unheard || !m.heard[n]
		}
		for n := range m.asked {
			unheard = unheard || !m.heard[n]
		}
	}
	r.enter(slot.Serving, r.epoch, &s.server.watchers)
	r.unfollow()
	marked := m.marked
	if unheard {
		marked = now.Add(r.grace)
	}
	r.store.Serve(max(r.base, m.counter), marked, now)
	r.trace.Claim(trace.Claim{Kind: trace.Serving, Slot: r.id, Epoch: r.epoch, Version: r.store.Counter(), Count: len(m.heard), Flag: !heard})
	r.copyEpoch, r.copyPosition = r.epoch, r.store.log.position
	r.partial = nodeSet(partial)
	s.server.watchers.reset(r.id, r.epoch, r.store.log.position)
	r.mu.Unlock()
	delete(s.migrations, r.id)
	s.refollow = true
	s.server.ring()
	s.server.poke()
	s.server.noteServing(m, heard, unheard, now.Sub(m.began))
	if len(partial) > 0 {
		s.server.notePartial(m, partial)
	}
}
