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

// migration takes one slot from its grant to the moment at which this node
// serves it. It belongs to the state loop. (syncMigrating in article 002, where
// one task for each session must succeed.)
//
//	             Finish answered            position reached
//	finishing ------------------> applying ------------------> (serve)
//	    |  refused, or 300 ms        |  300 ms                    ^
//	    v                            v                            |
//	 asking <------------------------+   all sessions that must --+
//	    ^                                have answered a fenced diff
//	    | all have answered, or 300 ms
//	    |
//	 collecting: after a crash there is no source; the other holders are asked
//
// From asking it may go back to finishing; see source.go. Without another live
// holder, collecting is left out; see holders.go.
type migration struct {
	r     *replica
	epoch conclave.Epoch
	phase phase

	source      conclave.NodeID
	sourceEpoch conclave.Epoch
	sent        bool      // Finish was sent, or the holders were asked
	position    uint64    // the source's last position
	counter     int64     // the source's counter, or the highest version that a session has pushed
	marked      time.Time // when the source's marks end
	incomplete  time.Time // when the source's mark as incomplete ends
	deadline    time.Time // of finishing, applying and collecting
	again       bool      // the source was asked again
	taken       bool      // the copy has everything that the source had

	holders map[conclave.NodeID]bool // other live holders that have not answered yet, after a crash

	began       time.Time                // the grant: since then no node serves the slot, as far as this node knows
	asked       map[conclave.NodeID]bool // sessions that were ever asked
	pending     map[conclave.NodeID]bool // asked, and not yet answered or given up
	answered    map[conclave.NodeID]bool // sessions whose diff is complete
	firstAnswer time.Time                // when the first session answered
	absent      map[conclave.NodeID]bool // not on the list, not connected, and did not answer
	warned      time.Time                // when the sessions that are waited for were last logged
}

// phase is how far a migration is; see migration.
type phase int

const (
	finishing phase = iota
	applying
	asking
	collecting
)

// grant begins a migration. A slot that is handed over takes what its source
// has; after a crash it takes the furthest copy that other holders have, and asks
// the sessions, as a slot does whose source is silent.
func (s *slots) grant(row slot.Slot, r *replica, now time.Time) {
	m := &migration{
		r: r, epoch: row.LeaderEpoch, began: now, warned: now,
		asked: map[conclave.NodeID]bool{}, pending: map[conclave.NodeID]bool{}, answered: map[conclave.NodeID]bool{}, absent: map[conclave.NodeID]bool{},
	}
	r.mu.Lock()
	was := r.state
	r.enter(slot.Migrating, row.LeaderEpoch, &s.server.watchers)
	r.base, r.first = row.VersionBase, row.First
	r.trace.Claim(trace.Claim{Kind: trace.Migrating, Slot: r.id, Epoch: r.epoch})
	if row.Phase == slot.Switching && !row.Source.IsZero() {
		m.source, m.sourceEpoch = row.Source, row.SourceEpoch
		m.deadline = now.Add(s.server.config.FinishTimeout)
		r.follow(m.source, m.sourceEpoch, now) // as before: no change
	} else {
		m.phase = asking
		r.unfollow()
		if m.holders = s.otherHolders(row); len(m.holders) > 0 {
			m.phase, m.deadline = collecting, now.Add(s.server.config.FinishTimeout)
		}
	}
	r.mu.Unlock()
	s.migrations[r.id] = m
	s.server.log.Debug("slot granted", "slot", r.id, "epoch", m.epoch, "phase", row.Phase, "source", m.source.Name, "was", was)
}

// unsent returns the migrations of a phase whose request was not sent yet, by
// slot, and counts it as sent.
func (s *slots) unsent(p phase) (all []*migration) {
	for _, id := range slices.Sorted(maps.Keys(s.migrations)) {
		if m := s.migrations[id]; m.phase == p && !m.sent {
			m.sent = true
			all = append(all, m)
		}
	}
	return all
}

// finishAll asks each source to stop, once for all slots that the table has
// just moved from it to this node: a drain costs one request for each batch of
// slots.
func (s *slots) finishAll() {
	bySource := map[conclave.NodeID][]*migration{}
	for _, m := range s.unsent(finishing) {
		bySource[m.source] = append(bySource[m.source], m)
	}
	for _, source := range sortedNodes(bySource) {
		s.finish(source, bySource[source])
	}
}

