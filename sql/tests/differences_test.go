package sql_test

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// This file has what the three servers do differently, and what they do alike
// where a difference could be expected. docs/databases.md is its table, with
// the reason why the statements are right on each; its rows name the tests
// here.

// answers are the results of a query on each server: a value, "NULL", or
// "error" and the server's number.
type answers map[mysqltest.Kind]string

// alike returns the same answer for all servers.
func alike(answer string) answers {
	return answers{mysqltest.Embedded: answer, mysqltest.MySQL: answer, mysqltest.MariaDB: answer}
}

// plain connects to the test's database without any of Conclave's settings.
func plain(t *testing.T, s *mysqltest.Server, params string) *stdsql.Conn {
	t.Helper()
	dsn, _, _ := strings.Cut(s.DSN, "?")
	db, err := stdsql.Open("mysql", dsn+"?interpolateParams=true"+params)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ask returns the only value of a query as text.
func ask(t *testing.T, conn *stdsql.Conn, query string) string {
	t.Helper()
	var value stdsql.NullString
	err := conn.QueryRowContext(t.Context(), query).Scan(&value)
	if err != nil {
		n := number(err)
		require.NotZero(t, n, "%s: %v", query, err)
		return fmt.Sprint("error ", n)
	}
	if !value.Valid {
		return "NULL"
	}
	return value.String
}

func TestServers_AnswersThatDiffer(t *testing.T) {
	for _, c := range []struct {
		name, query string
		want        answers
	}{
		{"isolation", "SELECT @@transaction_isolation",
			answers{"embedded": "REPEATABLE-READ", "mysql": "REPEATABLE-READ", "mariadb": "error 1193"}},
		{"isolation, old name", "SELECT @@tx_isolation",
			answers{"embedded": "REPEATABLE-READ", "mysql": "error 1193", "mariadb": "REPEATABLE-READ"}},
		{"a lock without a name", "SELECT IS_USED_LOCK(NULL)",
			answers{"embedded": "error 3057", "mysql": "error 3057", "mariadb": "NULL"}},
		{"a lock's name of 64", "SELECT GET_LOCK(REPEAT('x', 64), 0)", alike("1")},
		{"a lock's name of 65", "SELECT GET_LOCK(REPEAT('x', 65), 0)",
			answers{"embedded": "error 3057", "mysql": "error 4163", "mariadb": "1"}},
		{"a lock's name of 200", "SELECT GET_LOCK(REPEAT('x', 200), 0)",
			answers{"embedded": "error 3057", "mysql": "error 4163", "mariadb": "error 1059"}},
		{"a lock's name of ours", "SELECT GET_LOCK(CONCAT('cv:', REPEAT('0', 32)), 0)", alike("1")},
		{"a lock twice", "SELECT GET_LOCK('a', 0) + GET_LOCK('a', 0)", alike("2")},
		{"a lock that is not held", "SELECT RELEASE_LOCK('never taken')", alike("NULL")},
		{"milliseconds of UTC_TIMESTAMP(3)", "SELECT LENGTH(CAST(UTC_TIMESTAMP(3) AS CHAR)) >= 19", alike("1")},
		{"a moment after 2038", "SELECT CAST('2038-01-19 03:14:08.250' AS DATETIME(3)) > CAST('2038-01-19 03:14:07.750' AS DATETIME(3))", alike("1")},
		{"over the end of TIMESTAMP", "SELECT TIMESTAMPDIFF(MICROSECOND, '2038-01-19 03:14:07.750', '2038-01-19 03:14:08.250')", alike("500000")},
		{"seconds since 1970 of 2050", "SELECT UNIX_TIMESTAMP('2050-01-01 00:00:00') > 2147483647",
			answers{"embedded": "1", "mysql": "1", "mariadb": "NULL"}},
		{"the second after 2^31-1", "SELECT YEAR(FROM_UNIXTIME(2147483648))",
			answers{"embedded": "2038", "mysql": "2038", "mariadb": "NULL"}},
		{"whole seconds", "SELECT TIMESTAMPDIFF(SECOND, '2026-01-01 00:00:00.000', '2026-01-01 00:00:01.999')", alike("1")},
		{"microseconds", "SELECT TIMESTAMPDIFF(MICROSECOND, '2026-01-01 00:00:00.000', '2026-01-01 00:00:01.999')", alike("1999000")},
		{"a time and an interval", "SELECT MICROSECOND(CAST('2026-01-01 00:00:05.500' AS DATETIME(3)) + INTERVAL 1 SECOND)",
			answers{"embedded": "0", "mysql": "500000", "mariadb": "500000"}},
		{"a time and an interval, as a function", "SELECT MICROSECOND(TIMESTAMPADD(MICROSECOND, 1000000, CAST('2026-01-01 00:00:05.500' AS DATETIME(3))))", alike("500000")},
		{"a term", "SELECT GREATEST(CAST(4 AS UNSIGNED), 9) + 1", alike("10")},
	} {
		t.Run(c.name, func(t *testing.T) {
			mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
				assert.Equal(t, c.want[s.Kind], ask(t, plain(t, s, ""), c.query), c.query)
			})
		})
	}
}

