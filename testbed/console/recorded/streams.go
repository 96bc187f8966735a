package recorded

import (
	"strings"
	"time"

	"conclave/testbed/console/journal"
)

// stream is which meta holds a node's stream from a time on; "": none does.
type stream struct {
	at         time.Duration
	node, meta string
}

// streams are the streams of nodes to metas that the messages before show, by
// node: the connection, and the meta at its other end.
type streams map[string]held

type held struct {
	conn int
	meta string
}

// read returns what a message changes. A meta that leads answers on a stream with
// beats; a refusal has no term. A stream ends by itself or with its connection:
// for the node when it ends it, or when it learns of it.
func (s streams) read(r journal.Record) []stream {
	m := r.Message
	call, what, _ := strings.Cut(m.What, ": ")
	arrived := m.Fate == journal.Arrived
	switch {
	case call == "Join" && strings.HasPrefix(what, "term") && m.Kind == journal.Answer:
		if now := (held{m.Conn, m.From}); arrived && s[m.To] != now {
			s[m.To] = now
			return []stream{{r.At + m.Took, m.To, m.From}}
		}
	case call == "connection", call == "Join" && (what == "cancelled" || strings.HasPrefix(what, "ended")):
		if s[m.From] == (held{m.Conn, m.To}) {
			return s.end(m.From, r.At)
		}
		if s[m.To] == (held{m.Conn, m.From}) && arrived {
			return s.end(m.To, r.At+m.Took)
		}
	}
	return nil
}

// end returns that a node's stream ends at a time, if it has one.
func (s streams) end(node string, at time.Duration) []stream {
	if _, ok := s[node]; !ok {
		return nil
	}
	delete(s, node)
	return []stream{{at, node, ""}}
}

// followed returns which meta each node follows at a time.
func (x *index) followed(at time.Duration) map[string]string {
	out := map[string]string{}
	for _, s := range x.streams {
		if s.at > at {
			break
		}
		out[s.node] = s.meta
	}
	return out
}
