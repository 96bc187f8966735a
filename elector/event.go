package elector

import (
	"time"

	"conclave"
)

// Event is a fact about the election that this node reports when it becomes
// true; see Config.Trace. The comment of each EventKind names the fields that
// have a meaning besides Kind.
type Event struct {
	Kind  EventKind
	Term  uint64
	Beat  uint64
	Until time.Time // the end of the leader's trust
	Err   error     // nil on success

	Owner    conclave.NodeID // of the store's record, as this node knows it
	Next     uint64          // the term that a win would begin
	Rows     int             // changed by the statement
	SameBeat bool            // the statement requires that the record still has Beat
}

// EventKind names what an Event reports.
type EventKind string

// The events of the Elector. They are reported with its lock held, so they
// arrive in the order in which they became true.
const (
	EventLed      EventKind = "led"      // this node leads Term from now on and trusts itself until Until
	EventExtended EventKind = "extended" // the leader of Term, which has not left it, trusts itself until Until; Beat
	EventLeft     EventKind = "left"     // the node does not lead Term any more, because of Err
	EventPromised EventKind = "promised" // it has promised a peer never to lead a term up to Term
)

// The events of a strategy's statements (termcas). Each statement has two: one
// before it is sent, with the record that it expects (Owner, Term, Beat), and one
// when its outcome is known, with Rows and Err. Between the two the content of
// the record is unknown. No lock is held.
const (
	EventLooking     EventKind = "looking"     // reads the record
	EventLooked      EventKind = "looked"      // Owner, Term and Beat are those of the record
	EventSwapping    EventKind = "swapping"    // competes for the term Next; SameBeat
	EventSwapped     EventKind = "swapped"     //
	EventRenewing    EventKind = "renewing"    // adds one beat
	EventRenewed     EventKind = "renewed"     //
	EventReacquiring EventKind = "reacquiring" // reacquires the witness, and adds two beats
	EventReacquired  EventKind = "reacquired"  //
	EventResigning   EventKind = "resigning"   // gives Term up
	EventResigned    EventKind = "resigned"    //
)
