package sql_test

import (
	"bufio"
	"context"
	stdsql "database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/devdb"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// migratorEnv makes this test binary a process that migrates the database of
// the DSN in it.
const migratorEnv = "SQL_TEST_MIGRATOR"

// migrator prints that it is ready, waits for its standard input to end,
// migrates, and prints the result.
func migrator(dsn string) {
	db, err := conclavesql.Open(dsn, conclavesql.Options{})
	if err == nil {
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		err = db.Migrate(context.Background(), conclavesql.DefaultLock())
	}
	fmt.Println("migrated:", err)
}

func TestMigrate_ThreeProcessesAtOnce(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		var start []io.Closer
		var outputs []*bufio.Scanner
		for range 3 {
			p := exec.Command(os.Args[0])
			p.Env = append(os.Environ(), migratorEnv+"="+dsn)
			in, err := p.StdinPipe()
			require.NoError(t, err)
			out, err := p.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, p.Start())
			t.Cleanup(func() { in.Close(); p.Process.Kill(); p.Wait() })
			scan := bufio.NewScanner(out)
			require.True(t, scan.Scan())
			require.Equal(t, "ready", scan.Text())
			start, outputs = append(start, in), append(outputs, scan)
		}
		for _, in := range start { // all at once
			in.Close()
		}
		for _, scan := range outputs {
			require.True(t, scan.Scan())
			assert.Equal(t, "migrated: <nil>", scan.Text())
		}
		db := open(t, dsn)
		for table, want := range map[string]int{"distribute_lock": 1, "schema_version": 1, "cluster_state": len(conclavesql.Kinds()), "election_history": 0} {
			var rows int
			require.NoError(t, db.QueryRow(t.Context(), "SELECT COUNT(*) FROM "+table, nil, &rows))
			assert.Equal(t, want, rows, table)
		}
	})
}

func TestMigrate_SeedsTermWithoutLeader(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		db, lock := migrated(t, dsn)
		var owner string
		var term, resigned int
		require.NoError(t, db.QueryRow(t.Context(), "SELECT owner, term, resigned FROM distribute_lock WHERE data_center = ? AND lock_name = ?",
			[]any{lock.DataCenter, lock.Name}, &owner, &term, &resigned))
		assert.Empty(t, owner)
		assert.Zero(t, term)
		assert.Zero(t, resigned)
		states, err := conclavesql.NewStateStore(db, lock).Read(t.Context())
		require.NoError(t, err)
		for _, kind := range conclavesql.Kinds() {
			assert.Zero(t, states[kind].Term, kind)
			assert.Empty(t, states[kind].Body, kind)
			assert.False(t, states[kind].Modified.IsZero(), "%s has a row", kind)
		}
	})
}

func TestMigrate_AgainChangesNothing(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		db, lock := migrated(t, dsn)
		elect(t, db, lock, "a@1", 7)
		require.NoError(t, db.Migrate(t.Context(), lock))
		var term int
		require.NoError(t, db.QueryRow(t.Context(), "SELECT term FROM distribute_lock WHERE data_center = ? AND lock_name = ?",
			[]any{lock.DataCenter, lock.Name}, &term))
		assert.Equal(t, 7, term)
	})
}

func TestMigrate_RefusesNewerSchema(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		db, lock := migrated(t, dsn)
		_, err := db.Exec(t.Context(), "UPDATE schema_version SET version = 99 WHERE id = 1")
		require.NoError(t, err)
		defer db.Exec(t.Context(), "UPDATE schema_version SET version = ? WHERE id = 1", conclavesql.SchemaVersion())
		err = db.Migrate(t.Context(), lock)
		require.ErrorIs(t, err, conclavesql.ErrSchemaNewer)
		assert.ErrorContains(t, err, "99")
		assert.ErrorContains(t, err, fmt.Sprint("this program knows ", conclavesql.SchemaVersion()))
	})
}

func TestLock_RefusesNamesThatCannotBeStored(t *testing.T) {
	for _, lock := range []conclavesql.Lock{
		{},
		{DataCenter: "dc"},
		{DataCenter: strings.Repeat("x", 129), Name: "lock"},
		{DataCenter: "dc", Name: "Schloß"},
		{DataCenter: "dc", Name: "two\nlines"},
	} {
		assert.Error(t, lock.Validate())
	}
	assert.NoError(t, conclavesql.DefaultLock().Validate())
}

