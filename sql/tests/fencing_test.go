package sql_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	conclavesql "conclave/sql"
)

// picture returns everything in the database about a lock, as text.
func picture(t *testing.T, db *conclavesql.DB, lock conclavesql.Lock) string {
	t.Helper()
	var text string
	for _, query := range []string{
		"SELECT CONCAT_WS('|', owner, address, term, term_duration, duration, nonce, IFNULL(witness_lock, '-'), IFNULL(witness_conn, '-'), resigned, UNIX_TIMESTAMP(gmt_modified)) AS line FROM distribute_lock WHERE data_center = ? AND lock_name = ?",
		"SELECT CONCAT_WS('|', kind, body, term, seq, nonce, UNIX_TIMESTAMP(gmt_modified)) AS line FROM cluster_state WHERE data_center = ? AND lock_name = ? ORDER BY kind",
		"SELECT CONCAT_WS('|', term, owner, previous, cause) AS line FROM election_history WHERE data_center = ? AND lock_name = ? ORDER BY term",
	} {
		require.NoError(t, db.Query(t.Context(), query, []any{lock.DataCenter, lock.Name}, func(scan func(...any) error) error {
			var line string
			err := scan(&line)
			text += line + "\n"
			return err
		}))
	}
	return text
}

// No statement of an ended term changes a row: neither the lock's, nor a
// decision's, nor the history's.
func TestStatements_OfOldTermChangeNoRow(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		db, lock := migrated(t, dsn)
		elect(t, db, lock, "old@1", 4)
		store := conclavesql.NewStateStore(db, lock)
		mine := conclavesql.Fence{Owner: "old@1", Term: 4}
		old := read(t, db, lock, conclavesql.KindTable)
		outcome, err := store.Write(t.Context(), mine, old, conclavesql.State{Body: "mine", Seq: 1, Nonce: "mine"})
		require.NoError(t, err)
		require.Equal(t, conclavesql.Written, outcome)
		present := read(t, db, lock, conclavesql.KindTable)

		n, err := db.Exec(t.Context(), conclavesql.LockWinOverdue, "new@1", "address", 4, 3000, "their nonce", "cv:their nonce", nil,
			lock.DataCenter, lock.Name, "old@1", 4, "", nil, nil, "cv:none", 0)
		require.NoError(t, err)
		require.Equal(t, int64(1), n, "another node wins term 5")
		before := picture(t, db, lock)

		key := []any{lock.DataCenter, lock.Name}
		win := func(reason ...any) []any {
			return slices.Concat([]any{"old@1", "address", 4, 3000, "my nonce", nil, nil}, key, []any{"old@1", 4, "", nil, nil, "cv:my nonce"}, reason)
		}
		with := func(set []any, where ...any) []any { return slices.Concat(set, key, where) }
		for name, statement := range map[string]struct {
			text string
			args []any
		}{
			"renew":       {conclavesql.LockRenew, with(nil, "old@1", 4, 0)},
			"reacquire":   {conclavesql.LockReacquire, with([]any{2, nil, nil}, "old@1", 4, nil, 0, 1, nil, nil, "cv:none")},
			"resign":      {conclavesql.LockResign, with(nil, "old@1", 4)},
			"win vacant":  {conclavesql.LockWinVacant, win()},
			"win own":     {conclavesql.LockWinOwn, win()},
			"win expired": {conclavesql.LockWinExpired, win(0)},
			"win overdue": {conclavesql.LockWinOverdue, win(0)},
			"win witness": {conclavesql.LockWinWitness, win("cv:old", "cv:old")},
			"renew all":   {conclavesql.LockRenewAll, with(nil, lock.Name, "old@1", 4, 0, "cv:mine", nil, "cv:mine", nil)},
			"win all": {conclavesql.LockWinAll, with(nil, lock.Name, "old@1", 4, "", 0, 0, 0, 0, "cv:old", "cv:old", nil,
				"old@1", "address", 4, 3000, "my nonce", "cv:mine", nil, "cv:mine", nil)},
			"write":       {conclavesql.StateWrite, with([]any{"stale", 4, 2, "n"}, "table", 4, 1, "old@1", 4)},
			"seal":        {conclavesql.StateSeal, with([]any{4, 2, "n"}, 4, "old@1", 4)},
			"record":      {conclavesql.HistoryRecord, with([]any{"", "first", 0}, "old@1", 4)},
			"seed a lock": {conclavesql.LockSeed, with(nil, 3000)},
			"seed state":  {conclavesql.StateSeed, with(nil, "table")},
		} {
			n, err := db.Exec(t.Context(), statement.text, statement.args...)
			require.NoError(t, err, name)
			assert.Zero(t, n, name)
			require.Equal(t, before, picture(t, db, lock), name)
		}
		outcome, err = store.Write(t.Context(), mine, present, conclavesql.State{Body: "stale", Seq: 2, Nonce: "stale"})
		require.NoError(t, err)
		assert.Equal(t, conclavesql.Deposed, outcome)
	})
}

// The statement itself computes the number of a new term, never from one that
// was read before.
func TestWin_TermRisesAboveRowAndHighestSeen(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		db, lock := migrated(t, dsn)
		for i, c := range []struct{ row, seen, want uint64 }{{4, 0, 5}, {4, 4, 5}, {4, 9, 10}} {
			elect(t, db, lock, fmt.Sprintf("n%d@1", i), c.row)
			_, err := db.Exec(t.Context(), "UPDATE distribute_lock SET nonce = ?", fmt.Sprint(i))
			require.NoError(t, err)
			n, err := db.Exec(t.Context(), conclavesql.LockWinOwn, fmt.Sprintf("n%d@1", i), "a", c.seen, 3000, "n", nil, nil,
				lock.DataCenter, lock.Name, fmt.Sprintf("n%d@1", i), c.row, fmt.Sprint(i), nil, nil, "cv:none")
			require.NoError(t, err)
			require.Equal(t, int64(1), n)
			var term uint64
			require.NoError(t, db.QueryRow(t.Context(), "SELECT term FROM distribute_lock", nil, &term))
			assert.Equal(t, c.want, term)
		}
	})
}
