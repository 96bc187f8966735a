package sql_test

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// The connection that holds the dead leader's lock wins by it, and no other
// does: not the same statement on another connection, as a proxy might send it,
// and not one that comes after the lock was lost.
func TestWinWitness_OnlyOnHoldersConnection(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		db, lock := migrated(t, dsn)
		elect(t, db, lock, "old@1", 4)
		n, err := db.Exec(t.Context(), conclavesql.LockWinOverdue, "dead@1", "address", 4, 3000, "nonce", "cv:dead", nil,
			lock.DataCenter, lock.Name, "old@1", 4, "", nil, nil, "cv:none", 0)
		require.NoError(t, err)
		require.Equal(t, int64(1), n, "a leader whose witness is cv:dead")
		witness, err := db.Pin(t.Context(), nil)
		require.NoError(t, err)
		defer witness.Close()
		present := picture(t, db, lock)
		type sender interface {
			Exec(ctx context.Context, statement string, args ...any) (int64, error)
		}
		win := func(on sender) int64 {
			n, err := on.Exec(t.Context(), conclavesql.LockWinWitness, "new@1", "address", 5, 3000, "mine", nil, nil,
				lock.DataCenter, lock.Name, "dead@1", 5, "nonce", nil, nil, "cv:mine", "cv:dead", "cv:dead")
			require.NoError(t, err)
			return n
		}
		assert.Zero(t, win(witness), "no connection holds it")

		var taken, by stdsql.NullInt64
		require.NoError(t, witness.QueryRow(t.Context(), conclavesql.LockTake, []any{"cv:dead", "cv:dead"}, &taken, &by))
		require.Equal(t, int64(1), taken.Int64)
		assert.Zero(t, win(db), "another connection holds it")
		assert.Equal(t, present, picture(t, db, lock))

		require.NoError(t, witness.QueryRow(t.Context(), conclavesql.LockRelease, []any{"cv:dead"}, &taken))
		assert.Zero(t, win(witness), "the lock was lost")
		assert.Equal(t, present, picture(t, db, lock))

		require.NoError(t, witness.QueryRow(t.Context(), conclavesql.LockTake, []any{"cv:dead", "cv:dead"}, &taken, &by))
		assert.Equal(t, int64(1), win(witness))
	})
}