// finish sends Finish to one source and posts the result to the loop.
func (s *slots) finish(source conclave.NodeID, all []*migration) {
	member, listed := s.server.view.State().Members.Find(source.Name)
	if !listed || member.Node != source {
		for _, m := range all {
			s.askSessions(m, "the source is not on the member list")
		}
		return
	}
	ask := &wirev1.FinishRequest{Successor: wire.NodeOut(s.server.config.Node)}
	for _, m := range all {
		ask.Slots = append(ask.Slots, &wirev1.FinishSlot{Slot: uint32(m.r.id), LeaderEpoch: wire.EpochOut(m.epoch)})
	}
	deadline := all[0].deadline // one table granted them all, or one round asks again; counted from before the request is sent
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
				if m.deadline != deadline {
					continue // the source has been asked again since
				}
				if err != nil {
					s.finished(m, nil, err)
				} else {
					s.finished(m, res.Msg.GetSlots()[i], nil)
				}
			}
		})
	})
}

// finished handles the source's answer, or the error of the request.
func (s *slots) finished(m *migration, answer *wirev1.FinishedSlot, err error) {
	if s.migrations[m.r.id] != m || m.phase != finishing {
		return
	}
	switch {
	case err != nil:
		s.askSessions(m, "the source did not finish: "+err.Error())
	case answer.GetAccess() != wirev1.Access_ACCESS_ACCEPT || wire.EpochIn(answer.GetSourceEpoch()) != m.sourceEpoch:
		s.askSessions(m, "the source does not have the copy that this node follows")
		m.source = conclave.NodeID{} // it is not asked again
	default:
		m.phase, m.position, m.counter = applying, answer.GetPosition(), max(m.counter, answer.GetCounter())
		now := time.Now()
		m.marked, m.incomplete = now.Add(wire.FromMs(answer.GetUnconfirmedMs())), now.Add(wire.FromMs(answer.GetIncompleteMs()))
	}
}

// askSessions continues a migration without its source: the copy is kept as it
// is, and the sessions are asked. A feed that was followed again may have
// replaced what they had answered before.
func (s *slots) askSessions(m *migration, why string) {
	if !m.source.IsZero() && !m.again {
		s.server.log.Info("slot is taken over from the sessions", "slot", m.r.id, "epoch", m.epoch, "why", why)
	}
	m.phase = asking
	clear(m.answered)
	m.r.mu.Lock()
	m.r.unfollow()
	m.r.mu.Unlock()
	s.refollow = true
}

// advance moves a migration forward. It returns when it must be called again
// even if nothing happens; zero if it need not.
func (s *slots) advance(m *migration, now time.Time) time.Time {
	if m.phase == applying && m.r.reached(m.sourceEpoch, m.position) {
		if len(m.answered) == 0 {
			s.serve(m, now)
			return time.Time{}
		}
		s.compareAgain(m)
	}
	if m.phase == collecting && len(m.holders) == 0 {
		m.phase = asking
	}
	if m.phase != asking {
		if now.Before(m.deadline) {
			return m.deadline
		}
		s.askSessions(m, "the source was silent, or its feed too slow")
	}
	missing := s.unanswered(m, now)
	switch {
	case len(missing) > 0:
	case !s.needsSource(m, now):
		s.serve(m, now)
		return time.Time{}
	case now.Before(m.deadline):
		return m.deadline
	default:
		s.askSource(m, now)
		return m.deadline
	}
	for _, session := range missing {
		if !m.pending[session] {
			m.asked[session], m.pending[session] = true, true
			s.server.differ.enqueue(diffJob{r: m.r, epoch: m.epoch, session: session, fence: true, until: s.lostUntil(m), done: func(highest int64, err error) {
				s.post(func() { m.noteAnswer(session, highest, err) })
			}})
		}
	}
	if now.Sub(m.warned) >= 5*time.Second {
		m.warned = now
		s.server.log.Warn("slot waits for sessions", "slot", m.r.id, "epoch", m.epoch, "sessions", missing)
	}
	next := m.warned.Add(5 * time.Second)
	for _, session := range missing {
		at := s.givenUpAt(m, session, now)
		if at.After(now) && at.Before(next) {
			next = at
		}
	}
	if at := s.lostUntil(m); at.After(now) && at.Before(next) {
		next = at
	}
	return next
}

