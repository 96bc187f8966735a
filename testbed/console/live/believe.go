package live

import (
	"fmt"
	"time"

	"conclave/internal/trace"
	"conclave/testbed/console"
)

// spansKept is how many intervals are shown.
const spansKept = 200

// beliefs are the intervals in which nodes trusted themselves to lead, from their
// own events. Only one goroutine uses them.
type beliefs struct {
	spans map[string]*console.Span
	order []string
}

func key(node string, term uint64) string { return fmt.Sprint(node, " ", term) }

// note takes an event of a node.
func (b *beliefs) note(at time.Time, c trace.Claim) {
	k := key(c.Node.Name, c.Term)
	switch s := b.spans[k]; {
	case c.Kind == trace.Led:
		b.begin(console.Span{Node: c.Node.Name, Term: c.Term, From: at.UnixMilli(), To: c.Until.UnixMilli(), Open: true})
	case s == nil || !s.Open:
	case c.Kind == trace.Extended:
		s.To = c.Until.UnixMilli()
	case c.Kind == trace.Left:
		s.To, s.Open = min(s.To, at.UnixMilli()), false
	}
}

// seen takes what was observed from outside, where no events are read.
func (b *beliefs) seen(at time.Time, node string, term uint64) {
	k := key(node, term)
	if b.spans[k] == nil {
		b.begin(console.Span{Node: node, Term: term, From: at.UnixMilli(), Open: true})
	}
	b.spans[k].To = at.Add(time.Second).UnixMilli()
}

func (b *beliefs) begin(s console.Span) {
	if b.spans == nil {
		b.spans = map[string]*console.Span{}
	}
	k := key(s.Node, s.Term)
	b.spans[k] = &s
	if b.order = append(b.order, k); len(b.order) > spansKept {
		delete(b.spans, b.order[0])
		b.order = b.order[1:]
	}
}

// ended ends what a killed node believed.
func (b *beliefs) ended(at time.Time, node string) {
	for _, s := range b.spans {
		if s.Node == node && s.Open {
			s.To, s.Open = min(s.To, at.UnixMilli()), false
		}
	}
}

// show returns the intervals until now.
func (b *beliefs) show(now time.Time) map[string]console.Span {
	out := map[string]console.Span{}
	for k, s := range b.spans {
		shown := *s
		if s.Open && s.To <= now.UnixMilli() {
			s.Open, shown.Open = false, false // its trust has ended
		} else if s.Open {
			shown.To = 0 // it is still running: so that the entry does not change all the time
		}
		out[k] = shown
	}
	return out
}
