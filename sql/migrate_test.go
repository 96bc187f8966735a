package sql_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
