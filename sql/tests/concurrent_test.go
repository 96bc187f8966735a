package sql_test

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// The error numbers for deadlocks and for waits that took too long.
const (
	errDeadlock = 1213
	errLockWait = 1205
)

// number returns the server's number of an error, or 0 if it is not an error of
// the server.
func number(err error) uint16 {
	var refused *mysql.MySQLError
	if errors.As(err, &refused) {
		return refused.Number
	}
	return 0
}

// transaction begins a transaction of another client, which can hold rows
// without a limit.
func transaction(t *testing.T, dsn string) *stdsql.Tx {
	t.Helper()
	db, err := stdsql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	tx, err := db.Begin()
	require.NoError(t, err)
	t.Cleanup(func() { tx.Rollback() })
	return tx
}

// mustExec runs a statement in another client's transaction.
func mustExec(t *testing.T, tx *stdsql.Tx, statement string, args ...any) {
	t.Helper()
	_, err := tx.Exec(statement, args...)
	require.NoError(t, err, statement)
}

// waiting waits until a statement of the code under test waits for a row. (MySQL updates
// the table of transactions at most ten times a second: it can still list one of the
// test before, whose connection was to another database.)
func waiting(t *testing.T, db *conclavesql.DB, words string) {
	t.Helper()
	const query = "SELECT COUNT(*) FROM information_schema.innodb_trx t JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id " +
		"WHERE p.db = DATABASE() AND t.trx_state = 'LOCK WAIT' AND t.trx_query LIKE ?"
	require.Eventually(t, func() bool {
		var n int
		err := db.QueryRow(t.Context(), query, []any{"%" + words + "%"}, &n)
		return err == nil && n == 1
	}, 10*time.Second, 150*time.Millisecond, "a statement with %s waits for a row", words)
}

// All statements of a cluster, at once and in any order: none is ever the
// victim of a deadlock, because each locks its rows in the same order. (The embedded
// server plays in virtual time: it executes one statement at a time, and on a slow
// machine some of them would wait as long as a statement may.)
func TestStatements_DoNotDeadlockEachOther(t *testing.T) {
	onEach(t, func(t *testing.T, open func(t *testing.T) *conclavesql.DB) {
		db, lock := migratedOn(t, open(t))
		fence := elect(t, db, lock, "a@1", 1)
		store := conclavesql.NewStateStore(db, lock)
		history := conclavesql.NewHistory(db, lock)
		var said atomic.Int64
		var group sync.WaitGroup
		loop := func(name string, act func(i int) error) {
			group.Go(func() {
				for i := range 60 {
					if err := act(i); !assert.NoError(t, err, name) {
						return
					}
					said.Add(1)
				}
			})
		}
		for _, kind := range conclavesql.Kinds() {
			loop("write "+string(kind), func(i int) error {
				states, err := store.Read(t.Context())
				if err != nil {
					return err
				}
				_, err = store.Write(t.Context(), fence, states[kind], conclavesql.State{Body: "{}", Seq: states[kind].Seq + 1, Nonce: fmt.Sprint(kind, i)})
				return err
			})
		}
		loop("seal", func(i int) error {
			// A lower term makes the seal change all rows again and again.
			if _, err := db.Exec(t.Context(), "UPDATE cluster_state SET term = 0 WHERE data_center = ? AND lock_name = ? AND kind = 'freeze'", lock.DataCenter, lock.Name); err != nil {
				return err
			}
			_, err := store.Seal(t.Context(), fence, uint64(1000+i), fmt.Sprint("seal", i))
			return err
		})
		loop("renew", func(int) error {
			_, err := db.Exec(t.Context(), "UPDATE distribute_lock SET term_duration = term_duration + 1, gmt_modified = NOW(3) WHERE data_center = ? AND lock_name = ? AND owner = ? AND term = ?",
				lock.DataCenter, lock.Name, "a@1", 1)
			return err
		})
		loop("win", func(i int) error {
			_, err := db.Exec(t.Context(), conclavesql.LockWinOverdue, "b@1", "address", 1, 3000, "n", nil, nil,
				lock.DataCenter, lock.Name, "a@1", 1, "not this one", nil, nil, "cv:none", i)
			return err
		})
		loop("record", func(int) error {
			_, err := history.Record(t.Context(), conclavesql.Election{Term: 1, Owner: "a@1", Cause: "first"})
			return err
		})
		group.Wait()
		assert.Equal(t, int64((len(conclavesql.Kinds())+4)*60), said.Load())
	})
}