// older returns a statement as the programs up to schema version 3 had it. They
// set their sessions to +00:00, as Conclave does now.
func older(statement string) string { return strings.ReplaceAll(statement, "UTC_TIMESTAMP(", "NOW(") }

// version3 creates the schema of version 3, in a session as that program had
// it.
func version3(t *testing.T, s *mysqltest.Server, lock conclavesql.Lock) *stdsql.Conn {
	t.Helper()
	conn := plain(t, s, "&time_zone=%27%2B00:00%27")
	say := func(statement string, args ...any) {
		t.Helper()
		_, err := conn.ExecContext(t.Context(), statement, args...)
		require.NoError(t, err)
	}
	files, err := filepath.Glob("testdata/version3/*.sql")
	require.NoError(t, err)
	require.Len(t, files, 4)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var lines []string
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "--") {
				lines = append(lines, line)
			}
		}
		say(strings.Join(lines, ""))
	}
	say("INSERT INTO schema_version (id, version, gmt_modified) VALUES (1, 3, NOW(3))")
	say(older(conclavesql.LockSeed), lock.DataCenter, lock.Name, 3000)
	for _, kind := range conclavesql.Kinds() {
		say(older(conclavesql.StateSeed), lock.DataCenter, lock.Name, string(kind))
	}
	return conn
}

// columns returns all columns of the tables that Migrate creates, as text.
func columns(t *testing.T, db *conclavesql.DB) (list []string) {
	t.Helper()
	require.NoError(t, db.Query(t.Context(), `SELECT CONCAT_WS(' ', table_name, column_name, column_type, is_nullable, IFNULL(column_default, 'NULL')) AS line
		FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position`, nil,
		func(scan func(...any) error) error {
			list = append(list, "")
			return scan(&list[len(list)-1])
		}))
	return list
}

// Three programs of this version start at once while a cluster of version 3
// runs. Its leader continues to renew, instants do not change, and from then on
// both programs compute the same age of a lease.
func TestMigrate_OlderClusterContinues(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		lock := conclavesql.Lock{DataCenter: "test", Name: t.Name()}
		theirs := version3(t, s, lock)
		named := []any{lock.DataCenter, lock.Name}
		_, err := theirs.ExecContext(t.Context(), "UPDATE distribute_lock SET owner = 'a@1', term = 7, gmt_create = '2026-10-25 00:30:00.125', gmt_modified = NOW(3)")
		require.NoError(t, err)
		began := ask(t, theirs, "SELECT gmt_create FROM distribute_lock")

		stop, beats := make(chan struct{}), 0
		var leader, migrations sync.WaitGroup
		leader.Go(func() { // the older program
			for ; ; beats++ {
				select {
				case <-stop:
					return
				default:
				}
				result, err := theirs.ExecContext(context.Background(), older(conclavesql.LockRenew), lock.DataCenter, lock.Name, "a@1", 7, beats)
				if !assert.NoError(t, err) {
					return
				}
				n, err := result.RowsAffected()
				if !assert.NoError(t, err) || !assert.EqualValues(t, 1, n, "the beat after %d", beats) {
					return
				}
			}
		})
		for range 3 {
			db := open(t, s.DSN)
			migrations.Go(func() { assert.NoError(t, db.Migrate(context.Background(), lock)) })
		}
		migrations.Wait()
		close(stop)
		leader.Wait()
		t.Logf("%d beats of the older leader meanwhile", beats)

		db := open(t, s.DSN)
		assert.Equal(t, began, ask(t, theirs, "SELECT gmt_create FROM distribute_lock"), "the instant has not changed")
		for _, column := range columns(t, db) {
			assert.NotContains(t, column, " timestamp")
		}
		var version int
		require.NoError(t, db.QueryRow(t.Context(), "SELECT version FROM schema_version", nil, &version))
		assert.Equal(t, conclavesql.SchemaVersion(), version)

		// Whichever program renews, both see the same age.
		ages := func() (ours, older time.Duration) {
			for text, age := range map[string]*time.Duration{conclavesql.LockLook: &ours, olderLook: &older} {
				var us int64
				var skip any
				require.NoError(t, db.QueryRow(t.Context(), text, named, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &us))
				*age = time.Duration(us) * time.Microsecond
			}
			return ours, older
		}
		n, err := db.Exec(t.Context(), conclavesql.LockRenew, append(named, "a@1", 7, beats)...)
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		a, b := ages()
		assert.InDelta(t, a, b, float64(10*time.Second))
		assert.Less(t, max(a, b), time.Minute)
		_, err = theirs.ExecContext(t.Context(), older(conclavesql.LockRenew), append(named, "a@1", 7, beats+1)...)
		require.NoError(t, err)
		a, b = ages()
		assert.InDelta(t, a, b, float64(10*time.Second))
		assert.Less(t, max(a, b), time.Minute)
	})
}

