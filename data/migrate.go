package data

import (
	"maps"
	"slices"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/wire"
	"conclave/wire/v1/wirev1connect"
)

// migrations are the slots that this node was granted and does not serve yet.
// They belong to the state loop, which calls everything here.
type migrations struct {
	config       Config
	view         *wire.View
	owners       *owners
	differ       *differ
	feeds        *feeds
	notes        *notes
	tasks        *tasks
	lease        func() time.Duration // how long the cluster waits for a silent node
	leaderSilent func() bool          // no meta leader has answered for a lease
	beatNow      func()               // sends the next beat at once
	beatSoon     func()               // sends one when the hand-overs of a table have had their time
	data         func(address string) wirev1connect.DataServiceClient

	running  map[int]*migration
	refollow bool // the leaders that copies follow have changed
}

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
		m.phase = asking
		r.unfollow()
		if m.holders = s.otherHolders(row); len(m.holders) > 0 {
			m.phase, m.deadline = collecting, now.Add(s.config.FinishTimeout)
		}
	}
	r.mu.Unlock()
	s.running[r.id] = m
	s.config.Logger.Debug("slot granted", "slot", r.id, "epoch", m.epoch, "phase", row.Phase, "source", m.source.Name, "was", was)
}

// otherHolders returns the live nodes in a row that this node has just been
// granted.
func (s *migrations) otherHolders(row slot.Slot) map[conclave.NodeID]bool {
	members := s.view.State().Members
	out := map[conclave.NodeID]bool{}
	for _, n := range row.Holders() {
		if n != s.config.Node && members.Has(n) {
			out[n] = true
		}
	}
	return out
}

// unsent returns the migrations of a phase whose request was not sent yet, by
// slot, and counts it as sent.
func (s *migrations) unsent(p phase) (all []*migration) {
	for _, id := range slices.Sorted(maps.Keys(s.running)) {
		if m := s.running[id]; m.phase == p && !m.sent {
			m.sent = true
			all = append(all, m)
		}
	}
	return all
}

// askSessions continues a migration without its source: the copy is kept as it
// is, and the sessions are asked, after the other holders if these were not asked
// yet. A feed that was followed again may have replaced what the sessions had
// answered before.
func (s *migrations) askSessions(m *migration, why string) {
	if !m.source.IsZero() && !m.again {
		s.config.Logger.Info("slot is taken over from the sessions", "slot", m.r.id, "epoch", m.epoch, "why", why)
	}
	m.phase = asking
	clear(m.answered)
	m.r.mu.Lock()
	m.r.unfollow()
	m.r.mu.Unlock()
	s.refollow = true
	s.collectInstead(m)
}

// advance serves the slot if it may be read: the source's feed has been applied up
// to its last position, or every session that must answer has answered a diff and
// the source is not needed. Otherwise it takes the next step; see migration. It
// returns when it must be called again even if nothing happens, or zero.
func (s *migrations) advance(m *migration, now time.Time) time.Time {
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
		if m.phase == collecting { // the holders of copies come first
			return m.deadline
		}
	}
	if missing := s.unanswered(m, now); len(missing) > 0 {
		return s.ask(m, missing, now)
	}
	if s.needsSource(m, now) {
		if !now.Before(m.deadline) {
			s.askSource(m, now)
		}
		return m.deadline
	}
	s.serve(m, now)
	return time.Time{}
}

