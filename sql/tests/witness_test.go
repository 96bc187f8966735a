package sql_test

import (
	"context"
	stdsql "database/sql"
	"fmt"
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
			return exec(on, conclavesql.LockWinAll, rows, append(reason, owner, "address", 7, 3000, nonce, "cv:mine", by, "cv:mine", by, by)...)
		}
		renew := func(on conclavesql.Execer, rows [][]any) int64 {
			return exec(on, conclavesql.LockRenewAll, rows, "cv:mine", by, "cv:mine", by, by)
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

		if s.Kind == mysqltest.Embedded {
			return
		}
		theirs := transaction(t, s.DSN)
		mustExec(t, theirs, "UPDATE distribute_lock SET address = 'theirs' WHERE data_center = ? AND lock_name = 'b'", lock.DataCenter)
		began := time.Now()
		assert.EqualValues(t, 2, renew(on, rows("y@1", 9, 1)))
		assert.EqualValues(t, 2, win(on, rows("y@1", 9, "m", 2), "z@1", "l", 0, 0, 0, never, never, nil))
		assert.Less(t, time.Since(began), time.Second, "neither has waited for the lock")
		require.NoError(t, theirs.Rollback())
		assert.EqualValues(t, 1, renew(on, rows("y@1", 9, 1)))

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
		args = append(append(args, tuples...), "cv:theirs", nil, "cv:theirs", nil, nil)
		result, err := theirs.Exec(conclavesql.Repeat(conclavesql.LockRenewAll, 1000), args...)
		require.NoError(t, err)
		n, err := result.RowsAffected()
		require.NoError(t, err)
		assert.EqualValues(t, 1000, n)
		assert.EqualValues(t, 3, renew(on, [][]any{{"a", "z@1", 10, 0}, {"b", "y@1", 9, 2}, {"c", "z@1", 10, 0}}))
		require.NoError(t, theirs.Rollback())
	})
}