// A row that another client has locked is left out by the statements for many locks, and
// does not delay them; the embedded server locks no rows. The reasons to win
// are predicates, and a witness is published with its connection only while that holds it.
func TestManyLocks_EachPredicate(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		_, lock := migrated(t, s.DSN)
		db := openWith(t, s.DSN, conclavesql.Options{Deadline: 10 * time.Second})
		names := []any{"a", "b", "c"}
		for _, name := range names {
			_, err := db.Exec(t.Context(), conclavesql.LockSeed, lock.DataCenter, name, 3000)
			require.NoError(t, err)
		}
		on, err := db.Pin(t.Context(), nil)
		require.NoError(t, err)
		defer on.Close()
		var taken, by stdsql.NullInt64
		require.NoError(t, on.QueryRow(t.Context(), conclavesql.LockTake, []any{"cv:mine", "cv:mine"}, &taken, &by))
		exec := func(on conclavesql.Execer, statement string, rows [][]any, common ...any) int64 {
			args := append([]any{lock.DataCenter}, names...)
			for _, row := range rows {
				args = append(args, row...)
			}
			n, err := on.Exec(t.Context(), conclavesql.Repeat(statement, len(rows)), append(args, common...)...)
			require.NoError(t, err)
			return n
		}
		rows := func(row ...any) (all [][]any) {
			for _, name := range names {
				all = append(all, append([]any{name}, row...))
			}
			return all
		}
		published := func() (conns int) {
			require.NoError(t, db.QueryRow(t.Context(), "SELECT COUNT(witness_conn) FROM distribute_lock WHERE witness_lock = 'cv:mine' AND witness_conn = ?", []any{by}, &conns))
			return conns
		}
		win := func(on conclavesql.Execer, rows [][]any, owner, nonce string, reason ...any) int64 {
			return exec(on, conclavesql.LockWinAll, rows, append(reason, owner, "address", 7, 3000, nonce, "cv:mine", by, "cv:mine", by)...)
		}
		renew := func(on conclavesql.Execer, rows [][]any) int64 {
			return exec(on, conclavesql.LockRenewAll, rows, "cv:mine", by, "cv:mine", by)
		}
		const never = "cv:none"
		vacant, expired := []any{1, 0, 0, never, never, nil}, []any{0, 1, 0, never, never, nil}
		assert.EqualValues(t, 3, win(on, rows("", 0, "", 0), "x@1", "n", vacant...))
		assert.Zero(t, win(on, rows("", 0, "", 0), "x@1", "n", vacant...), "the rows are not as read")
		assert.Zero(t, win(on, rows("x@1", 8, "n", 0), "y@1", "m", vacant...), "it has a leader")
		assert.Zero(t, win(on, rows("x@1", 8, "n", 0), "y@1", "m", expired...), "the lease lasts")
		assert.Equal(t, 3, published())
		assert.EqualValues(t, 3, renew(on, rows("x@1", 8, 0)), "terms rise above the highest seen")
		assert.Zero(t, renew(on, rows("x@1", 8, 0)), "the beat has risen")
		assert.Zero(t, win(on, rows("x@1", 8, "n", 0), "y@1", "m", 0, 0, 0, never, never, nil), "the beat has risen")

		killed := func(id any) []any { return []any{0, 0, 1, "cv:mine", "cv:mine", id} }
		assert.Zero(t, win(on, rows("x@1", 8, "n", 1), "y@1", "m", killed(by.Int64+1)...), "another connection has the leader's lock")
		assert.EqualValues(t, 3, win(on, rows("x@1", 8, "n", 1), "y@1", "m", killed(by)...))
		require.NoError(t, on.QueryRow(t.Context(), conclavesql.LockRelease, []any{"cv:mine"}, &taken))
		assert.EqualValues(t, 3, renew(on, rows("y@1", 9, 0)))
		assert.Zero(t, published(), "it does not hold the lock any more")
		require.NoError(t, on.QueryRow(t.Context(), conclavesql.LockTake, []any{"cv:mine", "cv:mine"}, &taken, &by))
		assert.EqualValues(t, 3, renew(on, rows("y@1", 9, 1)))
		assert.Equal(t, 3, published())
		assert.EqualValues(t, 3, renew(db, rows("y@1", 9, 2)))
		assert.Zero(t, published(), "a proxy has sent the renewal on another connection than the one with the lock")
		assert.EqualValues(t, 3, win(db, rows("y@1", 9, "m", 3), "y@1", "k", 0, 0, 0, never, never, nil))
		assert.Zero(t, published(), "the win, too")

		if s.Kind == mysqltest.Embedded {
			return
		}
		theirs := transaction(t, s.DSN)
		mustExec(t, theirs, "UPDATE distribute_lock SET address = 'theirs' WHERE data_center = ? AND lock_name = 'b'", lock.DataCenter)
		began := time.Now()
		assert.EqualValues(t, 2, renew(on, rows("y@1", 10, 0)))
		assert.EqualValues(t, 2, win(on, rows("y@1", 10, "k", 1), "z@1", "l", 0, 0, 0, never, never, nil))
		assert.Less(t, time.Since(began), time.Second, "neither has waited for the lock")
		require.NoError(t, theirs.Rollback())
		assert.EqualValues(t, 1, renew(on, rows("y@1", 10, 0)))

		// Of a thousand locks it locks the rows, and no other.
		args := []any{lock.DataCenter}
		var tuples []any
		for i := range 1000 {
			name := fmt.Sprint("many-", i)
			_, err := db.Exec(t.Context(), conclavesql.LockSeed, lock.DataCenter, name, 3000)
			require.NoError(t, err)
			args, tuples = append(args, name), append(tuples, name, "", 0, 0)
		}
		theirs = transaction(t, s.DSN)
		args = append(append(args, tuples...), "cv:theirs", nil, "cv:theirs", nil)
		result, err := theirs.Exec(conclavesql.Repeat(conclavesql.LockRenewAll, 1000), args...)
		require.NoError(t, err)
		n, err := result.RowsAffected()
		require.NoError(t, err)
		assert.EqualValues(t, 1000, n)
		assert.EqualValues(t, 3, renew(on, [][]any{{"a", "z@1", 11, 0}, {"b", "y@1", 10, 1}, {"c", "z@1", 11, 0}}))
		require.NoError(t, theirs.Rollback())
	})
}