// Candidates compete with what they have read, again and again, without a
// pause: each term is won once, by one candidate, and none is the victim of a
// deadlock. (MariaDB would look the row up by its owner and lock that index
// before the row; the winner changes the index after the row. Therefore the
// statements name the index.)
func TestSwap_CompetingHaveOneWinnerEach(t *testing.T) {
	onEach(t, func(t *testing.T, open func(t *testing.T) *conclavesql.DB) {
		_, lock := migratedOn(t, open(t))
		const candidates, tries = 6, 60
		var mu sync.Mutex // guards won
		won := map[uint64]string{}
		var group sync.WaitGroup
		for c := range candidates {
			group.Go(func() {
				db := open(t)
				me := fmt.Sprintf("n%d@1", c)
				for range tries {
					var owner string
					var term uint64
					if !assert.NoError(t, db.QueryRow(t.Context(), conclavesql.StateOwner, []any{lock.DataCenter, lock.Name}, &owner, &term)) {
						return
					}
					n, err := db.Exec(t.Context(), conclavesql.LockWinOwn, me, "", term, 3000, "", nil, nil,
						lock.DataCenter, lock.Name, owner, term, "", nil, nil, "cv:none")
					if !assert.NoError(t, err) {
						return
					}
					if n == 0 {
						continue
					}
					mu.Lock()
					assert.Empty(t, won[term+1], "term %d was won twice", term+1)
					won[term+1] = me
					mu.Unlock()
				}
			})
		}
		group.Wait()
		var term int
		require.NoError(t, open(t).QueryRow(t.Context(), "SELECT term FROM distribute_lock", nil, &term))
		assert.Len(t, won, term, "each term has a winner that knows it")
		t.Logf("%d of %d swaps won", term, candidates*tries)
	})
}

// Two writers lock the lock's row and a decision's in different order.
// Conclave's statements lock the lock's row first, so another writer with the
// same order only waits. One with the other order causes a deadlock: the
// statement under test is the victim and has changed nothing.
func TestWrite_DeadlockVictimChangesNothing(t *testing.T) {
	const lockRow = "UPDATE distribute_lock SET address = 'theirs' WHERE data_center = ? AND lock_name = ?"
	const stateRow = "UPDATE cluster_state SET gmt_modified = '2020-01-01' WHERE data_center = ? AND lock_name = ? AND kind = 'table'"
	for _, c := range []struct {
		name          string
		first, second string
		want          uint16 // of ours
	}{
		{"the same order", lockRow, stateRow, 0},
		{"the other order", stateRow, lockRow, errDeadlock},
	} {
		t.Run(c.name, func(t *testing.T) {
			mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
				db, lock := migrated(t, s.DSN)
				// A waiting statement becomes visible some tenths of a second
				// later, and must still wait then.
				store := conclavesql.NewStateStore(openWith(t, s.DSN, conclavesql.Options{Deadline: 10 * time.Second, LockWait: 3 * time.Second}), lock)
				fence := elect(t, db, lock, "a@1", 1)
				old := read(t, db, lock, conclavesql.KindTable)
				next := conclavesql.State{Body: "mine", Seq: 1, Nonce: "mine"}

				theirs := transaction(t, s.DSN)
				for i := range 100 { // so much work that the server chooses the other as the victim
					mustExec(t, theirs, "INSERT INTO election_history (data_center, lock_name, term, owner, cause) VALUES ('x', 'x', ?, 'x', 'x')", i)
				}
				mustExec(t, theirs, c.first, lock.DataCenter, lock.Name)
				var outcome conclavesql.Outcome
				ended := make(chan error, 1)
				go func() {
					var err error
					outcome, err = store.Write(context.Background(), fence, old, next)
					ended <- err
				}()
				waiting(t, db, "SET s.body")
				mustExec(t, theirs, c.second, lock.DataCenter, lock.Name)
				require.NoError(t, theirs.Commit())
				err := <-ended
				require.Equal(t, c.want, number(err), "%v", err)
				settled, stands, err := store.Settle(t.Context(), fence, old, next)
				require.NoError(t, err)
				if c.want == 0 {
					assert.Equal(t, conclavesql.Written, outcome)
					assert.Equal(t, conclavesql.Written, settled)
					return
				}
				assert.Equal(t, conclavesql.Unknown, outcome)
				assert.Equal(t, conclavesql.Unwritten, settled)
				assert.Empty(t, stands.Body)
				outcome, err = store.Write(t.Context(), fence, old, next)
				require.NoError(t, err)
				assert.Equal(t, conclavesql.Written, outcome, "repeated from the same state, it is applied")
			})
		})
	}
}

