package devdb_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/devdb"
	"conclave/internal/long"
)

const rivals = 16

// serveSlow runs a server with a LockWait long enough for sixteen clients on a
// slow disk or a busy machine.
func serveSlow(t *testing.T, file string) *devdb.Server {
	s, _ := serve(t, devdb.Config{File: file, LockWait: time.Minute})
	return s
}

// contend lets 16 connections swap the term of one row at the same time, round
// after round, and requires one winner in each. Without the gate, one of the
// first dozen rounds has several winners.
func contend(t *testing.T, s *devdb.Server, rounds int, swap func(*sql.Conn, string, int) (bool, error)) {
	db := open(t, s)
	run(t, db, "CREATE TABLE distribute_lock (lock_name varchar(64) PRIMARY KEY, owner varchar(64) NOT NULL, term bigint NOT NULL)")
	run(t, db, "INSERT INTO distribute_lock VALUES ('META', '', 0)")
	conns := make([]*sql.Conn, rivals)
	for i := range conns {
		conns[i], _ = connect(t, db)
	}
	won := make([][]bool, rivals) // by rival, then round; each goroutine writes only its own row
	failed := make([]error, rivals)
	barriers := make([]sync.WaitGroup, rounds)
	for i := range barriers {
		barriers[i].Add(rivals)
	}
	var all sync.WaitGroup
	for i := range conns {
		won[i] = make([]bool, rounds)
		all.Go(func() {
			for term := range rounds {
				barriers[term].Done()
				barriers[term].Wait() // a round begins when the one before has ended for all
				var err error
				if won[i][term], err = swap(conns[i], fmt.Sprint("node-", i), term); err != nil {
					failed[i] = err
				}
			}
		})
	}
	all.Wait()
	for i, err := range failed {
		require.NoError(t, err, "rival %d", i)
	}
	for term := range rounds {
		winners := 0
		for i := range won {
			if won[i][term] {
				winners++
			}
		}
		if winners != 1 {
			t.Fatalf("term %d has %d winners", term, winners)
		}
	}
	assert.Equal(t, rounds, one[int](t, db, "SELECT term FROM distribute_lock"))
}

const swapTerm = `UPDATE distribute_lock SET owner = ?, term = term + 1 WHERE lock_name = 'META' AND term = ?`

type executor interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}

func swapped(e executor, owner string, term int) (bool, error) {
	r, err := e.ExecContext(context.Background(), swapTerm, owner, term)
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n == 1, err
}

func TestSwap_HasOneWinner(t *testing.T) {
	contend(t, serveSlow(t, ""), long.Rounds(300, 5_000), func(c *sql.Conn, owner string, term int) (bool, error) { return swapped(c, owner, term) })
}

func TestSwapInTransactions_HasOneWinner(t *testing.T) {
	contend(t, serveSlow(t, ""), long.Rounds(100, 500), func(c *sql.Conn, owner string, term int) (bool, error) {
		tx, err := c.BeginTx(context.Background(), nil)
		if err != nil {
			return false, err
		}
		won, err := swapped(tx, owner, term)
		if err != nil {
			tx.Rollback()
			return false, err
		}
		return won, tx.Commit()
	})
}

func TestSwapWithFile_HasOneWinner(t *testing.T) {
	contend(t, serveSlow(t, filepath.Join(t.TempDir(), "db.sql")), long.Rounds(100, 500), func(c *sql.Conn, owner string, term int) (bool, error) { return swapped(c, owner, term) })
}

// The engine keeps a failed statement's view of the tables and would write it
// back over what others have committed since.
func TestFailedStatement_DoesNotRestoreOldRows(t *testing.T) {
	s, _ := serve(t, devdb.Config{})
	db := open(t, s)
	run(t, db, lockTable)
	run(t, db, lockRow)
	unlucky, _ := connect(t, db)
	other, _ := connect(t, db)

	_, err := unlucky.ExecContext(t.Context(), lockRow)
	require.EqualValues(t, 1062, number(err), "a duplicate key: %v", err)
	won, err := swapped(other, "other", 0)
	require.NoError(t, err)
	require.True(t, won)

	assert.Equal(t, 1, one[int](t, unlucky, "SELECT term FROM distribute_lock"), "it reads committed rows")
	won, err = swapped(unlucky, "unlucky", 0)
	require.NoError(t, err)
	assert.False(t, won, "it cannot win a term that has been won")
	assert.Equal(t, "other", one[string](t, db, "SELECT owner FROM distribute_lock"))
}

// A statement that fails is undone, and its transaction continues.
func TestFailedStatementInTransaction_IsUndone(t *testing.T) {
	s, _ := serve(t, devdb.Config{})
	db := open(t, s)
	counterTable(t, db)
	tx, err := db.Begin()
	require.NoError(t, err)
	run(t, tx, "UPDATE counter SET n = 5")
	_, err = tx.Exec("INSERT INTO counter VALUES (2, 2), (3, 3), (1, 1)")
	require.EqualValues(t, 1062, number(err), "%v", err)
	run(t, tx, "INSERT INTO counter VALUES (4, 4)")
	require.NoError(t, tx.Commit())
	assert.Equal(t, 2, one[int](t, db, "SELECT COUNT(*) FROM counter"))
	assert.Equal(t, 9, one[int](t, db, "SELECT SUM(n) FROM counter"))
}

// As in MySQL, a CREATE commits its transaction, and later statements are in
// autocommit.
func TestCreate_EndsTheTransaction(t *testing.T) {
	s, _ := serve(t, devdb.Config{})
	db := open(t, s)
	counterTable(t, db)
	c, _ := connect(t, db)
	run(t, c, "BEGIN")
	run(t, c, "UPDATE counter SET n = 1")
	run(t, c, "CREATE TABLE other (id int PRIMARY KEY)")
	assert.Equal(t, 1, one[int](t, db, "SELECT n FROM counter"))
	run(t, c, "UPDATE counter SET n = 2")
	assert.Equal(t, 2, one[int](t, db, "SELECT n FROM counter"))
}

func TestServers_InOneProcessAreSeparate(t *testing.T) {
	var all sync.WaitGroup
	for range 3 {
		s, _ := serve(t, devdb.Config{})
		db := open(t, s)
		all.Go(func() {
			_, err := db.Exec("CREATE TABLE counter (id int PRIMARY KEY, n int NOT NULL)")
			assert.NoError(t, err)
			for i := range 100 {
				_, err := db.Exec("INSERT INTO counter VALUES (?, 0)", i)
				assert.NoError(t, err)
			}
			var n int
			assert.NoError(t, db.QueryRow("SELECT COUNT(*) FROM counter").Scan(&n))
			assert.Equal(t, 100, n)
		})
	}
	all.Wait()
}