// Not every server can be asked for an identity, so no statement does: the
// evidence of a witness is a lock and a connection, seen from a connection.
func TestServers_HaveNoCommonIdentity(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		uuid := ask(t, plain(t, s, ""), "SELECT @@server_uuid")
		if s.Kind == mysqltest.MariaDB {
			assert.Equal(t, "error 1193", uuid)
			return
		}
		assert.NotContains(t, uuid, "error")
	})
}

// A duplicate key has one number and three texts, and INSERT IGNORE hides it.
func TestDuplicateKey_HasOneErrorNumber(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		db, lock := migrated(t, s.DSN)
		_, err := db.Exec(t.Context(), "INSERT INTO distribute_lock (data_center, lock_name, duration) VALUES (?, ?, 1)", lock.DataCenter, lock.Name)
		require.EqualValues(t, 1062, number(err))
		assert.Contains(t, err.Error(), map[mysqltest.Kind]string{
			mysqltest.Embedded: "duplicate unique key given",
			mysqltest.MySQL:    "for key 'distribute_lock.uk_data_center_lock_name'",
			mysqltest.MariaDB:  "for key 'uk_data_center_lock_name'",
		}[s.Kind])
		n, err := db.Exec(t.Context(), conclavesql.LockSeed, lock.DataCenter, lock.Name, 3000)
		require.NoError(t, err)
		assert.Zero(t, n)
	})
}

// A row that is matched and not changed counts only if the client asks for it,
// on every server. Conclave does not; each of its deciding statements changes
// what it matches.
func TestExec_CountsChangedNotMatchedRows(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		db, lock := migrated(t, s.DSN)
		elect(t, db, lock, "a@1", 1)
		const same = "UPDATE distribute_lock SET owner = 'a@1' WHERE term = 1"
		for params, want := range map[string]int64{"": 0, "&clientFoundRows=true": 1} {
			result, err := plain(t, s, params).ExecContext(t.Context(), same)
			require.NoError(t, err)
			n, err := result.RowsAffected()
			require.NoError(t, err)
			assert.Equal(t, want, n, params)
		}
		n, err := db.Exec(t.Context(), same)
		require.NoError(t, err)
		assert.Zero(t, n)
		for beat := range 3 { // also in the same millisecond
			n, err := db.Exec(t.Context(), conclavesql.LockRenew, lock.DataCenter, lock.Name, "a@1", 1, beat)
			require.NoError(t, err)
			assert.EqualValues(t, 1, n)
		}
	})
}

