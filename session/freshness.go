package session

import (
	"sync"
	"time"
)

// freshness limits how long the registrations of a connection may be published
// after the client's last message. Those of a connection that is not fresh are
// held back.
//
//	              a message of the client arrives
//	                 +--------------+
//	                 v              |
//	(published) the connection is fresh
//	     |        ^
//	     |        | sent again, on a connection that is fresh
//	     v        |
//	(held back) data is sent nothing: neither the registration nor its removal
//	     |
//	     +---- a client lease after the end of the connection was noticed ----> removed
//
// The reason: a client that moves to another session may change and withdraw
// there what it registered here. The tombstone is kept for the session grace,
// and on data nodes for as long as it hides anything. A session that was
// suspended or cut off for longer finds that data has removed its copies (as
// those of a lost session) and the tombstones as well. If it published its copy
// again, the withdrawn registration would become visible again.
//
// The client's last message must therefore be younger than a tombstone can be
// old: two thirds of the grace; the last third allows for messages in flight.
// This is checked at the moment of publishing. The timers that end leases
// cannot do it: in a process that was suspended they fire late, in any order
// with the requests that waited meanwhile. For the same reason a message that
// arrives after the lease has expired does not count: it may have waited in the
// kernel's buffers.
//
// A registration is never removed sooner than its lease allows: the client may
// have found no other session, and be on its way back.
type freshness struct {
	mu    sync.Mutex // guards the rest
	last  time.Time  // when the last message of the client arrived
	until time.Time  // of a client that has left as it had announced: the end of its linger
}

// renew records a message of the client. It reports false, and records nothing,
// if the time since the message before it is longer than silence.
func (f *freshness) renew(now time.Time, silence time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.last.IsZero() && now.Sub(f.last) > silence {
		return false
	}
	f.last = now
	return true
}

// linger records that the client has sent its last message, the orderly end of
// its request: it uses no other session before until.
func (f *freshness) linger(until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until = until
}

// freshFor is how long a message keeps its connection fresh: two thirds of the
// grace.
func freshFor(grace time.Duration) time.Duration { return grace * 2 / 3 }

// valid reports whether the registrations of the connection may be published.
func (f *freshness) valid(now time.Time, grace time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return now.Sub(f.last) < freshFor(grace) || now.Before(f.until)
}

// mayPublish reports whether a registration may be sent to data; the lock is
// held. Tombstones always may, also those that are forgotten here (reg is nil):
// they restore nothing.
func (r *registry) mayPublish(reg *registration, now time.Time) bool {
	return reg == nil || reg.pub.Withdrawn || reg.owner.fresh.valid(now, r.grace)
}