// Another client holds the lock's row in an open transaction. A real server
// ends the wait after LockWait, and nothing has changed; the embedded one ends
// that transaction.
func TestStatement_WaitForRowIsBounded(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		_, lock := migrated(t, s.DSN)
		db := openWith(t, s.DSN, conclavesql.Options{Deadline: 10 * time.Second, LockWait: time.Second})
		fence := elect(t, db, lock, "a@1", 1)
		store := conclavesql.NewStateStore(db, lock)
		old := read(t, db, lock, conclavesql.KindTable)
		next := conclavesql.State{Body: "{}", Seq: 1, Nonce: "n"}
		theirs := transaction(t, s.DSN)
		mustExec(t, theirs, "UPDATE distribute_lock SET address = 'theirs' WHERE data_center = ? AND lock_name = ?", lock.DataCenter, lock.Name)

		began := time.Now()
		renewed, err := db.Exec(t.Context(), conclavesql.LockRenew, lock.DataCenter, lock.Name, "a@1", 1, 0)
		took := time.Since(began)
		assert.Less(t, took, 10*time.Second, "the server's default is 50 s")
		if s.Kind == mysqltest.Embedded {
			require.NoError(t, err)
			assert.EqualValues(t, 1, renewed)
			assert.Error(t, theirs.Commit(), "theirs was ended")
			_, err := plain(t, s, "").ExecContext(t.Context(), "SET SESSION innodb_lock_wait_timeout = 1")
			assert.NotZero(t, number(err), "it refuses the setting")
			return
		}
		assert.Equal(t, "50", ask(t, plain(t, s, ""), "SELECT @@GLOBAL.innodb_lock_wait_timeout"))
		assert.EqualValues(t, errLockWait, number(err))
		assert.GreaterOrEqual(t, took, time.Second/2)
		outcome, err := store.Write(t.Context(), fence, old, next)
		assert.EqualValues(t, errLockWait, number(err), "a write under the lock's row waits for it, too")
		assert.Equal(t, conclavesql.Unknown, outcome)
		require.NoError(t, theirs.Rollback())
		var beat int
		require.NoError(t, db.QueryRow(t.Context(), "SELECT term_duration FROM distribute_lock", nil, &beat))
		assert.Zero(t, beat, "nothing is applied afterwards")
		outcome, _, err = store.Settle(t.Context(), fence, old, next)
		require.NoError(t, err)
		assert.Equal(t, conclavesql.Unwritten, outcome)
	})
}

// A statement sees the newest row, whatever its transaction has read before: a
// compare-and-swap from an old read matches nothing. (The embedded server has
// one reader at a time: see internal/devdb's tests.)
func TestSwap_FromOldSnapshotMatchesNothing(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		db, lock := migrated(t, s.DSN)
		elect(t, db, lock, "a@1", 1)
		theirs := transaction(t, s.DSN)
		var owner string
		const look = "SELECT owner FROM distribute_lock"
		require.NoError(t, theirs.QueryRow(look).Scan(&owner))
		elect(t, db, lock, "b@1", 2)
		result, err := theirs.Exec("UPDATE distribute_lock SET owner = 'c@1', term = term + 1 WHERE owner = 'a@1' AND term = 1")
		require.NoError(t, err)
		changed, err := result.RowsAffected()
		require.NoError(t, err)
		assert.Zero(t, changed)
		require.NoError(t, theirs.QueryRow(look).Scan(&owner))
		assert.Equal(t, "a@1", owner, "a plain read returns the old row; no decision depends on one")
		require.NoError(t, theirs.QueryRow(look+" FOR UPDATE").Scan(&owner))
		assert.Equal(t, "b@1", owner)
		require.NoError(t, theirs.Rollback())
	})
}

// Uncommitted changes are not read, and have no effect when they are rolled
// back.
func TestRead_IgnoresUncommittedChanges(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		db, lock := migrated(t, s.DSN)
		elect(t, db, lock, "a@1", 1)
		before := picture(t, db, lock)
		theirs := transaction(t, s.DSN)
		mustExec(t, theirs, "UPDATE distribute_lock SET owner = 'b@1', term = 2")
		assert.Equal(t, before, picture(t, db, lock))
		require.NoError(t, theirs.Rollback())
		assert.Equal(t, before, picture(t, db, lock))
	})
}
