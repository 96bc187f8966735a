package recorded

import (
	"strings"

	"conclave/internal/trace"
	"conclave/testbed/check"
	"conclave/testbed/console"
)

// left out are the events of which there are many for each registration, and those
// around each statement: the messages show them too.
var leftOut = map[trace.Kind]bool{
	trace.Looking: true, trace.Looked: true, trace.Renewing: true, trace.Renewed: true, trace.Extended: true, trace.Leasing: true,
	trace.Landing: true, trace.Landed: true, trace.Publishing: true, trace.Admitted: true, trace.Adopted: true, trace.Copied: true,
	trace.Read: true, trace.Storing: true, trace.Stored: true, trace.Removed: true, trace.Merging: true, trace.Answering: true,
	trace.Answered: true, trace.Accepted: true, trace.Settled: true, trace.Counted: true, trace.Pushed: true,
}

// names are the kinds of events that have a name of their own on the page.
var names = map[trace.Kind]string{
	trace.Led: "leader.elected", trace.Left: "leader.left", trace.Serving: "slot.serving", trace.Finished: "slot.finished",
	trace.Granted: "slot.granted", trace.Migrating: "slot.migrating",
}

// isEvent reports whether an entry, nil: none, is an event of the page.
func isEvent(e *check.Entry) bool {
	switch {
	case e == nil:
	case e.Event != nil:
		return !leftOut[e.Event.Kind]
	case e.Fault != nil:
		return true
	case e.Op != nil:
		switch e.Op.Kind {
		case check.OpHealed, check.OpUnheard, check.OpAhead, check.OpEvicted, check.OpProgress:
			return true
		}
	}
	return false
}

// eventOf returns an entry as an event of the page.
func eventOf(e *check.Entry) console.Event {
	out := console.Event{At: e.At.Milliseconds(), Text: e.String()}
	if _, after, ok := strings.Cut(out.Text, "s "); ok { // without the time, which has a column
		out.Text = after
	}
	switch c := e.Event; {
	case c != nil:
		out.Node, out.Kind, out.Term = c.Node.Name, string(c.Kind), max(c.Term, c.Epoch.Term)
		if name := names[c.Kind]; name != "" {
			out.Kind = name
			if strings.HasPrefix(name, "slot.") {
				out.Slot = &c.Slot
			}
		}
	case e.Fault != nil:
		out.Node, out.Kind = e.Fault.Node, "fault"
	default:
		out.Node, out.Kind = e.Op.Client, "client."+string(e.Op.Kind)
	}
	return out
}
