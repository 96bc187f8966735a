package data

import (
	"maps"
	"slices"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// migrations are the slots that this node was granted and does not serve yet.
// They belong to the state loop, which calls everything here.
type migrations struct {
	config           Config
	view             *wire.View
	owners           *owners
	differ           *differ
	feeds            *feeds
	notes            *notes
	tasks            *tasks
	lease            func() time.Duration // how long the cluster waits for a silent node
	metaLeaderSilent func() bool          // no meta leader has answered for a lease
	beatNow          func()               // sends the next beat at once
	beatSoon         func()               // sends one when the hand-overs of a table have had their time
	data             func(address string) wirev1connect.DataServiceClient

	running  map[int]*migration
	refollow bool // the leaders that copies follow have changed
}

// migration takes one slot from its grant to the moment at which this node
// serves it. It belongs to the state loop. (syncMigrating in article 002, where
// one task for each session must succeed.)
//
//	             Finish answered            position reached
//	finishing ------------------> applying ------------------> (serve)
//	    |  refused, or late      ^   |  late                      ^
//	    v    a holder has the rest   v                            |
//	collecting: the other live holders are asked. A migration     |
//	    |       without a source, after a crash, begins here      |
//	    | all have answered, or late                              |
//	    v                                                         |
//	 asking: every session that must answer has answered ---------+
//	         a fenced diff
//
// Late is after FinishTimeout, 300 ms, for finishing and applying together, and
// again for collecting. From asking it may return to finishing, for DiffTimeout;
// see needsSource. Collecting is left out without another live holder, and after
// the source was asked again.
type migration struct {
	r     *replica
	row   slot.Slot // the grant
	epoch conclave.Epoch
	phase phase

	source      conclave.NodeID
	sourceEpoch conclave.Epoch
	sent        bool                 // Finish was sent, or the holders were asked
	deadline    time.Time            // of finishing, applying and collecting
	end         *wirev1.FinishedSlot // the source's answer to Finish; nil before it
	ended       time.Time            // when that arrived
	again       bool                 // the source was asked again
	taken       bool                 // the copy has everything that the source had

	holders map[conclave.NodeID]bool // other live holders that have not answered yet

	began       time.Time                // the grant: since then no node serves the slot, as far as this node knows
	asked       map[conclave.NodeID]bool // sessions that were ever asked
	pending     map[conclave.NodeID]bool // asked, and not yet answered or given up
	answered    map[conclave.NodeID]bool // sessions whose diff is complete
	firstAnswer time.Time                // when the first session answered
	absent      map[conclave.NodeID]bool // not on the list, not connected, and did not answer
	pushed      int64                    // the highest version that a session has pushed, or that a client of it claims to have, however high
	warned      time.Time                // when the sessions that are waited for were last logged
}

// phase is what a migration waits for; see migration.
type phase int

const (
	finishing  phase = iota // the source's answer to Finish
	applying                // the rest of the source's feed
	collecting              // the copies of other holders
	asking                  // the sessions
)

// grant begins a migration. A slot that is handed over takes what its source
// has; after a crash it takes the furthest copy that other holders have, and asks
// the sessions, as a slot does whose source is silent. (The start of
// syncMigrating in article 002; advance and the differ are the rest.)
func (s *migrations) grant(row slot.Slot, r *replica, now time.Time) {
	m := &migration{
		r: r, row: row, epoch: row.LeaderEpoch, began: now, warned: now,
		asked: map[conclave.NodeID]bool{}, pending: map[conclave.NodeID]bool{}, answered: map[conclave.NodeID]bool{}, absent: map[conclave.NodeID]bool{},
	}
	r.mu.Lock()
	was := r.state
	r.enter(slot.Migrating, row.LeaderEpoch)
	r.base, r.first = row.VersionBase, row.First
	r.trace.Claim(trace.Claim{Kind: trace.Migrating, Slot: r.id, Epoch: r.epoch})
	if row.Phase == slot.Switching && !row.Source.IsZero() {
		m.source, m.sourceEpoch = row.Source, row.SourceEpoch
		m.deadline = now.Add(s.config.FinishTimeout)
		r.follow(m.source, m.sourceEpoch, now) // as before: no change
	} else {
		r.unfollow()
		s.collect(m, now)
	}
	r.mu.Unlock()
	s.running[r.id] = m
	s.config.Logger.Debug("slot granted", "slot", r.id, "epoch", m.epoch, "phase", row.Phase, "source", m.source.Name, "was", was)
}

// collect asks the other live holders of the slot for their copies, or the
// sessions at once if there is no such holder.
func (s *migrations) collect(m *migration, now time.Time) {
	members := s.view.State().Members
	m.holders = map[conclave.NodeID]bool{}
	for _, n := range m.row.Holders() {
		if n != s.config.Node && n != m.source && members.Has(n) {
			m.holders[n] = true
		}
	}
	m.phase = asking
	if len(m.holders) > 0 {
		m.phase, m.sent, m.deadline = collecting, false, now.Add(s.config.FinishTimeout)
	}
}

// leaveSource continues without the source: the copy is kept as it is, and all
// sessions are asked, since a feed that was followed again may have replaced what
// they had answered before. The first time the other holders come before them:
// the source may have died, and the feed that this node had of it been slow.
func (s *migrations) leaveSource(m *migration, why string) {
	m.r.mu.Lock()
	m.r.unfollow()
	m.r.mu.Unlock()
	s.refollow = true
	clear(m.answered)
	if m.again {
		m.phase = asking
		return
	}
	s.config.Logger.Info("slot is taken over from the sessions", "slot", m.r.id, "epoch", m.epoch, "why", why)
	s.collect(m, time.Now())
}

// returnToSource goes back from asking to finishing. No other node can give what
// is missing, so the source has as long to answer as a session.
func (s *migrations) returnToSource(m *migration, now time.Time) {
	if !m.again {
		s.config.Logger.Warn("slot waits for its old leader: a session did not answer", "slot", m.r.id, "epoch", m.epoch, "source", m.source)
	}
	m.phase, m.sent, m.deadline, m.again = finishing, false, now.Add(s.config.DiffTimeout), true
	m.r.mu.Lock()
	m.r.follow(m.source, m.sourceEpoch, now)
	m.r.mu.Unlock()
	s.refollow = true
}

// advance serves the slot if it may be read: the source's feed has been applied up
// to its last position and no session has answered before, or every session that must
// answer has answered a diff and the source is not needed. Otherwise it takes the next
// step; see migration. It returns when it must be called again even if nothing happens,
// or zero.
func (s *migrations) advance(m *migration, now time.Time) time.Time {
	if m.phase == applying && m.r.reached(m.sourceEpoch, m.end.GetPosition()) {
		if len(m.answered) == 0 {
			s.serve(m, now)
			return time.Time{}
		}
		m.taken = true
		s.leaveSource(m, "the source's copy is older than what sessions answered") // its feed has replaced that: they answer again
	}
	late := !now.Before(m.deadline)
	switch m.phase {
	case collecting:
		if len(m.holders) == 0 || late {
			m.phase = asking
		}
	case finishing, applying:
		if late {
			s.leaveSource(m, "the source was silent, or its feed too slow")
		}
	}
	if m.phase != asking {
		return m.deadline
	}
	if missing := s.unanswered(m, now); len(missing) > 0 {
		return s.ask(m, missing, now)
	}
	if !s.needsSource(m, now) {
		s.serve(m, now)
		return time.Time{}
	}
	if !now.Before(m.deadline) {
		s.returnToSource(m, now)
	}
	return m.deadline
}

// ask compares the slot with the sessions whose answers are missing, and returns
// when advance must be called again.
func (s *migrations) ask(m *migration, missing []conclave.NodeID, now time.Time) time.Time {
	for _, session := range missing {
		if !m.pending[session] {
			m.asked[session], m.pending[session] = true, true
			s.differ.enqueue(diffJob{r: m.r, epoch: m.epoch, session: session, awaited: true, until: s.lostUntil(m), failed: s.tasks.wake.Set, done: func(highest int64, err error) {
				s.tasks.post(func() { m.noteAnswer(session, highest, err) })
			}})
		}
	}
	if now.Sub(m.warned) >= 5*time.Second {
		m.warned = now
		s.config.Logger.Warn("slot waits for sessions", "slot", m.r.id, "epoch", m.epoch, "sessions", missing)
	}
	next := m.warned.Add(5 * time.Second)
	sooner := func(at time.Time) {
		if at.After(now) && at.Before(next) {
			next = at
		}
	}
	for _, session := range missing {
		sooner(s.givenUpAt(m, session, now))
	}
	sooner(s.lostUntil(m))
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
	m.pushed = max(m.pushed, highest)
}

// needsSource reports whether a migration that has the answers of all sessions
// that are alive must ask its source again (source.go).
func (s *migrations) needsSource(m *migration, now time.Time) bool {
	if m.source.IsZero() || m.taken || !s.view.State().Members.Has(m.source) ||
		now.Sub(m.began) >= s.lease()+s.config.SessionGrace {
		return false
	}
	m.r.mu.Lock()
	may := m.r.store.Owners()
	m.r.mu.Unlock()
	return m.lacks(append(may, s.owners.allKnown()...))
}

// lacks reports whether the answer of one of these sessions is missing.
func (m *migration) lacks(sessions []conclave.NodeID) bool {
	return slices.ContainsFunc(sessions, func(n conclave.NodeID) bool { return !m.answered[n] })
}

// unanswered returns the sessions that must still answer before the slot may
// serve: the sessions on the member list, those that are connected, and the
// owners of copies here. The member list is never older than the table, because
// a state is always passed on as a whole. An owner that is neither on the list
// nor connected is asked once, if its address was ever known: the slot waits for
// that attempt only, and its copies stay for their grace. A session that was given
// up (owners.go) is not waited for. A slot without a copy also waits for
// the lost sessions, for a node lease at most.
func (s *migrations) unanswered(m *migration, now time.Time) []conclave.NodeID {
	var out []conclave.NodeID
	need := s.owners.living()
	for _, n := range need {
		if !m.answered[n] && !s.givenUp(m, n, now) {
			out = append(out, n)
		}
	}
	m.r.mu.Lock()
	owners := m.r.store.Owners()
	m.r.mu.Unlock()
	if now.Before(s.lostUntil(m)) {
		owners = append(owners, s.owners.lost()...)
	}
	for _, n := range owners {
		if !m.answered[n] && !m.absent[n] && !slices.Contains(need, n) && s.owners.address(n) != "" {
			out = append(out, n)
		}
	}
	return out
}

// givenUp reports whether a migration continues without a session.
func (s *migrations) givenUp(m *migration, n conclave.NodeID, now time.Time) bool {
	if s.metaLeaderSilent() { // this node may be the one that is cut off
		return false
	}
	at := s.givenUpAt(m, n, now)
	return !at.IsZero() && !now.Before(at)
}

// givenUpAt returns when a migration will continue without a session if nothing
// changes until then, or zero if the session must be waited for.
func (s *migrations) givenUpAt(m *migration, n conclave.NodeID, now time.Time) time.Time {
	from := m.began
	if len(m.answered) > 0 {
		from = m.firstAnswer // earlier failures may have been this node's own fault
	}
	return s.owners.giveUpAt(n, from, len(m.answered) > 0, now)
}

// lostUntil returns until when a migration waits for the lost sessions, or zero
// if it has a copy.
//
// A session that is off the member list may be alive: its lease ends while it is
// cut off from the meta leader alone. A slot with a copy lacks nothing of it. A
// slot without a copy has only what sessions answer, so it asks the lost
// sessions as well, and waits until each has answered, a dial has failed other than
// by silence, another incarnation has answered at its address, or a node lease has
// passed since the grant.
func (s *migrations) lostUntil(m *migration) time.Time {
	m.r.mu.Lock()
	defer m.r.mu.Unlock()
	if !m.r.copyEpoch.IsZero() {
		return time.Time{}
	}
	return m.began.Add(s.lease())
}

// lacksLost reports whether a slot that has asked all sessions may still lack
// registrations of lost sessions whose clients are about to reconnect: it has
// no complete copy, or its leader crashed and no session could answer. A slot
// that had no leader before lacks nothing, unless this node knows of a session
// that was lost since. The replica's lock is held.
func (s *migrations) lacksLost(m *migration) bool {
	owners := s.owners
	switch {
	case m.r.first:
		return m.r.copyEpoch.IsZero() && owners.anyInGrace()
	case m.r.copyEpoch.IsZero():
		return true
	}
	return m.source.IsZero() && len(owners.living()) == 0
}

// serve ends a migration: from now on reads are answered. What the source said of
// its copy still counts. The slot is marked for a session grace if a session that
// owns copies, or was asked, has not answered, and neither has the source
// (unconfirmed), or if registrations may be missing (incomplete).
func (s *migrations) serve(m *migration, now time.Time) {
	r, bySource := m.r, m.phase != asking
	var givenUp []conclave.NodeID // the living sessions that have not answered
	if !bySource {
		givenUp = slices.DeleteFunc(s.owners.living(), func(n conclave.NodeID) bool { return m.answered[n] })
	}
	r.mu.Lock()
	incomplete := !bySource && (s.lacksLost(m) || len(givenUp) > 0)
	unconfirmed := incomplete || !bySource && !m.taken && m.lacks(slices.AppendSeq(r.store.Owners(), maps.Keys(m.asked)))
	r.enter(slot.Serving, r.epoch)
	r.unfollow()
	marked := m.ended.Add(wire.FromMs(m.end.GetUnconfirmedMs()))
	if unconfirmed {
		marked = now.Add(r.grace)
	}
	r.store.MarkIncomplete(m.ended.Add(wire.FromMs(m.end.GetIncompleteMs())))
	if incomplete {
		r.store.MarkIncomplete(marked)
	}
	r.store.Serve(max(r.base, m.end.GetCounter(), min(m.pushed, r.base+conclave.VersionBase)), marked, now)
	serving := trace.Claim{Kind: trace.Serving, Slot: r.id, Epoch: r.epoch, Base: r.copyEpoch, Version: r.store.Counter(), Count: len(m.answered), Flag: bySource}
	if r.store.Incomplete(now) > 0 {
		serving.Key = trace.Incomplete
	}
	r.trace.Claim(serving)
	r.copyEpoch, r.copyPosition = r.epoch, r.store.Position()
	r.partial = map[conclave.NodeID]bool{}
	for _, n := range givenUp {
		r.partial[n] = true
	}
	var without []conclave.NodeID // sessions without which the source served
	for _, in := range m.end.GetPartial() {
		if n := wire.NodeIn(in); !m.answered[n] {
			without, r.partial[n] = append(without, n), true
		}
	}
	r.watchers.reset(r.id, r.epoch, r.store.Position())
	r.mu.Unlock()
	for _, n := range without {
		s.differ.enqueue(diffJob{r: r, epoch: m.epoch, session: n})
	}
	delete(s.running, r.id)
	s.refollow = true
	s.feeds.wake()
	s.beatNow()
	s.notes.serving(m, !bySource, unconfirmed, now.Sub(m.began))
	if len(givenUp) > 0 {
		s.owners.noteGivenUp(givenUp)
		s.notes.partial(m, givenUp)
	}
}
