package termcas

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"time"

	"conclave"
	"conclave/elector"
	conclavesql "conclave/sql"
)

// row is the lock row as read at one moment.
type row struct {
	owner, address, nonce string
	number, beat          uint64
	lease                 time.Duration
	lock                  stdsql.NullString // the leader's witness
	connID                stdsql.NullInt64  // the connection that holds it
	resigned              bool
	age                   time.Duration // since the last renewal, by the database's clock
	at                    time.Time     // before it was read, by this node's clock
	phase                 time.Duration // how far a beat of the Shared that has read it had passed; else 0
}

// read reads the row (queryDistLock in article 000), and keeps which node it names.
// It returns ErrNoRows if there is none.
func (s *Strategy) read(ctx context.Context) (row, error) {
	read := func(ctx context.Context) (row, error) { return s.cfg.read(ctx, conclavesql.LockLook, time.Microsecond) }
	if s.shared != nil {
		read = s.readTogether
	}
	r, err := read(ctx)
	if owner := r.leader(); err == nil && !owner.IsZero() {
		s.owner, s.ownerOf = owner, r.number
	}
	return r, err
}

// read reads the row by a statement that has its age in this unit, with its trace
// events.
func (c *Config) read(ctx context.Context, statement string, unit time.Duration) (row, error) {
	r := row{at: time.Now()}
	var leaseMs, age int64
	columns := r.columns(&leaseMs)
	if statement != conclavesql.LockLook {
		columns = columns[:5]
	}
	c.Trace(elector.Event{Kind: elector.EventLooking})
	err := c.DB.QueryRow(ctx, statement, []any{c.Lock.DataCenter, c.Lock.Name}, append(columns, &age)...)
	c.Trace(elector.Event{Kind: elector.EventLooked, Owner: r.leader(), Term: r.number, Beat: r.beat, Err: err})
	if err != nil {
		return row{}, fmt.Errorf("read lock %s: %w", c.Lock, err)
	}
	r.lease, r.age = time.Duration(leaseMs)*time.Millisecond, time.Duration(age)*unit
	return r, nil
}

// columns returns the places of the columns that are read; the age follows them.
func (r *row) columns(leaseMs *int64) []any {
	return []any{&r.owner, &r.address, &r.number, &r.beat, leaseMs, &r.nonce, &r.lock, &r.connID, &r.resigned}
}

// leader returns the owner that the row names; an invalid one counts as none.
func (r row) leader() conclave.NodeID {
	owner, _ := conclave.ParseNodeID(r.owner)
	return owner
}

// createRow creates the missing row again, as Migrate does: term 0, no owner. A
// node that has seen a higher term does not treat it as vacant at once: it observes
// the row for a whole lease first (see reasonToCompete), because the leader of that term
// may act until its next beat.
func (s *Strategy) createRow(ctx context.Context, me elector.Candidate) (row, error) {
	if me.Observer {
		return row{lease: me.Lease, at: time.Now()}, nil
	}
	s.log.Warn("the lock's row is missing, creating it", "lock", s.cfg.Lock.String(), "highest", me.Highest)
	if _, err := s.execOnPool(ctx, conclavesql.LockSeed, s.cfg.Lock.DataCenter, s.cfg.Lock.Name, me.Lease.Milliseconds()); err != nil {
		return row{}, fmt.Errorf("seed lock %s: %w", s.cfg.Lock, err)
	}
	return s.read(ctx)
}

// term returns the row as the Elector sees it (leaderFrom in article 000). If the
// row names the reader, the term has no Leader: a node knows what it leads from its
// own statements only.
func (r row) term(me elector.Candidate) elector.Term {
	t := elector.Term{Number: r.number, Beat: r.beat, Lease: r.lease, Age: r.age}
	if r.phase > 0 { // the next Round comes with those of the other elections
		t.Age = min(r.phase+me.Beat/20, me.Beat-1)
	}
	if owner := r.leader(); !owner.IsZero() && owner != me.ID {
		t.Leader, t.Address = owner, r.address
	}
	return t
}

// vacant reports whether no node leads the row's term.
func (r row) vacant() bool { return r.resigned || r.owner == "" }

// unchanged reports whether no node has won, resigned or renewed between two
// reads.
func (r row) unchanged(o row) bool {
	return r.owner == o.owner && r.number == o.number && r.beat == o.beat && r.nonce == o.nonce && r.resigned == o.resigned
}

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

// expects returns the trace event of an attempt to win: the row as read, and the
// term that a win would make of it.
func (r row) expects(me elector.Candidate, why reason) elector.Event {
	return elector.Event{
		Term: r.number, Beat: r.beat, Owner: r.leader(), SameBeat: why == reasonExpired || why == reasonOverdue,
		Next: max(r.number, me.Highest) + 1,
	}
}
