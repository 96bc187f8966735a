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

// Kind names the fact that a claim reports. The comments below explain the
// fields that a claim of the kind has.
type Kind string

// Claims of the election, made by elector under its mutex, so that their order
// is the order in which they became true. They, and those of the statements
// below, are elector.Events of the same kinds, which meta.TraceElection claims.
const (
	Led      Kind = "led"      // this node leads Term from now on and trusts itself until Until
	Extended Kind = "extended" // the leader now trusts itself until Until
	Left     Kind = "left"     // the node does not lead Term any more, because of Err
	Promised Kind = "promised" // it has promised a peer never to lead a term up to Term
)

// Statements about the lock row, made by elector/termcas. Each has two claims:
// one before the statement is sent, with the Beat that it expects, and one when
// its outcome is known, with the number of rows that it reported as changed in
// Count. Between the two the content of the row is unknown. All are points.
const (
	Looking     Kind = "looking"     // reads the row
	Looked      Kind = "looked"      // Peer, Term and Beat are the row's
	Swapping    Kind = "swapping"    // wins from (Peer, Term, Beat) for Epoch.Term
	Swapped     Kind = "swapped"     // Count rows changed; Flag: the statement required Beat
	Renewing    Kind = "renewing"    // adds one beat to (Term, Beat)
	Renewed     Kind = "renewed"     //
	Reacquiring Kind = "reacquiring" // reacquires the witness: adds two beats to (Term, Beat or Beat + 1)
	Reacquired  Kind = "reacquired"  //
	Resigning   Kind = "resigning"   // clears the row of Term
	Resigned    Kind = "resigned"    //
)

// Claims of the meta leader, made by its arranger.
const (
	// Writing is the Point between "do I lead?" and the statement that changes
	// Subject's row from epoch Base to Epoch.
	Writing Kind = "writing"
	// Wrote is the Point after that statement: Key is the outcome, Flag: the
	// row holds what this node wrote.
	Wrote Kind = "wrote"
	// Publishing is the Point after the slot table of Epoch was written and
	// before it is published.
	Publishing Kind = "publishing"
	// Granted: the table that was written as Base gives Slot to Peer at Epoch;
	// Key is the phase, Version the base.
	Granted Kind = "granted"
	// Copied is made before the table of Base, which gives Slot of a dead leader
	// to another node, is written, once for that node and once for each other
	// live node of the old row: Peer has reported a copy of state Key, of leader
	// epoch Epoch, Count milliseconds behind. The first claim, with Flag, is
	// about the node that is given the slot.
	Copied Kind = "copied"
	// Listed: the blacklist that was written as Epoch names Key (sorted,
	// separated by commas).
	Listed Kind = "listed"
)

// What the database does with a meta's statement, reported in the name of that
// meta. Only the simulated database of the bubble makes these claims. A
// statement that was sent is executed even if its connection breaks meanwhile.
const (
	// Landing is a Point: a change of the leader's rows to Epoch has arrived.
	// Subject is "write" (of the row Key) or "seal".
	Landing Kind = "landing"
	// Landed: it has changed Count rows. For changes of the lock row, Subject
	// is "win" (of Term) or "resign". The claim is made before any other
	// effect.
	Landed Kind = "landed"
)

// Claims of every receiver, made by package wire under the mutex of the state
// that they are about.
const (
	Admitted Kind = "admitted" // a command of Term was admitted; Base.Term was the highest seen
	Refused  Kind = "refused"  // a command of Term was refused: it is below Base.Term
	Took     Kind = "took"     // this node has adopted the slot table of Epoch; the one before was of Base
)

// Admission returns the kind of the claim about a command: Admitted or Refused.
func Admission(admitted bool) Kind {
	if admitted {
		return Admitted
	}
	return Refused
}

// Claims of data nodes, made under the lock of the slot's replica, except for
// the points.
const (
	Migrating Kind = "migrating"  // the node was granted Slot at Epoch and answers no reads
	Finishing Kind = "finishing"  // a Point before it asks Peer to finish the hand-over
	Serving   Kind = "serving"    // it answers reads of Slot at Epoch from Version on, with a copy of epoch Base (zero: none); Count sessions have reported, Flag: the source's copy was taken, Key: Incomplete if the slot is marked so
	Finished  Kind = "finished"   // it does not serve Slot any more
	Read      Kind = "read"       // it answered a read of Subject at Version with Count values
	Storing   Kind = "storing"    // a Point: a write of Peer has arrived and has not been looked at
	Stored    Kind = "stored"     // it stored registration Subject at Version from session Peer; Flag: a tombstone
	Removed   Kind = "removed"    // it removed the registration because Peer asked for it; Count is the cause
	Merging   Kind = "merging"    // a Point between Peer's answer to a diff and its merge
	Merged    Kind = "merged"     // the merge is done: Count copies were added or removed; Key is the incarnation that answered
	OwnerGone Kind = "owner-gone" // it removed Count registrations of session Peer; Flag: Peer was neither listed nor connected
	Differed  Kind = "differed"   // the copy of Slot is not the one of its leader Peer at the same position of the feed
	Emptied   Kind = "emptied"    // before a graceful stop ends: all its slots are served elsewhere except Count that it still leads
)

// Claims of sessions, made under the lock of the registry, except for the points
// and Emptying.
const (
	Adopted   Kind = "adopted"   // the session now uses Epoch for Slot
	Answering Kind = "answering" // a Point before it computes a diff for Peer
	Answered  Kind = "answered"  // it sent its registrations of Slot to Peer, fenced by Epoch; Key is the incarnation that was asked
	Accepted  Kind = "accepted"  // it keeps registration Subject at Version; Flag: a tombstone; Key is the dataId
	Leasing   Kind = "leasing"   // a Point before a round in which it judges silence, as a data node and a leader of the metas do, where a suspended process is stopped
	Expiring  Kind = "expiring"  // a Point before it drops the registrations of Count connections whose lease has expired
	Dropped   Kind = "dropped"   // it dropped a registration because its client has gone
	Settled   Kind = "settled"   // a data node has acknowledged the registration at Epoch
	Counted   Kind = "counted"   // it accepted a read of Subject at Epoch: Version, Count values
	Pushed    Kind = "pushed"    // it pushed Subject at Version with Count values to subscription Key
	Held      Kind = "held"      // the push guard held such a push back
	Emptying  Kind = "emptying"  // for a graceful stop it leaves the list of members; Count clients are still connected
)

// Point reports whether claims of this kind are made without any lock, so that
// a Gate may hold the node there.
func (k Kind) Point() bool {
	switch k {
	case Looking, Looked, Swapping, Swapped, Renewing, Renewed, Reacquiring, Reacquired, Resigning, Resigned,
		Writing, Wrote, Publishing, Landing, Finishing, Storing, Merging, Answering, Leasing, Expiring:
		return true
	}
	return false
}

// Points returns the kinds at which a scenario may hold nodes: a subset of the
// kinds for which Point is true.
func Points() []Kind {
	return []Kind{Swapping, Swapped, Renewing, Renewed, Resigning, Resigned, Writing, Wrote, Publishing, Landing, Finishing, Storing, Merging, Answering, Expiring}
}

// Incomplete is the Key of a Serving whose slot is marked as incomplete: its
// leader may never have had some of its registrations (docs/adr/0047).
const Incomplete = "incomplete"
