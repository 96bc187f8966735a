package sql_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector/electortest"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// cabled opens the test's database through a connection with faults.
func cabled(t *testing.T, dsn string, deadline time.Duration) (*conclavesql.DB, *electortest.Cable) {
	t.Helper()
	cable := electortest.NewCable(new(net.Dialer).DialContext)
	return openWith(t, dsn, conclavesql.Options{Dial: cable.Dial, Deadline: deadline}), cable
}

// The server has applied the write, and the connection breaks before its answer
// arrives. The writer settles it by comparing nonces, and adopts the row.
func TestWrite_LostAnswerIsSettled(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		db, lock := migrated(t, dsn)
		fence := elect(t, db, lock, "a@1", 1)
		through, cable := cabled(t, dsn, 10*time.Second)
		store := conclavesql.NewStateStore(through, lock)
		old := read(t, db, lock, conclavesql.KindTable)
		next := conclavesql.State{Body: "{}", Seq: 1, Nonce: "mine"}

		cable.LoseReply("SET s.body")
		outcome, err := store.Write(t.Context(), fence, old, next)
		require.ErrorIs(t, err, conclavesql.ErrUnavailable)
		require.Equal(t, conclavesql.Unknown, outcome)
		require.Equal(t, 1, cable.Lost())

		outcome, present, err := store.Settle(t.Context(), fence, old, next)
		require.NoError(t, err)
		assert.Equal(t, conclavesql.Written, outcome)
		assert.Equal(t, "mine", present.Nonce)
		outcome, err = store.Write(t.Context(), fence, old, next)
		require.NoError(t, err)
		assert.Equal(t, conclavesql.Conflict, outcome, "repeated, it matches nothing")
	})
}

// The write takes so long to arrive that its writer has given up and written
// again. When it arrives, it matches nothing.
func TestWrite_ArrivingLateMatchesNothing(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		db, lock := migrated(t, dsn)
		fence := elect(t, db, lock, "a@1", 1)
		through, cable := cabled(t, dsn, 2*time.Second)
		store := conclavesql.NewStateStore(through, lock)
		old := read(t, db, lock, conclavesql.KindTable)

		deliver := cable.Delay("SET s.body")
		defer deliver()
		first := conclavesql.State{Body: "first", Seq: 1, Nonce: "first"}
		outcome, err := store.Write(t.Context(), fence, old, first)
		require.ErrorIs(t, err, conclavesql.ErrUnavailable)
		require.Equal(t, conclavesql.Unknown, outcome)
		outcome, _, err = store.Settle(t.Context(), fence, old, first)
		require.NoError(t, err)
		require.Equal(t, conclavesql.Unwritten, outcome)

		second := conclavesql.State{Body: "second", Seq: 1, Nonce: "second"}
		outcome, err = store.Write(t.Context(), fence, old, second)
		require.NoError(t, err)
		require.Equal(t, conclavesql.Written, outcome)
		before := picture(t, db, lock)
		deliver()
		cable.Delivered()
		assert.Equal(t, before, picture(t, db, lock))
	})
}

// A server that is paused while a write arrives has the write in its socket.
// When it continues it applies the write, although the writer has closed the
// connection long before. No deadline of a client can prevent that.
func TestWrite_PausedServerAppliesAbandonedWrite(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		s.NeedsContainer(t)
		db, lock := migrated(t, s.DSN)
		fence := elect(t, db, lock, "a@1", 1)
		through, cable := cabled(t, s.DSN, 3*time.Second) // pausing a container takes a part of it
		store := conclavesql.NewStateStore(through, lock)
		old := read(t, db, lock, conclavesql.KindTable)

		var resume func()
		cable.Before("SET s.body", func() { resume = s.Pause(t) })
		next := conclavesql.State{Body: "{}", Seq: 1, Nonce: "ghost"}
		outcome, err := store.Write(t.Context(), fence, old, next)
		require.ErrorIs(t, err, conclavesql.ErrUnavailable)
		require.Equal(t, conclavesql.Unknown, outcome)
		require.NotNil(t, resume, "the server was paused while the write was in transit")
		outcome, _, err = store.Settle(t.Context(), fence, old, next)
		require.ErrorIs(t, err, conclavesql.ErrUnavailable)
		require.Equal(t, conclavesql.Unknown, outcome, "the outcome is not known yet")

		resume()
		require.Eventually(t, func() bool {
			outcome, _, err := store.Settle(t.Context(), fence, old, next)
			return err == nil && outcome == conclavesql.Written
		}, 30*time.Second, 20*time.Millisecond, "the write lands after the pause")
		outcome, err = store.Write(t.Context(), fence, old, conclavesql.State{Body: "again", Seq: 1, Nonce: "again"})
		require.NoError(t, err)
		assert.Equal(t, conclavesql.Conflict, outcome, "of the two that replace the same decision one was applied")
	})
}

