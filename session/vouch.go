package session

import (
	"sync"
	"time"
)

// voucher says how long a connection vouches for what was registered by it: as
// long as its client was heard on it lately. What nobody vouches for is held back.
//
//	                 the client speaks
//	                 +--------------+
//	                 v              |
//	(offered) the connection vouches for it
//	     |        ^
//	     |        | shown again, by a connection on which its client speaks
//	     v        |
//	(held back) data is told nothing: neither that it is there, nor that it is not
//	     |
//	     +---- the end of the connection was noticed a client lease ago ----> gone
//
// Why: a client that leaves for another session may change and withdraw there what
// it has registered here. The tombstone is kept for the session grace, and on data
// nodes for as long as it hides anything. A session that stood still, or was cut
// off, for longer than that finds its own copy gone from data (as a lost
// session's) and the tombstone as well. Were it to offer the copy again, what was
// withdrawn would be seen again.
//
// So the word must be younger than the tombstone can be old: two thirds of the
// grace, the last third being for what is on its way. This is asked at the moment
// of the offer. The timers that end leases do not do: those of a process that
// stood still fire late, in any order with the requests that waited for it. For
// the same reason a word that comes when the lease is over already is none: it may
// have been in the kernel's buffers as long.
//
// Nothing is taken away sooner than the lease says: the client may have had nobody
// else to go to, and be on its way back.
type voucher struct {
	mu    sync.Mutex // guards the rest
	heard time.Time  // when the client was heard last
	until time.Time  // a client that has announced its end and left: its registrations stand until then
}

// hear notes a word of the client, unless nothing was heard for too long before.
func (v *voucher) hear(now time.Time, silence time.Duration) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.heard.IsZero() && now.Sub(v.heard) > silence {
		return false
	}
	v.heard = now
	return true
}

// stand notes that the client said its last word, which is the end of its request
// in order: it speaks nowhere else.
func (v *voucher) stand(until time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.until = until
}

// wordAge is for how long a word vouches: two thirds of the grace.
func wordAge(grace time.Duration) time.Duration { return grace * 2 / 3 }

// vouches says whether the last word is young enough.
func (v *voucher) vouches(now time.Time, grace time.Duration) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return now.Sub(v.heard) < wordAge(grace) || now.Before(v.until)
}

// offers says whether data may be told of a registration; the lock is held.
// Tombstones always, also those that are forgotten here: they bring nothing back.
func (r *registry) offers(reg *registration, now time.Time) bool {
	return reg == nil || reg.pub.Withdrawn || reg.owner.word.vouches(now, r.grace)
}