// A time that is finer than its column is rounded or truncated.
// UTC_TIMESTAMP(3) has the column's precision.
func TestTime_FinerThanItsColumn(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		db, lock := migrated(t, s.DSN)
		fraction := func() (f int) {
			t.Helper()
			require.NoError(t, db.QueryRow(t.Context(), "SELECT MICROSECOND(gmt_modified) FROM distribute_lock", nil, &f))
			return f
		}
		set := func(value string) {
			t.Helper()
			_, err := db.Exec(t.Context(), "UPDATE distribute_lock SET gmt_modified = "+value+" WHERE lock_name = ?", lock.Name)
			require.NoError(t, err)
		}
		set("'2026-01-01 00:00:05.999600'")
		want := 0 // rounded up to the next second
		if s.Kind == mysqltest.MariaDB {
			want = 999000
		}
		assert.Equal(t, want, fraction())
		set("UTC_TIMESTAMP(3)")
		require.Eventually(t, func() bool { set("UTC_TIMESTAMP(3)"); return fraction() != 0 }, 5*time.Second, 7*time.Millisecond)
		assert.Zero(t, fraction()%1000, "UTC_TIMESTAMP(3) is stored unchanged")
		set("UTC_TIMESTAMP()")
		if s.Kind != mysqltest.Embedded { // which does not truncate it
			assert.Zero(t, fraction(), "UTC_TIMESTAMP() has whole seconds, whatever the column's precision")
		}
	})
}

// A column with ON UPDATE changes on an UPDATE to equal values, on one server.
// Conclave's tables have none: every time is written by a statement.
func TestTime_OnlyStatementsChangeIt(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		db, lock := migrated(t, s.DSN)
		elect(t, db, lock, "a@1", 1)
		_, err := db.Exec(t.Context(), "UPDATE distribute_lock SET gmt_create = '2020-01-01 00:00:00', gmt_modified = '2020-01-01 00:00:00'")
		require.NoError(t, err)
		before := picture(t, db, lock)
		_, err = db.Exec(t.Context(), "UPDATE distribute_lock SET owner = 'a@1'")
		require.NoError(t, err)
		assert.Equal(t, before, picture(t, db, lock))

		_, err = db.Exec(t.Context(), "CREATE TABLE moving (id int PRIMARY KEY, at timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3))")
		require.NoError(t, err)
		_, err = db.Exec(t.Context(), "INSERT INTO moving VALUES (1, '2020-01-01 00:00:00')")
		require.NoError(t, err)
		_, err = db.Exec(t.Context(), "UPDATE moving SET id = 1")
		require.NoError(t, err)
		var year int
		require.NoError(t, db.QueryRow(t.Context(), "SELECT YEAR(at) FROM moving", nil, &year))
		assert.Equal(t, s.Kind == mysqltest.Embedded, year != 2020, "only the embedded server changes it")
	})
}

// A server's limit on the time of a statement is removed from pinned
// connections, where it would end a wait. Each server knows one of the two
// names, and refuses the other.
func TestPinned_ServerWideLimitDoesNotEndWait(t *testing.T) {
	limits := map[mysqltest.Kind][3]string{ // the setting, its value for this test, its default
		mysqltest.MySQL:   {"max_execution_time", "300", "0"},
		mysqltest.MariaDB: {"max_statement_time", "0.3", "0"},
	}
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		s.NeedsContainer(t) // the test changes its settings
		limit := limits[s.Kind]
		s.Exec(t, "SET GLOBAL "+limit[0]+" = "+limit[1])
		t.Cleanup(func() { s.Exec(t, "SET GLOBAL "+limit[0]+" = "+limit[2]) })
		db := open(t, s.DSN)
		holder, err := db.Pin(t.Context(), nil)
		require.NoError(t, err)
		defer holder.Close()
		waiter, err := db.Pin(t.Context(), nil)
		require.NoError(t, err)
		defer waiter.Close()
		var taken, conn stdsql.NullInt64
		require.NoError(t, holder.QueryRow(t.Context(), conclavesql.LockTake, []any{"cv:limit", "cv:limit"}, &taken, &conn))
		began := time.Now()
		require.NoError(t, waiter.QueryRow(t.Context(), conclavesql.LockAwait, []any{"cv:limit", 1}, &taken))
		assert.Equal(t, stdsql.NullInt64{Int64: 0, Valid: true}, taken, "the wait timed out without an error")
		assert.GreaterOrEqual(t, time.Since(began), 900*time.Millisecond)
		var lockWait int
		require.NoError(t, waiter.QueryRow(t.Context(), "SELECT @@innodb_lock_wait_timeout", nil, &lockWait))
		assert.Equal(t, 2, lockWait)
	})
}

