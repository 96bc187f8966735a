package wiretap

import (
	"slices"
	"strings"

	"conclave/testbed/console/journal"
)

// Message is what one write has of one conversation: a call, a stream, the
// statements of a connection to the database, or the transport itself.
type Message struct {
	Conn    int    // the connection, numbered from 1
	Stream  uint32 // the conversation on it
	Kind    journal.MessageKind
	Call    string   // the procedure or the statement
	Details []string // what it has, or how it ended
	Bytes   int
}

// Add joins another part of the same message to m.
func (m *Message) Add(part Message) {
	m.Bytes += part.Bytes
	for _, d := range part.Details {
		m.add(d)
	}
}

// SameConversation reports whether other is another part of m, if both were sent at
// one instant in one direction.
func (m *Message) SameConversation(other Message) bool {
	return m.Conn == other.Conn && m.Stream == other.Stream && m.Kind == other.Kind && m.Call == other.Call
}

// maxDetails is how many details What returns.
const maxDetails = 4

// What returns the message as a few words.
func (m *Message) What() string {
	if len(m.Details) == 0 {
		return m.Call
	}
	if len(m.Details) > maxDetails {
		return m.Call + ": " + strings.Join(m.Details[:maxDetails], ", ") + " ..."
	}
	return m.Call + ": " + strings.Join(m.Details, ", ")
}

// add adds what the message has, once.
func (m *Message) add(detail string) {
	if detail != "" && !slices.Contains(m.Details, detail) {
		m.Details = append(m.Details, detail)
	}
}
