package termcas

import (
	"context"

	"conclave"
	"conclave/elector"
	"conclave/internal/trace"
)

// traced puts the two claims around a statement that changes the row: before it
// is sent, and when its outcome is known (or will never be). claim says what the
// row is expected to hold.
func (c *Config) traced(before, after trace.Kind, claim trace.Claim, say func() (int64, error)) (int64, error) {
	claim.Kind = before
	c.Trace.Claim(claim)
	n, err := say()
	claim.Kind, claim.Count, claim.Err = after, int(n), err
	c.Trace.Claim(claim)
	return n, err
}

// look reads the row; ErrNoRows when there is none.
func (s *Strategy) look(ctx context.Context) (row, error) {
	s.cfg.Trace.Claim(trace.Claim{Kind: trace.Looking})
	r, err := s.read(ctx)
	owner, _ := conclave.ParseNodeID(r.owner) // what cannot be read is nobody
	s.cfg.Trace.Claim(trace.Claim{Kind: trace.Looked, Peer: owner, Term: r.number, Beat: r.beat, Err: err})
	return r, err
}

// expects is the row as read, and what a win would make of it.
func (r row) expects(me elector.Candidate, g ground) trace.Claim {
	owner, _ := conclave.ParseNodeID(r.owner)
	return trace.Claim{
		Term: r.number, Beat: r.beat, Peer: owner, Flag: g == expired || g == overdue,
		Epoch: conclave.Epoch{Term: max(r.number, me.Highest) + 1},
	}
}
