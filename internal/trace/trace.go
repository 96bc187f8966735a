package trace

import (
	"time"

	"conclave"
)

// Sink takes claims. The zero Sink drops them, at the cost of one comparison.
// It is called by many goroutines, and may keep a caller waiting at a Kind that
// is a Point.
type Sink func(Claim)

// Claim hands one claim over, if anybody listens.
func (s Sink) Claim(c Claim) {
	if s != nil {
		s(c)
	}
}

// Of is the sink with the node's name written on each claim.
func (s Sink) Of(node conclave.NodeID) Sink {
	if s == nil {
		return nil
	}
	return func(c Claim) {
		c.Node = node
		s(c)
	}
}

// Claim is one thing that a node says about itself at the moment at which it
// becomes true. Which fields mean something depends on the Kind.
type Claim struct {
	Node conclave.NodeID // who claims; its incarnation is part of who
	Kind Kind

	Term  uint64          // of the leadership
	Beat  uint64          // within the term
	Epoch conclave.Epoch  // of a row, a table, or a slot's leadership
	Base  conclave.Epoch  // what Epoch replaces, or is compared with
	Slot  int             // of a slot's claims
	Peer  conclave.NodeID // the other one: who is led by, read from, pushed for

	Subject string // a dataId, a registration id, a kind of row, a lock's operation
	Key     string // a nonce, a subscription, a publisher's session
	Version int64  // of a datum or of a registration
	Count   int    // how many values, rows, slots
	Flag    bool   // see the Kind
	Err     error  `json:"-"` // why not; nil when it went well

	Until time.Time // of a leadership: trusted until then
}