// noteAnswer records the result of a session's fenced diff.
func (m *migration) noteAnswer(session conclave.NodeID, highest int64, err error) {
	delete(m.pending, session)
	if err != nil {
		m.absent[session] = true // asked again if it returns; see unanswered
		return
	}
	if len(m.answered) == 0 {
		m.firstAnswer = time.Now()
	}
	m.answered[session] = true
	delete(m.absent, session)
	m.counter = max(m.counter, highest)
}

// unanswered returns the sessions that must still answer before the slot may
// serve: the sessions on the member list, those that are connected, and the
// owners of copies here. The member list is never older than the table, because
// a state is always passed on as a whole. An owner that is neither on the list
// nor connected is asked once, if its address was ever known; it does not
// block, and its copies stay for their grace. A session that was given up
// (unreached.go) does not block either. A slot without a copy also waits for
// the lost sessions, for a node lease at most.
func (s *slots) unanswered(m *migration, now time.Time) []conclave.NodeID {
	var out []conclave.NodeID
	need := s.server.owners.living()
	for _, n := range need {
		if !m.answered[n] && !s.givenUp(m, n, now) {
			out = append(out, n)
		}
	}
	m.r.mu.Lock()
	owners := m.r.store.Owners()
	m.r.mu.Unlock()
	if now.Before(s.lostUntil(m)) {
		owners = append(owners, s.server.owners.lost()...)
	}
	for _, n := range owners {
		if !m.answered[n] && !m.absent[n] && !containsNode(need, n) && s.server.owners.address(n) != "" {
			out = append(out, n)
		}
	}
	return out
}

// partial reports whether a slot that has asked all sessions may still lack
// registrations of lost sessions whose clients are about to reconnect: it has
// no complete copy, or its leader crashed and no session could answer. A slot
// that had no leader before lacks nothing, unless this node knows of a session
// that was lost since. The replica's lock is held.
func (s *slots) partial(m *migration) bool {
	owners := s.server.owners
	switch {
	case m.r.first:
		return m.r.copyEpoch.IsZero() && owners.anyInGrace()
	case m.r.copyEpoch.IsZero():
		return true
	}
	return m.source.IsZero() && len(owners.living()) == 0
}

// reached reports whether the copy is complete up to a position of an epoch.
func (r *replica) reached(epoch conclave.Epoch, position uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.copyEpoch == epoch && r.copyPosition >= position
}

// serve ends a migration: from now on reads are answered.
func (s *slots) serve(m *migration, now time.Time) {
	r := m.r
	fromSessions := m.phase == asking
	partial := s.unreached(m)
	r.mu.Lock()
	incomplete := fromSessions && (s.partial(m) || len(partial) > 0)
	unsure := incomplete // a session that may have had more has not answered
	if fromSessions && !m.taken {
		for _, n := range r.store.Owners() {
			unsure = unsure || !m.answered[n]
		}
		for n := range m.asked {
			unsure = unsure || !m.answered[n]
		}
	}
	r.enter(slot.Serving, r.epoch, &s.server.watchers)
	r.unfollow()
	marked := m.marked
	if unsure {
		marked = now.Add(r.grace)
	}
	r.store.MarkIncomplete(m.incomplete)
	if incomplete {
		r.store.MarkIncomplete(marked)
	}
	r.store.Serve(max(r.base, m.counter), marked, now)
	serving := trace.Claim{Kind: trace.Serving, Slot: r.id, Epoch: r.epoch, Version: r.store.Counter(), Count: len(m.answered), Flag: !fromSessions}
	if r.store.Incomplete(now) > 0 {
		serving.Key = trace.Incomplete
	}
	r.trace.Claim(serving)
	r.copyEpoch, r.copyPosition = r.epoch, r.store.Position()
	r.partial = nodeSet(partial)
	s.server.watchers.reset(r.id, r.epoch, r.store.Position())
	r.mu.Unlock()
	delete(s.migrations, r.id)
	s.refollow = true
	s.server.wakeFeeds()
	s.server.beatNow()
	s.server.noteServing(m, fromSessions, unsure, now.Sub(m.began))
	if len(partial) > 0 {
		s.server.owners.noteGivenUp(partial)
		s.server.notePartial(m, partial)
	}
}