// KILL CONNECTION by an operator or a proxy, on an idle pinned connection: the
// loss is reported at once, and its locks are free.
func TestPinned_KilledConnectionIsReportedAtOnce(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		db := open(t, s.DSN)
		lost := make(chan error, 2)
		p, err := db.Pin(t.Context(), func(err error) { lost <- err })
		require.NoError(t, err)
		defer p.Close()
		var taken, conn int64
		name := "cv:" + t.Name()[len(t.Name())-8:]
		require.NoError(t, p.QueryRow(t.Context(), conclavesql.LockTake, []any{name, name}, &taken, &conn))
		require.Equal(t, int64(1), taken)

		s.Exec(t, "KILL ?", conn)
		select {
		case err := <-lost:
			assert.Error(t, err)
		case <-time.After(10 * time.Second):
			require.Fail(t, "the loss was not reported")
		}
		_, err = p.Exec(t.Context(), "SELECT 1")
		assert.ErrorIs(t, err, conclavesql.ErrUnavailable)
		next, err := db.Pin(t.Context(), nil)
		require.NoError(t, err)
		defer next.Close()
		require.NoError(t, next.QueryRow(t.Context(), conclavesql.LockAwait, []any{name, 10}, &taken))
		assert.Equal(t, int64(1), taken, "its lock is free")
	})
}

// The same on a connection with a statement in progress: servers answer that
// with different numbers, or not at all.
func TestPinned_KilledStatementIsUnavailable(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		db := open(t, s.DSN)
		p, err := db.Pin(t.Context(), nil)
		require.NoError(t, err)
		defer p.Close()
		var id int64
		require.NoError(t, p.QueryRow(t.Context(), "SELECT CONNECTION_ID()", nil, &id))
		ended := make(chan error, 1)
		go func() {
			var zero int64
			ended <- p.QueryRow(t.Context(), "SELECT SLEEP(30)", nil, &zero)
		}()
		var running int
		require.Eventually(t, func() bool {
			err := db.QueryRow(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist WHERE id = ? AND info LIKE '%SLEEP(30)%'", []any{id}, &running)
			return err == nil && running == 1
		}, 10*time.Second, 10*time.Millisecond)
		s.Exec(t, "KILL ?", id)
		assert.ErrorIs(t, <-ended, conclavesql.ErrUnavailable)
	})
}

// After a restart the pool reconnects by itself, and the loss of a pinned
// connection was reported.
func TestDB_ReconnectsToRestartedServer(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		s.NeedsContainer(t)
		db, lock := migrated(t, s.DSN)
		fence := elect(t, db, lock, "a@1", 1)
		store := conclavesql.NewStateStore(db, lock)
		old := read(t, db, lock, conclavesql.KindTable)
		lost := make(chan error, 2)
		p, err := db.Pin(t.Context(), func(err error) { lost <- err })
		require.NoError(t, err)
		defer p.Close()
		outcome, err := store.Write(t.Context(), fence, old, conclavesql.State{Body: "{}", Seq: 1, Nonce: "kept"})
		require.NoError(t, err)
		require.Equal(t, conclavesql.Written, outcome)

		s.Restart(t)
		assert.Error(t, <-lost)
		outcome, present, err := store.Settle(t.Context(), fence, old, conclavesql.State{Nonce: "kept"})
		require.NoError(t, err)
		assert.Equal(t, conclavesql.Written, outcome, "the acknowledged write is there")
		outcome, err = store.Write(t.Context(), fence, present, conclavesql.State{Body: "{}", Seq: 2, Nonce: "next"})
		require.NoError(t, err)
		assert.Equal(t, conclavesql.Written, outcome)
	})
}
