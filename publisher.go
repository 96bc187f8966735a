package conclave

import "time"

// Publisher is one registration: one client process offering values under one
// DataInfoID. It lives, with its truth, at exactly one session; data nodes keep
// copies (article 002: sessions keep what clients publish, data is an index
// that can be rebuilt from them).
type Publisher struct {
	// ID is the registration id: random per client process, so that no order
	// between processes is ever needed.
	ID   string     `json:"id"`
	Data DataInfoID `json:"data"`
	// Version counts the changes of this registration within its process, from
	// 1. The higher version wins; equal versions mean equal content.
	Version int64 `json:"version"`
	// Values are what subscribers see, in the publisher's order.
	Values []string `json:"values,omitempty"`
	// Withdrawn marks a tombstone: a version like any other, whose content is
	// that there is none.
	Withdrawn bool `json:"withdrawn,omitempty"`
}

// Subscriber is one client's interest in one DataInfoID.
type Subscriber struct {
	ID   string     `json:"id"`
	Data DataInfoID `json:"data"`
}

// Datum is all that is visible under one DataInfoID: the values of every live
// publisher, sorted by registration id, under one version of its slot.
type Datum struct {
	Data DataInfoID `json:"data"`
	// Version is the slot's counter when the datum last changed; it stays below
	// 2^53, so that clients in JavaScript can hold it.
	Version int64    `json:"version"`
	Values  []string `json:"values"`
	// Unconfirmed is not zero if values may be missing: the subscription asked
	// not to wait for them (client.HoldAtMost), and for so long they are still
	// expected.
	Unconfirmed time.Duration `json:"-"`
}

const (
	// VersionBase is the distance between the version bases of two leader
	// epochs of a slot: a new leader's versions start above everything that an
	// older one may still have given out.
	VersionBase = 1 << 22
	// MaxVersion is the highest version that a datum may carry.
	MaxVersion = 1<<53 - 1
)
