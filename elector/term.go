package elector

import (
	"fmt"
	"time"

	"conclave"
)

// Term is one leadership as the store records it. Terms are numbered, the numbers
// only rise, and each has at most one leader: that number, written into every
// effect and checked by whoever receives it, is what keeps an old leader harmless.
type Term struct {
	Number  uint64          // 0: nobody has ever led
	Leader  conclave.NodeID // zero: nobody leads; then Number is the last term that was
	Address string          // where the leader is reached
	Beat    uint64          // renewals within the term, from 0
	Lease   time.Duration   // the leader's own lease: observers judge by this one

	// Seen is when this node first saw this very (Number, Beat), on its monotonic
	// clock. A follower may compete once Seen is a whole lease ago.
	Seen time.Time

	// Age is how old the beat was when it was read, by the store's clock; 0 when the
	// store does not say. It only tunes when a follower that polls looks again, and
	// nothing is ever judged by it.
	Age time.Duration

	// What the winner knows of its election. Known on the leader only; elsewhere
	// read the history.
	Cause      Cause
	Previous   conclave.NodeID // who led before; zero for the first
	Leaderless time.Duration   // from the last leader's last valid moment to the first fenced write of this one
	Since      time.Time       // wall clock (Config.Now) when this node learnt of the term; only to be shown
}

// Same says that t and o are one term at one beat: nothing has happened between.
func (t Term) Same(o Term) bool {
	return t.Number == o.Number && t.Beat == o.Beat && t.Leader == o.Leader
}

// ObservedFor is how long this node has seen t without any change: how long ago
// last was first seen, if t is still the same, else zero.
func (t Term) ObservedFor(last Term) time.Duration {
	if !t.Same(last) || last.Seen.IsZero() {
		return 0
	}
	return time.Since(last.Seen)
}

// String is for logs: term 7 of meta-2@1f00.
func (t Term) String() string {
	if t.Leader.IsZero() {
		return fmt.Sprintf("term %d, no leader", t.Number)
	}
	return fmt.Sprintf("term %d of %s", t.Number, t.Leader)
}

// Cause says why there was an election.
type Cause string

// The causes of elections.
const (
	CauseFirst    Cause = "first"    // nobody had ever led
	CauseResigned Cause = "resigned" // the leader handed over
	CauseKilled   Cause = "killed"   // the leader's connection broke and its port answers nobody
	CauseExpired  Cause = "expired"  // the lease ran out
	CauseRestored Cause = "restored" // the store had gone back behind terms that were seen
)

// Candidate is what a Strategy is told about the node that plays.
type Candidate struct {
	ID      conclave.NodeID
	Address string
	Lease   time.Duration
	Beat    time.Duration // between two renewals; half of it bounds a statement

	// Holding is the term that this node leads now; 0 when it leads none. The
	// Round then renews it. A store that names this node without Holding shows a
	// leadership that is over: it was never heard of, or was left.
	Holding uint64

	// Highest is the highest term that this node has seen anywhere. A win must be
	// above it, so that terms rise even when the store was set back.
	Highest uint64

	// Observer: look only. An observer that finds itself in the store gives the
	// leadership back.
	Observer bool
}
