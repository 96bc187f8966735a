package sql_test

import (
	"context"
	stdsql "database/sql"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// connection returns a connection of another client.
func connection(t *testing.T, dsn string) *stdsql.Conn {
	t.Helper()
	db, err := stdsql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// diagnosed executes an UPDATE that cannot be executed, and returns what Diagnose
// finds after it.
func diagnosed(t *testing.T, db *conclavesql.DB, lock conclavesql.Lock) (conclavesql.Block, bool) {
	t.Helper()
	_, err := db.Exec(t.Context(), conclavesql.LockResign, lock.DataCenter, lock.Name, "", 0)
	require.Error(t, err)
	require.True(t, conclavesql.MayBeBlocked(err), err)
	return db.Diagnose(t.Context(), err)
}

func TestDiagnose_NamesWhatBlocks(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		_, lock := migrated(t, s.DSN)
		db := openWith(t, s.DSN, conclavesql.Options{Deadline: 500 * time.Millisecond})
		for _, c := range []struct {
			name        string
			take, leave string
			want        conclavesql.BlockKind
		}{
			{"a transaction", "SELECT 1 FROM distribute_lock FOR UPDATE", "ROLLBACK", conclavesql.BlockRow},
			{"LOCK TABLES", "LOCK TABLES distribute_lock READ", "UNLOCK TABLES", conclavesql.BlockTable},
			{"a backup", "FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES", conclavesql.BlockBackup},
		} {
			t.Run(c.name, func(t *testing.T) {
				other := connection(t, s.DSN)
				for _, statement := range []string{"SET autocommit = 0", c.take} {
					_, err := other.ExecContext(t.Context(), statement)
					require.NoError(t, err)
				}
				block, found := diagnosed(t, db, lock)
				assert.True(t, found)
				assert.Equal(t, c.want, block.By)
				if c.want == conclavesql.BlockRow {
					var id string
					require.NoError(t, other.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
					assert.Contains(t, block.String(), "connection "+id+" ")
				}
				shown, blocked := db.Blocked()
				assert.True(t, blocked)
				assert.Equal(t, block, shown)
				_, err := other.ExecContext(t.Context(), c.leave)
				require.NoError(t, err)
				// The statement that was given up may still be executed; then another.
				require.Eventually(t, func() bool {
					_, err := db.Exec(t.Context(), conclavesql.LockResign, lock.DataCenter, lock.Name, "", 0)
					return err == nil
				}, 20*time.Second, 10*time.Millisecond)
				assert.True(t, db.Unblocked())
				_, blocked = db.Blocked()
				assert.False(t, blocked)
			})
		}
	})
}

func TestDiagnose_FreeDatabaseIsNotBlocked(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		db, _ := migrated(t, dsn)
		_, found := db.Diagnose(t.Context(), context.DeadlineExceeded)
		assert.False(t, found)
	})
}

// Each statement that is given up leaves a connection in the server until its wait
// has ended; without a limit of that wait they would fill the server.
func TestBackup_AbandonedStatementsEndInTheServer(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		_, lock := migrated(t, s.DSN)
		db := openWith(t, s.DSN, conclavesql.Options{Deadline: 300 * time.Millisecond, LockWait: time.Second})
		other := connection(t, s.DSN)
		_, err := other.ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK")
		require.NoError(t, err)
		for range 4 {
			_, err := db.Exec(t.Context(), conclavesql.LockResign, lock.DataCenter, lock.Name, "", 0)
			require.Error(t, err)
		}
		config, err := mysql.ParseDSN(s.DSN)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			var waiting int
			err := other.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist WHERE db = ? AND state LIKE 'Waiting for%'", config.DBName).Scan(&waiting)
			return err == nil && waiting == 0
		}, 20*time.Second, 50*time.Millisecond, "the statements that were given up still wait")
	})
}
