package journal

import (
	"time"

	"conclave/testbed"
	"conclave/testbed/check"
)

// Header says what was played.
type Header struct {
	Name      string // of the scenario
	Text      string // of the scenario: it can be played again
	Cluster   testbed.Size
	HasEvents bool      // whether the nodes' events were recorded
	Began     time.Time // the clock when the scenario began
}

// Record is one thing that was recorded. Exactly one of the pointers is set.
type Record struct {
	At      time.Duration // since the scenario began; negative before that
	Entry   *check.Entry  // of the history; its time is At
	Message *Message
	State   *testbed.Snapshot // recorded when it has changed
}

// Message is one message from a host to another. It is recorded at the time when
// it was sent, together with its fate.
type Message struct {
	From, To string // hosts
	Conn     int    // the connection, numbered from 1 in the order of their first messages
	Stream   uint32 // the call on it, of HTTP/2
	What     string // the procedure or the kind of statement, and what the message has
	Kind     MessageKind
	Bytes    int
	Fate     Fate
	Took     time.Duration // until it arrived or was found lost; 0 if it is Pending
}

// MessageKind says which part of a conversation a message is.
type MessageKind int

// The kinds.
const (
	Request   MessageKind = iota // a call, a statement, or a message of the stream that a client opened
	Answer                       // of either
	Transport                    // of the transport itself: settings, windows, pings, the end of a connection
)

// Fate is what became of a message.
type Fate int

// The fates.
const (
	Pending Fate = iota // it was on its way when the run ended
	Arrived             // the other host's kernel has it; a suspended process may read it much later
	Lost                // its connection broke before it arrived, or because of it
)

// Result is how the run ended.
type Result struct {
	Failures []string      // expectations that were not met, and actions that failed
	FailedAt time.Duration // when the first of them did
	Verdicts []check.Verdict
}