// On two servers a wait of a fraction of a second is no wait at all. Conclave's
// waits are whole seconds.
func TestGetLock_WaitsWholeSeconds(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		holder, waiter := plain(t, s, ""), plain(t, s, "")
		require.Equal(t, "1", ask(t, holder, "SELECT GET_LOCK('cv:held', 0)"))
		shortest := time.Hour
		for range 3 { // the machine may be busy
			began := time.Now()
			require.Equal(t, "0", ask(t, waiter, "SELECT GET_LOCK('cv:held', 0.4)"))
			shortest = min(shortest, time.Since(began))
		}
		assert.Equal(t, s.Kind == mysqltest.MariaDB, shortest >= 350*time.Millisecond, "%v", shortest)
		began := time.Now()
		require.Equal(t, "0", ask(t, waiter, "SELECT GET_LOCK('cv:held', 1)"))
		assert.GreaterOrEqual(t, time.Since(began), 900*time.Millisecond)
	})
}

// EXISTS in the WHERE of an UPDATE is refused by the embedded server; the join
// means the same on all.
func TestFence_IsAJoin(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		db, lock := migrated(t, s.DSN)
		fence := elect(t, db, lock, "a@1", 1)
		_, err := db.Exec(t.Context(), "UPDATE cluster_state SET body = 'x' WHERE kind = 'table' AND EXISTS (SELECT 1 FROM distribute_lock l WHERE l.owner = 'a@1' AND l.term = 1)")
		assert.Equal(t, s.Kind == mysqltest.Embedded, err != nil, "%v", err)
		outcome, err := conclavesql.NewStateStore(db, lock).Write(t.Context(), fence, read(t, db, lock, conclavesql.KindTable),
			conclavesql.State{Body: "{}", Seq: 1, Nonce: "n"})
		require.NoError(t, err)
		assert.Equal(t, conclavesql.Written, outcome)
	})
}

// On real servers UTC_TIMESTAMP(3) is the time at which the statement started:
// one that waited for a row writes an old time. Therefore a leader counts its
// trust from before it sent the statement.
func TestRenew_AfterWaitWritesTimeOfStart(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		_, lock := migrated(t, s.DSN)
		db := openWith(t, s.DSN, conclavesql.Options{Deadline: 10 * time.Second, LockWait: 3 * time.Second})
		elect(t, db, lock, "a@1", 1)
		theirs := transaction(t, s.DSN)
		mustExec(t, theirs, "UPDATE distribute_lock SET address = 'theirs' WHERE lock_name = ?", lock.Name)
		renewed := make(chan error, 1)
		go func() {
			_, err := db.Exec(context.Background(), conclavesql.LockRenew, lock.DataCenter, lock.Name, "a@1", 1, 0)
			renewed <- err
		}()
		waiting(t, db, "term_duration + 1")
		wait := time.NewTimer(time.Second)
		defer wait.Stop()
		<-wait.C
		require.NoError(t, theirs.Commit())
		require.NoError(t, <-renewed)
		var age int64
		require.NoError(t, db.QueryRow(t.Context(), "SELECT TIMESTAMPDIFF(MICROSECOND, gmt_modified, UTC_TIMESTAMP(3)) FROM distribute_lock", nil, &age))
		assert.GreaterOrEqual(t, time.Duration(age)*time.Microsecond, time.Second)
	})
}
