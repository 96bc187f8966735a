package session

import (
	"sync/atomic"
	"time"
)

// guard stands before the client. A list that shrinks because a registration
// was withdrawn, or because one client of many went, is the truth and goes out
// at once. A list that shrinks because a whole session was lost, because a new
// leader found less than was known, or because a third of a session's clients
// went together, may be the sign of a fault in the registry's own network. The
// data node marks such a datum as unconfirmed for a while; as long as the mark
// stands, a push that would empty the list or more than halve it is held back.
// In that time either the publishers come back and nobody has noticed, or they
// do not, and the list goes out as it is.
//
//	            marked, and pushed last below the unexplained version, and
//	            empty, or under half of the last certain list
//	(push) ----------------------------------------------------------> (hold)
//	   ^                                                                 |
//	   +--- grown again | the mark has ended | grace + 5 s have passed --+
//
// A session that has just opened is stricter. It may have come with the data nodes
// out of the same power cut: then the slots are marked (they are served without a
// copy) and their lists grow as clients register again. For one session grace
// after it opened, the first push to a subscription is held if the datum is marked
// and the list is shorter than what the client holds, according to its
// subscription.
//
// What the guard never does: hold growth; hold a list that only a withdrawal
// made shorter; merge an old list with a new one. What is pushed as version v
// is exactly the datum at version v, so a hold skips versions and never edits
// them. Eureka and Nacos protect the whole registry or a whole service below a
// threshold; this protects one list, and only against unexplained losses.
type guard struct {
	on    bool          // the switch push-guard; guarded by the topics' mutex
	grace time.Duration // the session grace
	young time.Time     // the end of the first session grace after this session opened; guarded as on
	helds *atomic.Uint64
}

// heldAtMost is how long, above the session grace, a push is held at most.
const heldAtMost = 5 * time.Second

// mark says that removals below a version are unconfirmed until a moment.
type mark struct {
	below int64
	until time.Time
}

func newGuard(grace time.Duration) guard {
	return guard{on: true, grace: grace, helds: new(atomic.Uint64)}
}

// hold judges a push of count values to s, and says when to read again.
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
	case s.first && count < s.count && now.Before(g.young):
		end = earlier(end, g.young)
	default:
		return reread, false
	}
	end = earlier(end, m.until)
	return end, now.Before(end)
}

// known is the highest version at which the subscription has all that the slot's
// leader had.
func (s *subscription) known() int64 { return max(s.version, s.sure) }

// unconfirmed is for how long a list of count values, which hold did not hold
// back, would still be held back if the subscription had set no limit.
func (g guard) unconfirmed(m mark, s *subscription, count int, now time.Time) time.Duration {
	free := *s
	free.limit = 0
	if end, hold := g.hold(m, &free, count, now); hold {
		return end.Sub(now)
	}
	return 0
}

// shrinks says that a list of count values is empty, or under half of what the
// subscription had before its doubt began.
func (s *subscription) shrinks(count int, now time.Time) bool {
	return count == 0 || s.hash != 0 && 2*count < s.before(now)
}

// before is how many values a subscription had when it was last certain of them.
func (s *subscription) before(now time.Time) int {
	if now.Before(s.doubted) {
		return s.full
	}
	return s.count // the doubt ended: what it has is confirmed
}

// pushed notes that a push of count values goes out to s, which still says what
// it was given before. While marks follow one another, small losses add up: ten
// clients that were cut off together and expire one by one are ten losses of
// one, and no list is under half of the one before it.
func (g guard) pushed(m mark, s *subscription, count int, now time.Time) {
	before := s.before(now)
	switch {
	case !g.on || !now.Before(m.until) || s.shrinks(count, now) && s.known() < m.below:
		s.full = count // certain, or held for as long as may be
	case s.known() >= m.below: // a withdrawal: what it took was not lost
		s.full = max(count, before-max(0, s.count-count))
	default:
		s.full = max(count, before)
	}
	s.doubted = m.until
}

// counted notes one more held push.
func (g guard) counted() { g.helds.Add(1) }
