package sql_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/devdb"
	conclavesql "conclave/sql"
)

func TestOpen_BadDSNErrorHidesPassword(t *testing.T) {
	const secret = "s3cr3t"
	for name, dsn := range map[string]string{
		"empty":               "",
		"blank":               "  ",
		"no slash":            "root:" + secret + "@tcp(db:3306)",
		"no database":         "root:" + secret + "@tcp(db:3306)/",
		"open brace":          "root:" + secret + "@tcp(db:3306/conclave",
		"url":                 "mysql://root:" + secret + "@db:3306/conclave",
		"wrong bool":          "root:" + secret + "@tcp(db:3306)/conclave?parseTime=" + secret,
		"password in network": "root@" + secret + "(db:3306)/conclave",
		"unknown tls":         "root:" + secret + "@tcp(db:3306)/conclave?tls=" + secret,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := conclavesql.Open(dsn, conclavesql.Options{})
			require.ErrorIs(t, err, conclavesql.ErrBadDSN)
			assert.NotContains(t, err.Error(), secret)
			assert.Contains(t, err.Error(), "user:password@tcp(host:port)/database", "the error shows the expected form")
		})
	}
}

func TestOpen_NamesTheValuesOfTLS(t *testing.T) {
	_, err := conclavesql.Open("root@tcp(db:3306)/conclave?tls=foo", conclavesql.Options{})
	require.ErrorIs(t, err, conclavesql.ErrBadDSN)
	assert.ErrorContains(t, err, "parameter tls: want true, false, preferred, skip-verify or, with tlsCA, verify-ca")
}

func TestOpen_RefusesInvalidOptions(t *testing.T) {
	for _, opts := range []conclavesql.Options{
		{Deadline: -1},
		{LockWait: 50 * time.Second},
		{LockWait: 1500 * time.Millisecond},
		{MaxConns: -1},
	} {
		_, err := conclavesql.Open("root@tcp(db:3306)/conclave", opts)
		assert.ErrorContains(t, err, "sql options")
	}
}

func TestExec_NoServerIsUnavailable(t *testing.T) {
	const addr = "127.0.0.1:1" // a fixed port that no other process uses
	db := open(t, "root:secret@tcp("+addr+")/conclave")
	err := db.Migrate(t.Context(), conclavesql.DefaultLock())
	require.ErrorIs(t, err, conclavesql.ErrUnavailable)
	assert.NotContains(t, err.Error(), "secret")
	assert.Equal(t, "tcp("+addr+")/conclave", db.Addr())
}

func TestExec_SilentServerIsUnavailableWithinDeadline(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // it accepts connections and never answers
	require.NoError(t, err)
	defer listener.Close()
	db, err := conclavesql.Open("root@tcp("+listener.Addr().String()+")/conclave", conclavesql.Options{Deadline: 50 * time.Millisecond})
	require.NoError(t, err)
	defer db.Close()
	began := time.Now()
	_, err = db.Exec(t.Context(), "SELECT 1")
	assert.ErrorIs(t, err, conclavesql.ErrUnavailable)
	assert.Less(t, time.Since(began), 20*time.Second, "without a deadline it would wait forever")
}

func TestExec_WrongPasswordIsRefused(t *testing.T) {
	dsn := embedded(t, devdb.Config{User: "conclave", Password: "right"})
	db := open(t, "conclave:wrong@"+dsn[len("root@"):])
	err := db.Migrate(t.Context(), conclavesql.DefaultLock())
	require.ErrorIs(t, err, conclavesql.ErrRefused)
	assert.NotContains(t, err.Error(), "wrong@")
}

// Each connection has the password of its moment, and an error of the function is that
// of a database which is not available.
func TestOpen_PasswordIsAskedForEachConnection(t *testing.T) {
	dsn := embedded(t, devdb.Config{User: "conclave", Password: "right"})
	password, failure, asked := "wrong", error(nil), 0
	db := openWith(t, "conclave:old@"+dsn[len("root@"):], conclavesql.Options{Password: func(context.Context) (string, error) {
		asked++
		return password, failure
	}})
	require.ErrorIs(t, db.Migrate(t.Context(), conclavesql.DefaultLock()), conclavesql.ErrRefused)
	password = "right"
	require.NoError(t, db.Migrate(t.Context(), conclavesql.DefaultLock()))
	before := asked
	pinned, err := db.Pin(t.Context(), nil)
	require.NoError(t, err)
	defer pinned.Close()
	assert.Equal(t, before+1, asked)
	failure = errors.New("no token")
	_, err = db.Pin(t.Context(), nil)
	require.ErrorIs(t, err, conclavesql.ErrUnavailable)
	assert.ErrorIs(t, err, failure)
}

func TestOpen_SessionSettings(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		dsn, _, _ = strings.Cut(dsn, "?") // without the DSN's own parameters
		db := open(t, dsn+"?loc=Asia%2FShanghai&parseTime=false&clientFoundRows=true&time_zone=%27%2B08%3A00%27&autocommit=0")
		var autocommit, zone string
		require.NoError(t, db.QueryRow(t.Context(), "SELECT @@autocommit, @@time_zone", nil, &autocommit, &zone))
		assert.Equal(t, "1", autocommit)
		assert.Equal(t, "+00:00", zone)
		require.NoError(t, db.Migrate(t.Context(), conclavesql.DefaultLock()))
		n, err := db.Exec(t.Context(), "UPDATE schema_version SET version = version WHERE id = 1")
		require.NoError(t, err)
		assert.Zero(t, n, "rows that were matched and not changed do not count")
		var at time.Time
		require.NoError(t, db.QueryRow(t.Context(), "SELECT NOW(3)", nil, &at))
		assert.Equal(t, time.UTC, at.Location())
	})
}

func TestDB_CountsStatements(t *testing.T) {
	db, _ := migrated(t, embedded(t, devdb.Config{}))
	before := db.Statements()
	_, err := db.Exec(t.Context(), "SELECT 1")
	require.NoError(t, err)
	p, err := db.Pin(context.Background(), nil)
	require.NoError(t, err)
	defer p.Close()
	var one int
	require.NoError(t, p.QueryRow(t.Context(), "SELECT 1", nil, &one))
	assert.Equal(t, before+2, db.Statements())
}
