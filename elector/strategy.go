package elector

import (
	"context"
	"time"
)

// A Strategy is one way for candidates to agree on a leader through a shared
// store. The Elector calls Round and Resign from one goroutine. The methods of
// the optional interfaces below may be called from other goroutines at the same
// time.
type Strategy interface {
	// Round renews the term if me.Holding is set; otherwise it competes if that
	// is allowed, or only reads. It returns what the store records now. last is
	// what this node knew before, from a Round or from a pushed beat; the time
	// since last.Seen is how long it has not changed.
	//
	// A returned Term whose Leader is me.ID is a win or a renewal: this very
	// Round wrote it, and the store acknowledged it or a second read proved it.
	// Any other record of this node in the store is not a leadership, and is
	// not returned as one. Losing returns the winner's term. An error means that
	// the outcome is unknown.
	//
	// ctx ends when trust in the held term does. All other time limits are the
	// Strategy's own.
	Round(ctx context.Context, me Candidate, last Term) (Term, error)

	// Resign gives up the held term, so that the next Round of any candidate can
	// win at once. If the term is lost already, that is not an error.
	Resign(ctx context.Context, held Term) error
}

// Waker is implemented by a Strategy that knows when a Round is worth playing
// early, for instance because the leader's lock was freed.
type Waker interface {
	Wake() <-chan struct{} // has capacity one; never closed
}

// Suspender is implemented by a Strategy whose hold on the term can break before
// the lease ends, and can be restored. While it is suspended the leader must not
// act, but it still leads: its next Round restores the hold or finds that another
// node has won.
type Suspender interface {
	Suspended() bool // must be cheap: it is called before every act
}

// Doubter is implemented by a Strategy with a lock that stands for the leader.
// Doubt reports that a peer acquired that lock and that this node confirmed to
// the peer that it leads; so its hold on the lock is broken.
type Doubter interface {
	Doubt(lock string)
}

// Queuer is implemented by a Strategy whose candidates wait in a queue that the
// leader's end wakes one after the other. WaitingFor returns the term whose end
// wakes this node, or 0.
type Queuer interface {
	WaitingFor() uint64
}

// Recorder is implemented by a Strategy that keeps a history of elections. Record
// writes one, once its winner has begun to lead, and returns the term completed by
// what is known then, even if it returns an error. After an error it is called
// again with later beats. It measures times only on the first call. Lead is called
// before it, unless the term does not name the previous leader yet.
type Recorder interface {
	Record(ctx context.Context, won Term) (Term, error)
}

// Closer is implemented by a Strategy with connections or goroutines of its own.
// The Elector closes it when Run ends. Close must not resign: to the other nodes
// it looks like a crash.
type Closer interface {
	Close() error
}

// trust returns the time until which a leader may act, once a statement that was
// sent at the given time is acknowledged.
func trust(sent time.Time, lease, margin time.Duration) time.Time {
	return sent.Add(lease - margin)
}
