package termcas

import (
	"context"

	"conclave"
	"conclave/elector"
	"conclave/internal/trace"
)

// traced emits the two trace events around a statement that changes the row: before
// it is sent, and when its outcome is known or has become unknowable. event holds
// what the row is expected to contain.
func (c *Config) traced(before, after trace.Kind, event trace.Claim, execute func() (int64, error)) (int64, error) {
	event.Kind = before
	c.Trace.Claim(event)
	n, err := execute()
	event.Kind, event.Count, event.Err = after, int(n), err
	c.Trace.Claim(event)
	return n, err
}

// look reads the row, with its trace events. It returns ErrNoRows if there is none.
func (s *Strategy) look(ctx context.Context) (row, error) {
	s.cfg.Trace.Claim(trace.Claim{Kind: trace.Looking})
	r, err := s.read(ctx)
	owner, _ := conclave.ParseNodeID(r.owner) // an invalid owner counts as none
	s.cfg.Trace.Claim(trace.Claim{Kind: trace.Looked, Peer: owner, Term: r.number, Beat: r.beat, Err: err})
	return r, err
}

// expects returns the trace event of an attempt to win: the row as read, and the
// term that a win would make of it.
func (r row) expects(me elector.Candidate, why reason) trace.Claim {
	owner, _ := conclave.ParseNodeID(r.owner)
	return trace.Claim{
		Term: r.number, Beat: r.beat, Peer: owner, Flag: why == reasonExpired || why == reasonOverdue,
		Epoch: conclave.Epoch{Term: max(r.number, me.Highest) + 1},
	}
}
