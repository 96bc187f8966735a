package trace

import (
	"time"

	"conclave"
)

// Sink receives claims. A nil Sink drops them. A Sink may be called by several
// goroutines at once, and may block the caller if the claim's Kind is a Point.
type Sink func(Claim)

// Claim calls s with the claim unless s is nil.
func (s Sink) Claim(c Claim) {
	if s != nil {
		s(c)
	}
}

// Of returns a sink that sets each claim's Node and passes it to s; nil if s is
// nil.
func (s Sink) Of(node conclave.NodeID) Sink {
	if s == nil {
		return nil
	}
	return func(c Claim) {
		c.Node = node
		s(c)
	}
}

// Claim is one fact about a node that the node reports when it becomes true.
// Which fields have a meaning depends on the Kind.
type Claim struct {
	Node conclave.NodeID // the node that the claim is about
	Kind Kind

	Term  uint64         // of the leadership
	Beat  uint64         // within the term
	Epoch conclave.Epoch // of a row, a table, or a slot's leadership
	Base  conclave.Epoch // the epoch that Epoch replaces or is compared with
	Slot  int
	Peer  conclave.NodeID // the other node: the owner of a row, the sender of a request

	Subject string // a dataId, a registration id, a kind of row, a lock's operation
	Key     string // a nonce, a subscription, a publisher's session
	Version int64  // of a datum or of a registration
	Count   int    // of values, rows or slots
	Flag    bool   // see the Kind
	Err     error  `json:"-"` // nil on success

	Until time.Time // the end of a leader's trust
}
