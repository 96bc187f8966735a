package recorded

import (
	"strings"
	"time"

	"conclave/testbed/console/journal"
)

// stream is the stream of a node to a meta, on a connection.
type stream struct {
	conn int
	meta string
}

// followed says which metas hold the streams of nodes, as far as messages show it.
type followed struct {
	held    map[string]stream // by node, when the messages were sent
	changes []follow
}

// follow is which meta holds a node's stream from a time on; "": none does.
type follow struct {
	at         time.Duration
	node, meta string
}

// read takes a message. A meta that leads answers on a stream with beats; a refusal
// has no term. A stream ends by itself or with its connection: for the node when it
// ends it, or when it learns of it.
func (f *followed) read(r journal.Record) {
	m := r.Message
	call, what, _ := strings.Cut(m.What, ": ")
	arrived := m.Fate == journal.Arrived
	switch {
	case call == "Join" && strings.HasPrefix(what, "term") && m.Kind == journal.Answer:
		if now := (stream{m.Conn, m.From}); arrived && f.held[m.To] != now {
			f.held[m.To] = now
			f.changes = append(f.changes, follow{r.At + m.Took, m.To, m.From})
		}
	case call == "connection", call == "Join" && (what == "cancelled" || strings.HasPrefix(what, "ended")):
		if f.held[m.From] == (stream{m.Conn, m.To}) {
			f.end(m.From, r.At)
		} else if f.held[m.To] == (stream{m.Conn, m.From}) && arrived {
			f.end(m.To, r.At+m.Took)
		}
	}
}

// end notes that a node's stream ends at a time, if it has one.
func (f *followed) end(node string, at time.Duration) {
	if _, ok := f.held[node]; ok {
		delete(f.held, node)
		f.changes = append(f.changes, follow{at, node, ""})
	}
}

// metas returns which meta each node follows at a time.
func (f *followed) metas(at time.Duration) map[string]string {
	last := map[string]follow{}
	for _, c := range f.changes {
		if l, known := last[c.node]; c.at <= at && (!known || c.at >= l.at) {
			last[c.node] = c
		}
	}
	out := map[string]string{}
	for node, c := range last {
		out[node] = c.meta
	}
	return out
}
