package trace

// Kind says what is claimed.
type Kind string

// Claims of the election, by elector (under its mutex, so that their order is
// the order in which they became true).
const (
	Led      Kind = "led"      // this node leads Term from now on, and trusts itself Until
	Extended Kind = "extended" // and now Until
	Left     Kind = "left"     // and no longer, because of Err
	Promised Kind = "promised" // it told a peer that it leads no term up to Term
)

// Statements about the lock row, by elector/termcas. Each comes twice: before it
// is sent, and when its outcome is known; Beat is then what was expected before
// and Count what the statement says it changed. Between the two the row may be
// anything. All are Points.
const (
	Looking   Kind = "looking"   // reads the row
	Looked    Kind = "looked"    // Peer, Term and Beat are what it says
	Swapping  Kind = "swapping"  // wins from (Peer, Term, Beat) for Epoch.Term
	Swapped   Kind = "swapped"   // Count rows; Flag: Beat was asked for
	Renewing  Kind = "renewing"  // adds a beat to (Term, Beat)
	Renewed   Kind = "renewed"   //
	Reparking Kind = "reparking" // adds two beats to (Term, Beat or Beat + 1) with a new witness
	Reparked  Kind = "reparked"  //
	Resigning Kind = "resigning" // empties the row of Term
	Resigned  Kind = "resigned"  //
)

// Claims of the meta leader, by its arranger.
const (
	Writing    Kind = "writing"    // a Point between "do I lead?" and the statement: Subject's row, from Base to Epoch
	Wrote      Kind = "wrote"      // a Point after it: Key is the outcome, Flag says that the row is ours
	Publishing Kind = "publishing" // a Point between the row and everybody: the table of Epoch
	Granted    Kind = "granted"    // the table written as Base gives Slot at Epoch to Peer; Key is the phase, Version the base
	Copied     Kind = "copied"     // before the table of Base, which gives Slot to a node on the blacklist, is written: Peer lives, and reported its copy as Key, of leader epoch Epoch, Count ms behind. First, with Flag, the node that is given it
	Listed     Kind = "listed"     // the blacklist written as Epoch names Key (sorted, with commas)
)

// What the database says of a meta's statement, in its name: only in the bubble,
// where the database can. A statement that is under way lands whatever became of
// its connection meanwhile.
const (
	Landing Kind = "landing" // a Point: a change of the leader's rows (Subject: write, of the row Key, or seal) has arrived, to Epoch
	Landed  Kind = "landed"  // it has changed Count rows; Subject is win (of Term) or resign for the lock row's. Said before anything else is done
)

// Claims of every receiver, by package wire (under the mutex of what they speak of).
const (
	Admitted Kind = "admitted" // a command of Term; Base.Term was the highest seen
	Refused  Kind = "refused"  // a command of Term, below Base.Term
	Took     Kind = "took"     // this node goes by the table of Epoch; Base was before
)

// Admission is the claim about a command: admitted, or not.
func Admission(admitted bool) Kind {
	if admitted {
		return Admitted
	}
	return Refused
}

// Claims of data nodes (under the lock of the slot's replica, but for the Points).
const (
	Migrating Kind = "migrating"  // granted Slot at Epoch; answers no read
	Finishing Kind = "finishing"  // a Point before it asks Peer to finish
	Serving   Kind = "serving"    // answers reads of Slot at Epoch from Version on; Count sessions were heard, Flag: the source's copy was taken
	Finished  Kind = "finished"   // no longer
	Read      Kind = "read"       // answered a read of Subject at Version with Count values
	Storing   Kind = "storing"    // a Point: a write of Peer has arrived, and is not looked at yet
	Stored    Kind = "stored"     // took registration Subject at Version from session Peer; Flag: a tombstone
	Removed   Kind = "removed"    // took it away as Peer asked; Count is the cause
	Merging   Kind = "merging"    // a Point between Peer's answer to a diff and what is done with it
	Merged    Kind = "merged"     // it is done: Count copies came or went; Key is the incarnation that answered
	OwnerGone Kind = "owner-gone" // took Count registrations of session Peer away: Flag: it was neither listed nor connected
	Emptied   Kind = "emptied"    // a graceful stop has seen all its slots served elsewhere; Count are still led
)

// Claims of sessions (under the slot's fence, or the lock of what they speak of).
const (
	Adopted   Kind = "adopted"   // goes by Epoch in Slot
	Answering Kind = "answering" // a Point before it computes a diff for Peer
	Answered  Kind = "answered"  // gave its set of Slot to Peer, fenced by Epoch; Key is the incarnation that was asked
	Accepted  Kind = "accepted"  // keeps registration Subject at Version; Flag: a tombstone; Key is the dataId
	Leasing   Kind = "leasing"   // a Point before it looks at the leases of connections: a suspended process stops there
	Expiring  Kind = "expiring"  // a Point before it gives up what Count connections left whose lease is over
	Dropped   Kind = "dropped"   // gives it up: its client is gone
	Settled   Kind = "settled"   // data has it: counted at Epoch
	Counted   Kind = "counted"   // a read of Subject at Epoch was believed: Version, Count values
	Pushed    Kind = "pushed"    // subscription Key was given Subject at Version with Count values
	Held      Kind = "held"      // and this one was held back by the guard
	Emptying  Kind = "emptying"  // a graceful stop goes off the list; Count clients are still here
)

// Point says that a claim of this kind is made without any lock, so that a node
// may be held there.
func (k Kind) Point() bool {
	switch k {
	case Looking, Looked, Swapping, Swapped, Renewing, Renewed, Reparking, Reparked, Resigning, Resigned,
		Writing, Wrote, Publishing, Landing, Finishing, Storing, Merging, Answering, Leasing, Expiring:
		return true
	}
	return false
}

// Points lists where a story may hold nodes; Point allows a few more.
func Points() []Kind {
	return []Kind{Swapping, Swapped, Renewing, Renewed, Resigning, Resigned, Writing, Wrote, Publishing, Landing, Finishing, Storing, Merging, Answering, Expiring}
}
