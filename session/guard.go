package session

import (
	"sync/atomic"
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
// A session that has just opened is stricter. It may have been started after a
// power cut of the data nodes as well: then the slots are marked (they are
// served without a copy), and their lists grow as clients register again. For
// one session grace after it opened, the first push to a subscription is held
// back if the datum is marked and the list is shorter than the one that the
// client has, according to its subscription.
//
// The guard never holds growth back, nor a list that only a withdrawal made
// shorter, and never merges an old list with a new one. What is pushed as
// version v is exactly the datum at version v: a hold skips versions and never
// edits them. Eureka and Nacos protect the whole registry or a whole service
// below a threshold; this guard protects one list, and only against unexplained
// losses.
type guard struct {
	on          bool          // the switch push-guard; guarded by the topics' mutex
	grace       time.Duration // the session grace
	strictUntil time.Time     // the end of the first session grace after this session opened; guarded like on
	heldTotal   *atomic.Uint64
}

// heldAtMost is how much longer than the session grace a push is held back at
// most.
const heldAtMost = 5 * time.Second

// mark marks a datum: removals below a version are unconfirmed until a time.
type mark struct {
	below int64
	until time.Time
}

func newGuard(grace time.Duration) guard {
	return guard{on: true, grace: grace, heldTotal: new(atomic.Uint64)}
}

// hold reports whether a push of count values to s is held back, and when the
// topic is to be read again.
func (g guard) hold(m mark, s *subscription, count int, now time.Time) (reread time.Time, hold bool) {
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
	switch {
	case s.shrinks(count, now):
	case s.first && count < s.count && now.Before(g.strictUntil):
		end = earlier(end, g.strictUntil)
	default:
		return reread, false
	}
	end = earlier(end, m.until)
	return end, now.Before(end)
}

// known returns the highest version at which the subscription had everything
// that the slot's leader had.
func (s *subscription) known() int64 { return max(s.version, s.sure) }

// unconfirmed returns how much longer a list of count values, which hold let
// pass, would be held back if the subscription had set no limit.
func (g guard) unconfirmed(m mark, s *subscription, count int, now time.Time) time.Duration {
	free := *s
	free.limit = 0
	if end, hold := g.hold(m, &free, count, now); hold {
		return end.Sub(now)
	}
	return 0
}

// shrinks reports whether a list of count values is empty, or under half of
// what the subscription had before the present mark.
func (s *subscription) shrinks(count int, now time.Time) bool {
	return count == 0 || s.hash != 0 && 2*count < s.before(now)
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

// counted counts one push held back.
func (g guard) counted() { g.heldTotal.Add(1) }