// ask compares the slot with the sessions whose answers are missing, and returns
// when advance must be called again.
func (s *migrations) ask(m *migration, missing []conclave.NodeID, now time.Time) time.Time {
	for _, session := range missing {
		if !m.pending[session] {
			m.asked[session], m.pending[session] = true, true
			s.differ.enqueue(diffJob{r: m.r, epoch: m.epoch, session: session, awaited: true, until: s.lostUntil(m), done: func(highest int64, err error) {
				s.tasks.post(func() { m.noteAnswer(session, highest, err) })
			}})
		}
	}
	if now.Sub(m.warned) >= 5*time.Second {
		m.warned = now
		s.config.Logger.Warn("slot waits for sessions", "slot", m.r.id, "epoch", m.epoch, "sessions", missing)
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

// needsSource reports whether a migration that has the answers of all sessions
// that are alive must ask its source again.
func (s *migrations) needsSource(m *migration, now time.Time) bool {
	if m.source.IsZero() || m.taken || !s.view.State().Members.Has(m.source) ||
		now.Sub(m.began) >= s.lease()+s.config.SessionGrace {
		return false
	}
	m.r.mu.Lock()
	may := m.r.store.Owners()
	m.r.mu.Unlock()
	may = append(may, s.owners.allKnown()...)
	return slices.ContainsFunc(may, func(n conclave.NodeID) bool { return !m.answered[n] })
}

// askSource goes back from asking to finishing. No other node can give what is
// missing, so the source has as long to answer as a session.
func (s *migrations) askSource(m *migration, now time.Time) {
	if !m.again {
		s.config.Logger.Warn("slot waits for its old leader: a session did not answer", "slot", m.r.id, "epoch", m.epoch, "source", m.source)
	}
	m.phase, m.sent, m.deadline = finishing, false, now.Add(s.config.DiffTimeout)
	m.again = true
	m.r.mu.Lock()
	m.r.follow(m.source, m.sourceEpoch, now)
	m.r.mu.Unlock()
	s.refollow = true
}

// compareAgain continues a migration that has taken the source's copy after
// sessions had answered: their newer registrations come last.
func (s *migrations) compareAgain(m *migration) {
	m.taken = true
	s.askSessions(m, "the source's copy is older than what they answered")
}

// unanswered returns the sessions that must still answer before the slot may
// serve: the sessions on the member list, those that are connected, and the
// owners of copies here. The member list is never older than the table, because
// a state is always passed on as a whole. An owner that is neither on the list
// nor connected is asked once, if its address was ever known; it does not
// block, and its copies stay for their grace. A session that was given up
// (unreached.go) does not block either. A slot without a copy also waits for
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
		if !m.answered[n] && !m.absent[n] && !containsNode(need, n) && s.owners.address(n) != "" {
			out = append(out, n)
		}
	}
	return out
}

// givenUp reports whether a migration continues without a session.
func (s *migrations) givenUp(m *migration, n conclave.NodeID, now time.Time) bool {
	if s.leaderSilent() {
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

// unreached returns the living sessions that have not answered a migration that
// asks sessions. When the slot begins to serve, these are the ones that were
// given up.
func (s *migrations) unreached(m *migration) []conclave.NodeID {
	var out []conclave.NodeID
	for _, n := range s.owners.living() {
		if m.phase == asking && !m.answered[n] {
			out = append(out, n)
		}
	}
	return out
}

// lostUntil returns until when a migration waits for the lost sessions, or zero
// if it has a copy.
//
// A session that is off the member list may be alive: its lease ends while it is
// cut off from the meta leader alone. A slot with a copy lacks nothing of it. A
// slot without a copy has only what sessions answer, so it asks the lost
// sessions as well, and waits until each has answered, a dial has failed,
// another incarnation has answered at its address, or a node lease has passed
// since the grant.
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

// unconfirmed reports whether a session that owns copies, or was asked, has not
// answered, and the source has not either. The replica's lock is held.
func (m *migration) unconfirmed() bool {
	if m.phase != asking || m.taken {
		return false
	}
	all := slices.AppendSeq(m.r.store.Owners(), maps.Keys(m.asked))
	return slices.ContainsFunc(all, func(n conclave.NodeID) bool { return !m.answered[n] })
}

// serve ends a migration: from now on reads are answered. If registrations may be
// missing (incomplete) or are unconfirmed, the slot is marked for a session grace.
func (s *migrations) serve(m *migration, now time.Time) {
	r := m.r
	fromSessions := m.phase == asking
	unreached := s.unreached(m)
	r.mu.Lock()
	incomplete := fromSessions && (s.lacksLost(m) || len(unreached) > 0)
	unsure := incomplete || m.unconfirmed()
	r.enter(slot.Serving, r.epoch)
	r.unfollow()
	marked := m.marked
	if unsure {
		marked = now.Add(r.grace)
	}
	r.store.MarkIncomplete(m.incomplete)
	if incomplete {
		r.store.MarkIncomplete(marked)
	}
	r.store.Serve(max(r.base, m.counter, min(m.pushed, r.base+conclave.VersionBase)), marked, now)
	serving := trace.Claim{Kind: trace.Serving, Slot: r.id, Epoch: r.epoch, Base: r.copyEpoch, Version: r.store.Counter(), Count: len(m.answered), Flag: !fromSessions}
	if r.store.Incomplete(now) > 0 {
		serving.Key = trace.Incomplete
	}
	r.trace.Claim(serving)
	r.copyEpoch, r.copyPosition = r.epoch, r.store.Position()
	r.partial = nodeSet(unreached)
	without := slices.DeleteFunc(m.without, func(n conclave.NodeID) bool { return m.answered[n] })
	for _, n := range without {
		r.partial[n] = true
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
	s.notes.serving(m, fromSessions, unsure, now.Sub(m.began))
	if len(unreached) > 0 {
		s.owners.noteGivenUp(unreached)
		s.notes.partial(m, unreached)
	}
}
