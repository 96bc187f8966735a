package electorfake

import (
	"context"
	stdsql "database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"conclave/elector/fence"
)

// Statement is what a program has given to fence.Exec.
type Statement struct {
	Query  string // with {fence}
	Args   []any  // as database/sql passes them to a driver: int64, float64, bool, []byte, string, time.Time or nil
	Term   uint64 // of its token; 0 if the statement is not fenced
	Fenced bool
	Tx     uint64 // the number of its transaction, from 1; 0 outside of transactions
}

// DB returns a pool for the program under test, of which no statement is executed: write
// is called with each, returns how many rows it would have changed, and keeps what it
// likes. A fenced statement of a term that does not last changes no row and does not
// reach write, so that fence.Exec returns fence.ErrTermEnded. While write runs no node
// wins, renews or resigns, as while a statement holds the lock row; so write may use the
// pool again, but must not call Elect, Resign or Kill, nor wait for an election. There
// are no prepared statements or queries. The test closes the pool.
//
// The statements of a transaction reach write when they are executed, and then "COMMIT" or
// "ROLLBACK", of which it returns the error. fence.Tx locks the row for its COMMIT.
func (e *Election) DB(write func(Statement) (changed int64, err error)) *stdsql.DB {
	return stdsql.OpenDB(&connector{election: e, write: write})
}

// connector is the driver of DB.
type connector struct {
	election     *Election
	write        func(Statement) (int64, error)
	transactions atomic.Uint64
}

func (c *connector) Connect(context.Context) (driver.Conn, error) { return &conn{connector: c}, nil }
func (c *connector) Driver() driver.Driver                        { return nil }

// conn is a connection, which is its own transaction.
type conn struct {
	*connector
	tx     uint64 // the number of its transaction; 0 if there is none
	locked bool   // the transaction has locked the row
}

var errNone = errors.New("electorfake: the pool has no prepared statements or queries")

func (c *conn) Prepare(string) (driver.Stmt, error) { return nil, errNone }
func (c *conn) Begin() (driver.Tx, error)           { return c.BeginTx(context.Background(), driver.TxOptions{}) }
func (c *conn) Close() error                        { return nil }

// BeginTx accepts all options.
func (c *conn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	c.tx = c.transactions.Add(1)
	return c, nil
}

func (c *conn) Commit() error   { return c.end("COMMIT") }
func (c *conn) Rollback() error { return c.end("ROLLBACK") }

// end ends the transaction.
func (c *conn) end(how string) error {
	if c.locked {
		defer c.election.unlockRow()
	}
	_, err := c.write(Statement{Query: how, Tx: c.tx})
	c.tx, c.locked = 0, false
	return err
}

// ExecContext checks the token of a fenced statement and gives it to the test.
func (c *conn) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if strings.Contains(query, "@conclave_wait_timeout") || strings.HasSuffix(query, "SAVEPOINT conclave_tx") { // of fence.Tx
		return driver.RowsAffected(0), nil
	}
	s := Statement{Query: query, Tx: c.tx}
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

// QueryContext answers fence.Token.Check, and the end of fence.Tx.
func (c *conn) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
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
	holds, count := e.holds(owner, uint64(term)), int64(0)
	if holds {
		count = 1
	}
	if table, _ := (fence.Token{}).Table(); !strings.Contains(table, query) {
		return &oneRow{[]string{"holds"}, []driver.Value{count}}, nil
	}
	if holds && c.tx > 0 && !c.locked {
		c.locked = true
		e.locks++
	}
	return &oneRow{[]string{"owner", "term"}, []driver.Value{owner, term}[:2*count]}, nil // no row if it does not hold
}

// oneRow is a result of one row, or of none if it has no values.
type oneRow struct {
	columns []string
	values  []driver.Value
}

func (r *oneRow) Columns() []string { return r.columns }
func (r *oneRow) Close() error      { return nil }

func (r *oneRow) Next(dest []driver.Value) error {
	if len(r.values) == 0 {
		return io.EOF
	}
	copy(dest, r.values)
	r.values = nil
	return nil
}