var olderLook = older(conclavesql.LockLook)

func TestMigrate_FreshAndMigratedSchemasAreEqual(t *testing.T) {
	lock := conclavesql.Lock{DataCenter: "test", Name: "alike"}
	kinds := map[mysqltest.Kind][]string{}
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		db := open(t, s.DSN)
		require.NoError(t, db.Migrate(t.Context(), lock))
		kinds[s.Kind] = columns(t, db)
		assert.NotEmpty(t, kinds[s.Kind])
	})
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		version3(t, s, lock)
		db := open(t, s.DSN)
		require.NoError(t, db.Migrate(t.Context(), lock))
		assert.Equal(t, kinds[s.Kind], columns(t, db))
		assert.Contains(t, strings.Join(kinds[s.Kind], "\n"), "gmt_modified datetime(3) NO")
	})
}

// The file of the embedded server keeps the schema, its defaults included.
func TestSchema_SurvivesFileOfEmbeddedServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tables")
	lock := conclavesql.Lock{DataCenter: "test", Name: "kept"}
	var before []string
	for range 2 {
		t.Run("life", func(t *testing.T) { // the server ends with the subtest
			db := open(t, embedded(t, devdb.Config{File: file}))
			require.NoError(t, db.Migrate(t.Context(), lock))
			now := columns(t, db)
			if before != nil {
				assert.Equal(t, before, now)
			}
			before = now
			_, err := db.Exec(t.Context(), "INSERT INTO election_history (data_center, lock_name, term, owner, cause) VALUES ('by', 'hand', ?, 'a@1', 'first')", time.Now().UnixNano())
			require.NoError(t, err)
			list, err := conclavesql.NewHistory(db, conclavesql.Lock{DataCenter: "by", Name: "hand"}).List(t.Context(), 1)
			require.NoError(t, err)
			require.Len(t, list, 1)
			assert.WithinDuration(t, time.Now(), list[0].At, time.Minute)
		})
	}
}

// readAndLeftOpen creates an older program's lock, and a transaction that has
// read its row.
func readAndLeftOpen(t *testing.T, s *mysqltest.Server) (conclavesql.Lock, *stdsql.Tx) {
	lock := conclavesql.Lock{DataCenter: "test", Name: t.Name()}
	version3(t, s, lock)
	theirs := transaction(t, s.DSN)
	var term int
	require.NoError(t, theirs.QueryRow("SELECT term FROM distribute_lock").Scan(&term))
	return lock, theirs
}

// Another client has left a transaction open that has read the lock row. A
// change of the table waits for it, and later statements would wait behind the
// change.
func TestMigrate_WaitDoesNotDeposeLeader(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		lock, theirs := readAndLeftOpen(t, s)

		db := open(t, s.DSN)
		migrated := make(chan error, 1)
		go func() { migrated <- db.Migrate(context.Background(), lock) }()
		require.Eventually(t, func() bool {
			var n int
			err := db.QueryRow(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata lock%' AND info LIKE 'ALTER TABLE distribute_lock%'", nil, &n)
			return err == nil && n == 1
		}, 30*time.Second, 20*time.Millisecond, "the migration waits")
		elect(t, db, lock, "a@1", 1)
		var slowest time.Duration
		for beat := range 10 {
			sent := time.Now()
			n, err := db.Exec(t.Context(), conclavesql.LockRenew, lock.DataCenter, lock.Name, "a@1", 1, beat)
			require.NoError(t, err)
			require.EqualValues(t, 1, n)
			slowest = max(slowest, time.Since(sent))
			select {
			case err := <-migrated:
				require.FailNow(t, "migrated under an open transaction", "%v", err)
			case <-time.After(200 * time.Millisecond):
			}
		}
		t.Logf("the slowest of ten beats took %v", slowest)
		require.NoError(t, theirs.Commit())
		require.NoError(t, <-migrated)
	})
}

// Migrate returns when its context ends.
func TestMigrate_EndsWithItsContext(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		lock, theirs := readAndLeftOpen(t, s)
		db := open(t, s.DSN)
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, db.Migrate(ctx, lock), conclavesql.ErrUnavailable)
		require.NoError(t, theirs.Commit())
		require.NoError(t, db.Migrate(t.Context(), lock))
	})
}
