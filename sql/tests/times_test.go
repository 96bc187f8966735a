package sql_test

import (
	stdsql "database/sql"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/devdb"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// This file tests that a lease is computed in the same way in every time zone,
// across a change to summer time and back, and after 2038.

// zoned returns a session in a time zone; an empty zone is the server's.
func zoned(t *testing.T, s *mysqltest.Server, zone string) *stdsql.Conn {
	t.Helper()
	if zone == "" {
		return plain(t, s, "")
	}
	return plain(t, s, "&time_zone="+url.QueryEscape("'"+zone+"'"))
}

// change runs a statement and returns the number of rows it changed.
func change(t *testing.T, conn *stdsql.Conn, statement string, args ...any) int64 {
	t.Helper()
	result, err := conn.ExecContext(t.Context(), statement, args...)
	require.NoError(t, err, statement)
	n, err := result.RowsAffected()
	require.NoError(t, err)
	return n
}

// age returns the age of the lease in a session, read with the given statement.
func age(t *testing.T, conn *stdsql.Conn, look string, lock conclavesql.Lock) time.Duration {
	t.Helper()
	var us int64
	var skip any
	require.NoError(t, conn.QueryRowContext(t.Context(), look, lock.DataCenter, lock.Name).
		Scan(&skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &us))
	return time.Duration(us) * time.Microsecond
}

// expired reports whether the win of an expired lease would match, without
// winning.
func expired(t *testing.T, conn *stdsql.Conn) bool {
	t.Helper()
	_, predicate, found := strings.Cut(conclavesql.LockWinExpired, "AND term_duration = ?")
	require.True(t, found)
	return ask(t, conn, "SELECT COUNT(*) FROM distribute_lock WHERE term = 1 "+predicate) == "1"
}

// berlin adds a zone with summer time to the server, because the tables of
// zones are empty in small images. (It has only the changes of 2027.)
func berlin(t *testing.T, s *mysqltest.Server) (zone string) {
	t.Helper()
	s.NeedsContainer(t) // the test changes its tables
	const id, name = 9001, "Test/Berlin"
	s.Exec(t, "REPLACE INTO mysql.time_zone (Time_zone_id, Use_leap_seconds) VALUES (?, 'N')", id)
	s.Exec(t, "REPLACE INTO mysql.time_zone_name (Name, Time_zone_id) VALUES (?, ?)", name, id)
	s.Exec(t, "REPLACE INTO mysql.time_zone_transition_type (Time_zone_id, Transition_type_id, `Offset`, Is_DST, Abbreviation) VALUES (?, 0, 3600, 0, 'CET'), (?, 1, 7200, 1, 'CEST')", id, id)
	s.Exec(t, "REPLACE INTO mysql.time_zone_transition (Time_zone_id, Transition_time, Transition_type_id) VALUES (?, ?, 1), (?, ?, 0)",
		id, spring.Unix(), id, autumn.Unix())
	return name
}

var (
	spring = time.Date(2027, 3, 28, 1, 0, 0, 0, time.UTC)
	autumn = time.Date(2027, 10, 31, 1, 0, 0, 0, time.UTC)
)

// Conclave's statements in any zone: from an operator at a prompt, through a
// proxy that has lost the session's settings, on a server whose own zone is not
// UTC.
func TestLease_IndependentOfTimeZone(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		db, lock := migrated(t, s.DSN)
		elect(t, db, lock, "a@1", 1)
		zones := []string{"+08:00", "-05:00", "+00:00"}
		if s.Kind != mysqltest.Embedded {
			zones = append(zones, "", berlin(t, s))
			was := ask(t, plain(t, s, ""), "SELECT @@GLOBAL.time_zone")
			s.Exec(t, "SET GLOBAL time_zone = ?", zones[4]) // so "" means this zone
			t.Cleanup(func() { s.Exec(t, "SET GLOBAL time_zone = ?", was) })
		}
		wrong := 0 // with NOW(3) in the place of UTC_TIMESTAMP(3)
		for beat, writer := range zones {
			require.EqualValues(t, 1, change(t, zoned(t, s, writer), conclavesql.LockRenew, lock.DataCenter, lock.Name, "a@1", 1, beat))
			for _, reader := range zones {
				conn := zoned(t, s, reader)
				seen := age(t, conn, conclavesql.LockLook, lock)
				assert.True(t, 0 <= seen && seen < time.Minute, "renewed at %q, read at %q: %v", writer, reader, seen)
				if bad := age(t, conn, older(conclavesql.LockLook), lock); bad < 0 || bad > time.Minute {
					wrong++
				}
			}
			var us int64
			var skip any
			require.NoError(t, db.QueryRow(t.Context(), conclavesql.LockLook, []any{lock.DataCenter, lock.Name},
				&skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &us))
			assert.Less(t, us, time.Minute.Microseconds(), "and for the program itself")
		}
		assert.Positive(t, wrong, "NOW(3) depends on the session's zone, so the test can detect it")
	})
}

