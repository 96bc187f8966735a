package termcas

import (
	"context"

	"conclave"
	"conclave/elector"
)

// traced emits the two trace events around a statement that changes the row: before
// it is sent, and when its outcome is known or has become unknowable. event holds
// what the row is expected to contain.
func (c *Config) traced(before, after elector.EventKind, event elector.Event, execute func() (int64, error)) (int64, error) {
	event.Kind = before
	c.Trace(event)
	n, err := execute()
	event.Kind, event.Rows, event.Err = after, int(n), err
	c.Trace(event)
	return n, err
}

// look reads the row, with its trace events. It returns ErrNoRows if there is none.
func (s *Strategy) look(ctx context.Context) (row, error) {
	s.cfg.Trace(elector.Event{Kind: elector.EventLooking})
	r, err := s.read(ctx)
	owner, _ := conclave.ParseNodeID(r.owner) // an invalid owner counts as none
	s.cfg.Trace(elector.Event{Kind: elector.EventLooked, Owner: owner, Term: r.number, Beat: r.beat, Err: err})
	return r, err
}

// expects returns the trace event of an attempt to win: the row as read, and the
// term that a win would make of it.
func (r row) expects(me elector.Candidate, why reason) elector.Event {
	owner, _ := conclave.ParseNodeID(r.owner)
	return elector.Event{
		Term: r.number, Beat: r.beat, Owner: owner, SameBeat: why == reasonExpired || why == reasonOverdue,
		Next: max(r.number, me.Highest) + 1,
	}
}
