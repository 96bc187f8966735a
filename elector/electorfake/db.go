package electorfake

import (
	"context"
	stdsql "database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"

	"conclave/elector/fence"
)

// Statement is what a program has given to fence.Exec.
type Statement struct {
	Query  string // with {fence}
	Args   []any  // as database/sql passes them to a driver: int64, float64, bool, []byte, string, time.Time or nil
	Term   uint64 // of its token; 0 if the statement is not fenced
	Fenced bool
}

// DB returns a pool for the program under test, of which no statement is executed: write
// is called with each, returns how many rows it would have changed, and keeps what it
// likes. A fenced statement of a term that does not last changes no row and does not
// reach write, so that fence.Exec returns fence.ErrTermEnded. While write runs no node
// wins, renews or resigns, as while a statement holds the lock row; so write may use the
// pool again, but must not call Elect, Resign or Kill, nor wait for an election. There
// are no transactions, prepared statements or queries. The test closes the pool.
func (e *Election) DB(write func(Statement) (changed int64, err error)) *stdsql.DB {
	return stdsql.OpenDB(connector{e, write})
}

// connector is the driver of DB. It is its own connection, since it has no state.
type connector struct {
	election *Election
	write    func(Statement) (int64, error)
}

var errNone = errors.New("electorfake: the pool has no transactions, prepared statements or queries")

func (c connector) Connect(context.Context) (driver.Conn, error) { return c, nil }
func (c connector) Driver() driver.Driver                        { return nil }
func (c connector) Prepare(string) (driver.Stmt, error)          { return nil, errNone }
func (c connector) Begin() (driver.Tx, error)                    { return nil, errNone }
func (c connector) Close() error                                 { return nil }

// ExecContext checks the token of a fenced statement and gives it to the test.
func (c connector) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	s := Statement{Query: query}
	for _, a := range args {
		s.Args = append(s.Args, a.Value)
	}
	table, own := fence.Token{}.Table()
	var owner string
	if before, after, fenced := strings.Cut(query, table); fenced {
		at := strings.Count(before, "?") // the token's arguments follow those of the text before it
		if len(s.Args) < at+len(own) {
			return nil, fmt.Errorf("electorfake: %d arguments, and a question mark inside a text before {fence}? In %q", len(s.Args), query)
		}
		token := s.Args[at : at+len(own)]
		term, _ := token[3].(int64)
		owner, _ = token[2].(string)
		s.Query, s.Term, s.Fenced = before+"{fence}"+after, uint64(term), true
		s.Args = append(s.Args[:at:at], s.Args[at+len(own):]...)
	}
	if holds, err := c.election.lockRow(owner, s); !holds {
		return driver.RowsAffected(0), err
	}
	if s.Fenced {
		defer c.election.unlockRow()
	}
	changed, err := c.write(s)
	return driver.RowsAffected(changed), err
}

// lockRow keeps the row from changing until unlockRow if the statement is fenced. It
// reports whether the statement is to be executed: not while the database is away, or if its
// token's term does not last. Any number of statements lock the row at a time, so writes that
// overlap without a pause keep the leader from renewing.
func (e *Election) lockRow(owner string, s Statement) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.away != nil || s.Fenced && !e.holds(owner, s.Term) {
		return false, e.away
	}
	if s.Fenced {
		e.locks++
	}
	return true, nil
}

func (e *Election) unlockRow() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.locks--
	e.unlocked.Broadcast()
}

// holds reports whether a token is valid; mu is held.
func (e *Election) holds(owner string, term uint64) bool {
	return e.row.Term == term && e.row.Owner.String() == owner
}

// QueryContext answers fence.Token.Check.
func (c connector) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if len(args) != 4 || !strings.Contains(query, "FROM distribute_lock") {
		return nil, errNone
	}
	owner, _ := args[2].Value.(string)
	term, _ := args[3].Value.(int64)
	e := c.election
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.away != nil {
		return nil, e.away
	}
	answer := &oneRow{}
	if e.holds(owner, uint64(term)) {
		answer.value = 1
	}
	return answer, nil
}

// oneRow is a result of one row and column.
type oneRow struct {
	value int64
	read  bool
}

func (r *oneRow) Columns() []string { return []string{"holds"} }
func (r *oneRow) Close() error      { return nil }

func (r *oneRow) Next(dest []driver.Value) error {
	if r.read {
		return io.EOF
	}
	r.read = true
	dest[0] = r.value
	return nil
}