// The server's zone changes to summer time, and back, within a lease.
func TestLease_IndependentOfSummerTime(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		db, lock := migrated(t, s.DSN)
		elect(t, db, lock, "a@1", 1)
		zone := berlin(t, s)
		at := func(conn *stdsql.Conn, moment time.Time) {
			change(t, conn, fmt.Sprintf("SET timestamp = %d.%06d", moment.Unix(), moment.Nanosecond()/1000))
		}
		beat := 0
		for _, boundary := range []time.Time{spring, autumn} {
			for _, writer := range []string{zone, "+00:00"} {
				w := zoned(t, s, writer)
				at(w, boundary.Add(-500*time.Millisecond))
				hour := ask(t, w, "SELECT HOUR(NOW())")
				require.EqualValues(t, 1, change(t, w, conclavesql.LockRenew, lock.DataCenter, lock.Name, "a@1", 1, beat))
				beat++
				for _, reader := range []string{zone, "+00:00", "-05:00"} {
					r := zoned(t, s, reader)
					at(r, boundary.Add(time.Second))
					assert.Equal(t, 1500*time.Millisecond, age(t, r, conclavesql.LockLook, lock), "%v: renewed at %q, read at %q", boundary, writer, reader)
					assert.False(t, expired(t, r), "half of a lease of 3 s")
					at(r, boundary.Add(2499*time.Millisecond))
					assert.False(t, expired(t, r))
					at(r, boundary.Add(2500*time.Millisecond))
					assert.True(t, expired(t, r), "the lease has expired")
				}
				at(w, boundary.Add(time.Second))
				if later := ask(t, w, "SELECT HOUR(NOW())"); writer == zone {
					assert.Equal(t, map[time.Time]string{spring: "1 3", autumn: "2 2"}[boundary], hour+" "+later, "the zone has changed its time")
				}
			}
		}
	})
}

