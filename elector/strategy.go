package elector

import (
	"context"
	"time"
)

// A Strategy is one way for candidates to agree on a leader through a shared
// store. The Elector calls Round and Resign from one goroutine; the optional
// methods below may be called from others at the same time.
type Strategy interface {
	// Round plays once: renew if me.Holding, else compete if that is allowed, else
	// look. It returns what the store records now. last is what this node knew
	// before, from a Round or pushed by the leader; last.Seen tells for how long it
	// has not changed.
	//
	// A returned Term that names me is a claim: this very Round wrote it, and the
	// store acknowledged it (or a re-read proved it). Whatever else the store says
	// of me is not led and is not returned. Losing is a result: the winner's term.
	// An error means that the store's answer is not known.
	//
	// ctx ends when trust in the held term does; other limits are the Strategy's.
	Round(ctx context.Context, me Candidate, last Term) (Term, error)

	// Resign gives the held term up, so that anyone's next Round can win at once.
	// Having lost it already is no error.
	Resign(ctx context.Context, held Term) error
}

// Waker is a Strategy that knows when a Round is worth playing now, say because
// the leader's lock was freed.
type Waker interface {
	Wake() <-chan struct{} // buffered; never closed
}

// Suspender is a Strategy whose hold on the term can break before its lease ends,
// and be mended. While it is suspended the leader may not act, but it still leads:
// its next Round mends the hold or finds that somebody else has won.
type Suspender interface {
	Suspended() bool // a cheap check: it is made before every act
}

// Doubter is told that a peer asked whether we still lead, because it was given
// the lock that stands for us, and that we said yes: so our hold on it is broken.
type Doubter interface {
	Doubt(lock string)
}

// Recorder writes an election down, once its winner has decided to lead. It
// returns the term completed by what is known then, also with an error. After an
// error it is called again with later beats; what it measures it measures once, at
// the first call.
type Recorder interface {
	Record(ctx context.Context, won Term) (Term, error)
}

// Closer is a Strategy with connections or goroutines of its own. The Elector
// closes it when Run ends, without resigning: what a crash does.
type Closer interface {
	Close() error
}

// trust is until when a leader may act once a statement that was sent at the given
// instant is acknowledged.
func trust(sent time.Time, lease, margin time.Duration) time.Time {
	return sent.Add(lease - margin)
}
