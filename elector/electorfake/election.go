package electorfake

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"conclave"
	"conclave/elector"
)

// ErrAway is what nodes get from a database that is away, if the test names no error.
var ErrAway = errors.New("electorfake: the database is away")

// Election is a lock in memory and the nodes that compete for it. Its methods may be
// called from any goroutine.
type Election struct {
	mu         sync.Mutex // guards the fields below
	row        row
	elected    time.Time // when Elect was called; zero unless its node leads and renews
	away       error     // nil while the database answers
	strategies []*Strategy
	locks      int       // statements of DB that lock the row
	unlocked   sync.Cond // locks has fallen
}

// row is the lock's row. It is replaced as a whole.
type row struct {
	Owner, Previous conclave.NodeID // Owner is zero if no node leads; Previous led before
	Address         string
	Term, Beat      uint64
	Lease           time.Duration
}

// New returns an election that no node has won yet.
func New() *Election {
	e := &Election{}
	e.unlocked.L = &e.mu
	return e
}

// Strategy returns the strategy of one more node, for elector.Config.
func (e *Election) Strategy() *Strategy {
	s := newStrategy(e)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.strategies = append(e.strategies, s)
	return s
}

// Elect makes another node, which the test only names, win the next term at once, as if
// this process had been paused for a whole lease. It renews the term until Resign or
// Kill. A leader in this process learns of it with its next beat; until then it believes
// that it leads, and what it writes is refused.
func (e *Election) Elect(name string) elector.Term {
	e.lock()
	defer e.mu.Unlock()
	e.row = row{
		Owner: conclave.NodeID{Name: name, Incarnation: "fake"}, Previous: cmp.Or(e.row.Owner, e.row.Previous),
		Address: name, Term: e.row.Term + 1, Lease: cmp.Or(e.row.Lease, 3*time.Second),
	}
	e.elected = time.Now()
	return e.row.term(conclave.NodeID{})
}

// Resign makes the node of Elect hand its term over: the nodes of this process compete
// at once. It changes nothing if another node leads.
func (e *Election) Resign() {
	e.lock()
	defer e.mu.Unlock()
	if !e.elected.IsZero() {
		e.row, e.elected = e.row.vacated(), time.Time{}
		e.wake()
	}
}

// Kill makes the node of Elect renew no more: the nodes of this process compete after
// its lease, which is that of the leader before it.
func (e *Election) Kill() {
	e.lock()
	defer e.mu.Unlock()
	e.row, e.elected = e.now(), time.Time{}
}

// Away makes every round, and every statement of DB, fail with err (ErrAway if it is
// nil) until back is called.
func (e *Election) Away(err error) (back func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.away = cmp.Or(err, ErrAway)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.away = nil
		e.wake()
	}
}

// Term returns the term that the lock records now. Its Leader is zero if no node leads.
func (e *Election) Term() elector.Term {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now().term(conclave.NodeID{})
}

// lock locks mu to change the row, once no statement of DB locks it.
func (e *Election) lock() {
	e.mu.Lock()
	for e.locks > 0 {
		e.unlocked.Wait()
	}
}

// wake makes the nodes of this process play a round, unless they lead; mu is held.
func (e *Election) wake() {
	for _, s := range e.strategies {
		s.wake.Set()
	}
}

// now returns the row, with the beats of the node of Elect; mu is held.
func (e *Election) now() row {
	r := e.row
	if !e.elected.IsZero() {
		r.Beat = uint64(time.Since(e.elected) / (r.Lease / 3))
	}
	return r
}

// look reads the row.
func (e *Election) look(context.Context) (row, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now(), e.away
}

// swap replaces the row if it is still old, and reports whether it has.
func (e *Election) swap(_ context.Context, old, next row) (bool, error) {
	e.lock()
	defer e.mu.Unlock()
	if e.away != nil || e.now() != old {
		return false, e.away
	}
	e.row, e.elected = next, time.Time{}
	if next.Owner.IsZero() {
		e.wake()
	}
	return true, nil
}

// term returns the row as a node sees it, which knows what it leads itself.
func (r row) term(self conclave.NodeID) elector.Term {
	t := elector.Term{Number: r.Term, Beat: r.Beat, Lease: r.Lease}
	if r.Owner != self {
		t.Leader, t.Address = r.Owner, r.Address
	}
	return t
}

// vacated returns the row after its owner has given it up.
func (r row) vacated() row {
	r.Owner, r.Previous, r.Address = conclave.NodeID{}, r.Owner, ""
	return r
}
