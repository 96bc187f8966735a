package sql_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	conclavesql "conclave/sql"
)

func TestThreeProcessesMigrateAtOnce(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		lock := conclavesql.Lock{DataCenter: "test", Name: t.Name()}
		var group sync.WaitGroup
		errs := make([]error, 3)
		for i := range errs {
			db := open(t, dsn)
			group.Go(func() { errs[i] = db.Migrate(t.Context(), lock) })
		}
		group.Wait()
		for _, err := range errs {
			assert.NoError(t, err)
		}
		db := open(t, dsn)
		var rows int
		require.NoError(t, db.QueryRow(t.Context(),
			"SELECT COUNT(*) FROM distribute_lock WHERE data_center = ? AND lock_name = ?", []any{lock.DataCenter, lock.Name}, &rows))
		assert.Equal(t, 1, rows)
	})
}

func TestMigrateSeedsATermThatNobodyLeads(t *testing.T) {
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
			assert.False(t, states[kind].Modified.IsZero(), "%s has its row", kind)
		}
	})
}

func TestMigratingAgainChangesNothing(t *testing.T) {
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

func TestNewerSchemaIsRefusedWithBothVersions(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		db, lock := migrated(t, dsn)
		_, err := db.Exec(t.Context(), "UPDATE schema_version SET version = 99 WHERE id = 1")
		require.NoError(t, err)
		defer db.Exec(t.Context(), "UPDATE schema_version SET version = ? WHERE id = 1", conclavesql.SchemaVersion())
		err = db.Migrate(t.Context(), lock)
		require.ErrorIs(t, err, conclavesql.ErrSchemaNewer)
		assert.ErrorContains(t, err, "99")
		assert.ErrorContains(t, err, "this program knows 3")
	})
}

func TestLockNamesThatCannotBeStoredAreRefused(t *testing.T) {
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