// After 2038-01-19 03:14:07 UTC. A real server's clock cannot be set from here
// (docs/adr/0015 has what happens then), so the time is written into the
// statements.
func TestLease_AfterEndOfTimestamp(t *testing.T) {
	end := time.Unix(1<<31-1, 0).UTC()
	at := func(statement string, moment time.Time) string {
		literal := "CAST('" + moment.Format("2006-01-02 15:04:05.000") + "' AS DATETIME(3))"
		text := strings.ReplaceAll(statement, "UTC_TIMESTAMP(3)", literal)
		require.NotEqual(t, statement, text)
		return text
	}
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		db, lock := migrated(t, s.DSN)
		elect(t, db, lock, "a@1", 1)
		conn := zoned(t, s, "+02:00")
		beat := 0
		for _, sent := range []time.Time{end.Add(-500 * time.Millisecond), end.Add(500 * time.Millisecond), end.AddDate(40, 0, 0)} {
			n, err := db.Exec(t.Context(), at(conclavesql.LockRenew, sent), lock.DataCenter, lock.Name, "a@1", 1, beat)
			require.NoError(t, err)
			require.EqualValues(t, 1, n)
			beat++
			assert.Equal(t, 1500*time.Millisecond, age(t, conn, at(conclavesql.LockLook, sent.Add(1500*time.Millisecond)), lock), "%v", sent)
			win := func(after time.Duration) int64 {
				n, err := db.Exec(t.Context(), at(conclavesql.LockWinExpired, sent.Add(after)), "a@1", "", 0, 3000, "", nil, nil,
					lock.DataCenter, lock.Name, "a@1", 1, "", nil, nil, "cv:none", beat)
				require.NoError(t, err)
				return n
			}
			assert.Zero(t, win(2999*time.Millisecond), "%v", sent)
			assert.EqualValues(t, 1, win(3*time.Second), "%v", sent)
			_, err = db.Exec(t.Context(), "UPDATE distribute_lock SET term = 1, term_duration = ?", beat)
			require.NoError(t, err)
		}
		// The former column type.
		_, err := db.Exec(t.Context(), "CREATE TABLE narrow (at timestamp(3) NULL)")
		require.NoError(t, err)
		_, err = db.Exec(t.Context(), "INSERT INTO narrow VALUES ('2038-01-19 03:14:07')")
		require.NoError(t, err)
		_, err = db.Exec(t.Context(), "INSERT INTO narrow VALUES ('2038-01-19 03:14:08.000')")
		require.Error(t, err, "a TIMESTAMP cannot hold it")
		if s.Kind != mysqltest.Embedded {
			assert.EqualValues(t, 1292, number(err))
		}
	})
}

// The embedded server uses the clock that it is given, so the statements are
// unchanged.
func TestEmbeddedServer_PassesEndOfTimestamp(t *testing.T) {
	var clock atomic.Int64
	set := func(moment time.Time) { clock.Store(moment.UnixMicro()) }
	end := time.Unix(1<<31-1, 0)
	set(end.Add(-time.Second))
	dsn := embedded(t, devdb.Config{Now: func() time.Time { return time.UnixMicro(clock.Load()) }})
	db, lock := migrated(t, dsn)
	fence := elect(t, db, lock, "a@1", 1)
	for i, moment := range []time.Time{end.Add(-time.Second), end.Add(time.Second), end.AddDate(1, 0, 0)} {
		set(moment)
		n, err := db.Exec(t.Context(), conclavesql.LockRenew, lock.DataCenter, lock.Name, "a@1", 1, i)
		require.NoError(t, err)
		assert.EqualValues(t, 1, n)
		set(moment.Add(1250 * time.Millisecond))
		var us int64
		var skip any
		require.NoError(t, db.QueryRow(t.Context(), conclavesql.LockLook, []any{lock.DataCenter, lock.Name},
			&skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &us))
		assert.EqualValues(t, 1_250_000, us)
		store := conclavesql.NewStateStore(db, lock)
		old := read(t, db, lock, conclavesql.KindTable)
		outcome, err := store.Write(t.Context(), fence, old, conclavesql.State{Body: "{}", Seq: uint64(i) + 1, Nonce: fmt.Sprint(i)})
		require.NoError(t, err)
		assert.Equal(t, conclavesql.Written, outcome)
		assert.Equal(t, moment.Add(1250*time.Millisecond).UTC(), read(t, db, lock, conclavesql.KindTable).Modified)
	}
	recorded, err := conclavesql.NewHistory(db, lock).Record(t.Context(), conclavesql.Election{Term: 1, Owner: "a@1", Cause: "first"})
	require.NoError(t, err)
	assert.True(t, recorded)
	list, err := conclavesql.NewHistory(db, lock).List(t.Context(), 1)
	require.NoError(t, err)
	assert.Equal(t, 2039, list[0].At.Year())
	require.NoError(t, db.Migrate(t.Context(), lock), "a program that starts then can migrate")
}
