package data

import (
	"slices"
	"time"

	"conclave"
)

// When the source of a hand-over is silent, the sessions are asked instead.
// They are a complete replacement only if all of them answer. What a session
// had stored that is lost by then may be with the source alone: the successor's
// copy ends where its feed broke. So a successor does not serve without the
// answer of a session while the source is a member. It asks the source again,
// follows it again, and takes what it had up to its last position
// (docs/adr/0049).
//
// It does so for a node lease and a session grace at most, as it waits for a
// session that cannot be dialled (unreached.go): two data nodes may be cut off
// from each other for longer, and by then the clients of a lost session have
// registered elsewhere.

// needsSource reports whether a migration that has the answers of all sessions
// that are alive must ask its source again.
func (s *slots) needsSource(m *migration, now time.Time) bool {
	if m.source.IsZero() || m.taken || !s.server.view.State().Members.Has(m.source) ||
		now.Sub(m.began) >= s.server.lease()+s.server.config.SessionGrace {
		return false
	}
	m.r.mu.Lock()
	may := m.r.store.Owners()
	m.r.mu.Unlock()
	may = append(may, s.server.owners.allKnown()...)
	return slices.ContainsFunc(may, func(n conclave.NodeID) bool { return !m.answered[n] })
}

// askSource goes back from asking to finishing. No other node can give what is
// missing, so the source has as long to answer as a session.
func (s *slots) askSource(m *migration, now time.Time) {
	if !m.again {
		s.server.log.Warn("slot waits for its old leader: a session did not answer", "slot", m.r.id, "epoch", m.epoch, "source", m.source)
	}
	m.phase, m.sent, m.deadline = finishing, false, now.Add(s.server.config.DiffTimeout)
	m.again = true
	m.r.mu.Lock()
	m.r.follow(m.source, m.sourceEpoch, now)
	m.r.mu.Unlock()
	s.refollow = true
}

// compareAgain continues a migration that has taken the source's copy after
// sessions had answered: their newer registrations come last.
func (s *slots) compareAgain(m *migration) {
	m.taken = true
	s.askSessions(m, "the source's copy is older than what they answered")
}
