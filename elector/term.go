package elector

import (
	"fmt"
	"time"

	"conclave"
)

// Term is one leadership as the store records it. Term numbers only rise, and
// each term has at most one leader. The number is written into every effect and
// checked by every receiver; that is what keeps an old leader harmless.
type Term struct {
	Number  uint64          // 0: no node has ever led
	Leader  conclave.NodeID // zero: no node leads, and Number is the last term
	Address string          // of the leader
	Beat    uint64          // renewals within the term, from 0
	Lease   time.Duration   // the leader's own lease: the other nodes wait this long

	// Seen is when this node first saw this very (Number, Beat), by its monotonic
	// clock. A follower may compete once Seen is a whole lease ago.
	Seen time.Time

	// Age is how old the beat was when it was read, by the store's clock; 0 if
	// the store does not report it. It only tunes when a polling follower reads
	// again, together with other elections if they share reads; no decision depends on it.
	Age time.Duration

	// Sent is since when trust counts, and the time of the next Round, if the Strategy
	// sends the Rounds of several elections together: a time before it sent this one's
	// last statement. Zero: when the Round began.
	Sent time.Time

	// What the winner knows about its election. Set on the leader only; the
	// other nodes find it in the history.
	Cause      Cause
	Previous   conclave.NodeID // the leader before; zero for the first
	Leaderless time.Duration   // from the end of the previous leader's last lease or life to this one's win
	Since      time.Time       // wall clock (Config.Now) when this node learnt of the term; for display only
}

// Same reports whether t and o are the same term at the same beat.
func (t Term) Same(o Term) bool {
	return t.Number == o.Number && t.Beat == o.Beat && t.Leader == o.Leader
}

// ObservedFor returns how long this node has seen t unchanged: the time since
// last was first seen if t is still the same, else zero.
func (t Term) ObservedFor(last Term) time.Duration {
	if !t.Same(last) || last.Seen.IsZero() {
		return 0
	}
	return time.Since(last.Seen)
}

// String returns the term for logs: "term 7 of meta-2@1f00".
func (t Term) String() string {
	if t.Leader.IsZero() {
		return fmt.Sprintf("term %d, no leader", t.Number)
	}
	return fmt.Sprintf("term %d of %s", t.Number, t.Leader)
}

// Cause is why an election was held.
type Cause string

// The causes of elections.
const (
	CauseFirst    Cause = "first"    // no node had ever led
	CauseResigned Cause = "resigned" // the leader handed over
	CauseKilled   Cause = "killed"   // the leader's connection broke and its port does not answer
	CauseExpired  Cause = "expired"  // the lease ran out
	CauseRestored Cause = "restored" // the store was set back to before terms that were seen
)

// Candidate describes the node that plays a Round.
type Candidate struct {
	ID      conclave.NodeID
	Address string
	Lease   time.Duration
	Beat    time.Duration // between two renewals; half of it bounds a statement

	// Holding is the term that this node leads now, which the Round renews; 0 if
	// it leads none. If the store names this node although Holding is 0, that
	// leadership has ended: the answer to its win was lost, or it was left.
	Holding uint64

	// Highest is the highest term that this node has seen anywhere. A win must
	// be above it, so that terms rise even when the store was set back.
	Highest uint64

	// Observer means that the Round only reads. If the store names an observer
	// as the leader, the Round gives that term up.
	Observer bool
}