// Each of many rows that two processes win at the same time has one winner, also where the
// rows were not locked when they were compared first, and have changed since.
func TestManyLocks_RacingWins(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		_, lock := migrated(t, s.DSN)
		db := openWith(t, s.DSN, conclavesql.Options{Deadline: 10 * time.Second})
		const locks = 20
		key := []any{lock.DataCenter}
		for i := range locks {
			key = append(key, fmt.Sprint("many-", i))
			_, err := db.Exec(t.Context(), conclavesql.LockSeed, lock.DataCenter, key[i+1], 3000)
			require.NoError(t, err)
		}
		read := func() (rows [][]any) {
			require.NoError(t, db.Query(t.Context(), "SELECT lock_name, owner, term, nonce, term_duration FROM distribute_lock WHERE lock_name LIKE 'many-%'", nil, func(scan func(...any) error) error {
				var name, owner, nonce string
				var term, beat uint64
				err := scan(&name, &owner, &term, &nonce, &beat)
				rows = append(rows, []any{name, owner, term, nonce, beat})
				return err
			}))
			return rows
		}
		win := func(on conclavesql.Execer, statement, owner string, rows [][]any) int64 {
			args := append(slices.Concat(key, slices.Concat(rows...)), 0, 0, 0, "cv:none", "cv:none", nil,
				owner, "address", 0, 3000, "nonce of "+owner, "cv:mine", nil, "cv:mine", nil)
			n, err := on.Exec(t.Context(), conclavesql.Repeat(statement, locks), args...)
			assert.NoError(t, err)
			return n
		}
		var candidates []*conclavesql.Pinned
		for range 2 {
			c, err := db.Pin(t.Context(), nil)
			require.NoError(t, err)
			defer c.Close()
			candidates = append(candidates, c)
		}
		for range 50 {
			rows := read()
			var won atomic.Int64
			var group sync.WaitGroup
			for i, c := range candidates {
				group.Go(func() { won.Add(win(c, conclavesql.LockWinAll, fmt.Sprint("n@", i), rows)) })
			}
			group.Wait()
			require.EqualValues(t, locks, won.Load())
		}

		// What is compared first is an old copy.
		_, err := db.Exec(t.Context(), "CREATE TABLE old LIKE distribute_lock")
		require.NoError(t, err)
		_, err = db.Exec(t.Context(), "INSERT INTO old SELECT * FROM distribute_lock")
		require.NoError(t, err)
		old := func(statement string) string {
			return strings.Replace(statement, "FROM distribute_lock", "FROM old", 1)
		}
		before := read()
		assert.EqualValues(t, locks, win(db, old(conclavesql.LockWinAll), "x@1", before))
		assert.Zero(t, win(db, old(conclavesql.LockWinAll), "y@1", before), "another has won")

		args := slices.Clone(key)
		for _, r := range before {
			args = append(args, r[0], r[1], r[2], r[4])
		}
		n, err := db.Exec(t.Context(), conclavesql.Repeat(old(conclavesql.LockRenewAll), locks), append(args, "cv:mine", nil, "cv:mine", nil)...)
		require.NoError(t, err)
		assert.Zero(t, n, "it is deposed")
	})
}
