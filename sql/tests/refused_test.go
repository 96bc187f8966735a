package sql_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	conclavesql "conclave/sql"
)

// The server has read a write and refuses it for what it contains: the row is as
// before, and the next write is accepted.
func TestWrite_RefusedChangesNothing(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		db, lock := migrated(t, dsn)
		store := conclavesql.NewStateStore(db, lock)
		fence := elect(t, db, lock, "a@1", 1)
		old := read(t, db, lock, conclavesql.KindConfig)
		refused := conclavesql.State{Body: "{}", Seq: 1, Nonce: strings.Repeat("too long for its column", 100)}

		outcome, err := store.Write(t.Context(), fence, old, refused)
		if conclavesql.RefusedAs(err, 1105) { // the embedded server has no number for it
			require.ErrorIs(t, err, conclavesql.ErrUnavailable)
		} else {
			require.ErrorIs(t, err, conclavesql.ErrStatement)
			require.NotErrorIs(t, err, conclavesql.ErrUnavailable)
		}
		require.Equal(t, conclavesql.Unknown, outcome)
		outcome, present, err := store.Settle(t.Context(), fence, old, refused)
		require.NoError(t, err)
		assert.Equal(t, conclavesql.Unwritten, outcome)
		assert.Equal(t, old, present)

		outcome, err = store.Write(t.Context(), fence, old, conclavesql.State{Body: "{}", Seq: 1, Nonce: "n"})
		require.NoError(t, err)
		assert.Equal(t, conclavesql.Written, outcome)
	})
}

// A write that is larger than max_allowed_packet is not sent once the store has
// read the limit: the server would close the connection, perhaps before its answer
// is read. The limit is read again first, so that the same leader can write when it
// was raised.
func TestWrite_LargerThanThePacketIsNotSent(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		db, lock := migrated(t, dsn)
		fence := elect(t, db, lock, "a@1", 1)
		var before int64
		require.NoError(t, db.QueryRow(t.Context(), "SELECT @@GLOBAL.max_allowed_packet", nil, &before))
		const limit = 1 << 20
		_, err := db.Exec(t.Context(), "SET GLOBAL max_allowed_packet = ?", limit)
		require.NoError(t, err)
		t.Cleanup(func() { _, _ = open(t, dsn).Exec(t.Context(), "SET GLOBAL max_allowed_packet = ?", before) })

		through := open(t, dsn) // a session has the limit with which it began
		store := conclavesql.NewStateStore(through, lock)
		states, err := store.Read(t.Context())
		require.NoError(t, err)
		old := states[conclavesql.KindTable]
		sent := through.Statements()
		outcome, err := store.Write(t.Context(), fence, old, conclavesql.State{Body: strings.Repeat(`"`, limit/2), Seq: 1, Nonce: "n"})
		require.ErrorIs(t, err, conclavesql.ErrTooLarge)
		require.ErrorIs(t, err, conclavesql.ErrStatement)
		assert.ErrorContains(t, err, "max_allowed_packet is 1048576")
		assert.Equal(t, conclavesql.Unwritten, outcome)
		assert.Equal(t, sent+1, through.Statements(), "the limit is read again")

		outcome, err = store.Write(t.Context(), fence, old, conclavesql.State{Body: strings.Repeat(`"`, limit/2-1000), Seq: 1, Nonce: "n"})
		require.NoError(t, err, "just below it")
		assert.Equal(t, conclavesql.Written, outcome)

		_, err = db.Exec(t.Context(), "SET GLOBAL max_allowed_packet = ?", 2*limit)
		require.NoError(t, err)
		states, err = conclavesql.NewStateStore(db, lock).Read(t.Context())
		require.NoError(t, err)
		outcome, err = store.Write(t.Context(), fence, states[conclavesql.KindTable], conclavesql.State{Body: strings.Repeat(`"`, limit/2), Seq: 2, Nonce: "m"})
		require.NoError(t, err, "the limit was raised")
		assert.Equal(t, conclavesql.Written, outcome)
	})
}

func TestWrite_BodyThatIsNotUTF8IsRefused(t *testing.T) {
	outcome, err := conclavesql.NewStateStore(nil, conclavesql.DefaultLock()).Write(t.Context(), conclavesql.Fence{}, conclavesql.State{}, conclavesql.State{Body: "\xff"})
	assert.ErrorIs(t, err, conclavesql.ErrStatement)
	assert.Equal(t, conclavesql.Unwritten, outcome)
}
