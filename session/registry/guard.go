package registry

import (
	"slices"
	"time"
)

// guard is the push guard: it decides whether a push is held back. A list that
// shrinks because a registration was withdrawn, or because one client of many
// is gone, is correct and is pushed at once. A list that shrinks because a
// whole session was lost, because a new leader found fewer registrations than
// were known, or because 30 % of a session's registrations went together, may
// be the symptom of a fault in the registry's own network. The data node marks
// such a datum as unconfirmed for a while. As long as the mark is valid, a push
// that would empty the list or more than halve it is held back. In that time
// either the publishers come back, and no subscriber has noticed, or they do
// not, and the list is pushed as it is.
//
//	            marked, and pushed last below the unexplained version, and
//	            empty, or under half of the last certain list
//	(push) ----------------------------------------------------------> (hold)
//	   ^                                                                 |
//	   +--- grown again | the mark has ended | grace + 5 s have passed --+
//
// A slot that was served without a complete copy is marked as a whole: its
// lists grow as clients register again. While this mark is valid, a push is held
// back if it lacks any publisher of the list that the subscriber has, unless the
// leader knows that this publisher has withdrawn. A
// subscriber that comes from another session brings that list's publishers with
// it (Subscription.publishers), so the rule also holds after a power cut of the
// data nodes and the sessions. Publishers are compared, not numbers: a publisher
// that registers now does not stand in for one that is not back yet. A subscriber that
// cannot say what it has (Owner.Foreign) may have had all that is missing: its first list
// is held back.
//
// The guard never holds growth back, nor a list that only a withdrawal made
// shorter, and never merges an old list with a new one. What is pushed as
// version v is exactly the datum at version v: a hold skips versions and never
// edits them. Eureka and Nacos protect the whole registry or a whole service
// below a threshold; this guard protects one list, and only against unexplained
// losses.
type guard struct {
	on    bool          // the switch push-guard
	grace time.Duration // the session grace
}

// heldAtMost is how much longer than the session grace a push is held back at
// most.
const heldAtMost = 5 * time.Second

// hold reports whether a push of d to s is held back, and when the topic is to
// be read again.
func (g guard) hold(m mark, s *subscription, d *datum, now time.Time) (reread time.Time, hold bool) {
	if !g.on || !now.Before(m.until) || s.known() >= m.below {
		return reread, false
	}
	limit := g.grace + heldAtMost
	if s.hash == 0 && s.limit > 0 {
		limit = min(limit, s.limit)
	}
	end := now.Add(limit)
	if !s.held.IsZero() {
		end = s.held.Add(limit)
	}
	var doubtful time.Time // the end of the mark that makes this list doubtful
	switch {
	case s.shrinks(d.count(), now):
		doubtful = m.until
	case now.Before(m.incomplete) && (s.hash == 0 && s.to.Foreign || s.exceeds(d, m.withdrawn)):
		doubtful = m.incomplete
	default:
		return reread, false
	}
	if doubtful.Before(end) {
		end = doubtful
	}
	return end, now.Before(end)
}

// known returns the highest version at which the subscription had everything
// that the slot's leader had.
func (s *subscription) known() int64 { return max(s.version, s.sure) }

// shrinks reports whether a list of count values is empty, or under half of
// what the subscription had before the present mark.
func (s *subscription) shrinks(count int, now time.Time) bool {
	return count == 0 || s.hash != 0 && 2*count < s.before(now)
}

// exceeds reports whether the subscription has a publisher that d lacks and that
// has not withdrawn. Of a client of an older build only the number of values is
// known.
func (s *subscription) exceeds(d *datum, withdrawn []uint32) bool {
	if len(s.publishers) == 0 {
		return d.count() < s.count
	}
	has := d.set()
	return slices.ContainsFunc(s.publishers, func(p uint32) bool { return !has[p] && !slices.Contains(withdrawn, p) })
}

// before returns how many values a subscription had when they were last
// confirmed.
func (s *subscription) before(now time.Time) int {
	if now.Before(s.doubted) {
		return s.full
	}
	return s.count // the mark has ended: what the subscription has is confirmed
}

// pushed records that a push of count values goes out to s, whose fields still
// describe the push before. While marks follow one another, small losses add
// up: ten clients that were cut off together and expire one by one are ten
// losses of one, and no list is under half of the one before it.
func (g guard) pushed(m mark, s *subscription, count int, now time.Time) {
	before := s.before(now)
	switch {
	case !g.on || !now.Before(m.until) || s.shrinks(count, now) && s.known() < m.below:
		s.full = count // confirmed, or held back for the longest time allowed
	case s.known() >= m.below: // a withdrawal: what it removed was not lost
		s.full = max(count, before-max(0, s.count-count))
	default:
		s.full = max(count, before)
	}
	s.doubted = m.until
}
