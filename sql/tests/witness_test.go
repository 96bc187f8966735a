package sql_test

import (
	"context"
	stdsql "database/sql"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
