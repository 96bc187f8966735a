package conclave

import "time"

// Publisher is one registration: one client process that offers values under
// one DataInfoID. The session of the client is the source of truth for it; data
// nodes keep copies (article 002: sessions keep what clients publish, and the
// index in the data nodes can be rebuilt from them).
type Publisher struct {
	// ID is the registration id. It is random for each client process, so that
	// no order between processes is needed.
	ID   string     `json:"id"`
	Data DataInfoID `json:"data"`
	// Version counts the changes of this registration within its process, from
	// 1. The higher version wins; equal versions have equal content.
	Version int64 `json:"version"`
	// Values are what subscribers receive, in the publisher's order.
	Values []string `json:"values,omitempty"`
	// Withdrawn marks a tombstone: a version of the registration without
	// values, left by a withdrawal.
	Withdrawn bool `json:"withdrawn,omitempty"`
}

// Subscriber is one client's interest in one DataInfoID.
type Subscriber struct {
	ID   string     `json:"id"`
	Data DataInfoID `json:"data"`
}

// Datum is what is visible under one DataInfoID: the values of every live
// publisher, sorted by registration id, under one version of its slot.
type Datum struct {
	Data DataInfoID `json:"data"`
	// Version is the slot's counter when the datum last changed. It stays below
	// 2^53, so that clients in JavaScript can represent it.
	Version int64    `json:"version"`
	Values  []string `json:"values"`
	// Unconfirmed is the time for which values may be missing that are expected
	// to come back; 0: none are. The session waits for them before it pushes a
	// first list that is empty, for as long as the subscription allows
	// (client.HoldAtMost), or one that lacks much of what a subscriber has. Any
	// other list is pushed at once.
	Unconfirmed time.Duration `json:"-"`
}

const (
	// VersionBase is the distance between the version bases of a slot's leader
	// epochs. A new leader's versions start above every version that an older
	// one may have issued.
	VersionBase = 1 << 22
	// MaxVersion is the highest version that a datum may carry.
	MaxVersion = 1<<53 - 1
)
