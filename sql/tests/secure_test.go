package sql_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/devdb"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

func TestOpen_TLSParametersThatContradictEachOther(t *testing.T) {
	pem := filepath.Join(t.TempDir(), "no.pem")
	require.NoError(t, os.WriteFile(pem, []byte("none"), 0o600))
	for params, want := range map[string]string{
		"tlsCA=/no/such/file":                    "tlsCA: open /no/such/file",
		"tlsCA=" + pem:                           "has no certificate in PEM",
		"tlsCA=":                                 "want a file",
		"tls=verify-ca":                          "need tlsCA",
		"tls=skip-verify&tlsCA=" + pem:           "needs tls=true",
		"tls=preferred&tlsCA=" + pem:             "needs tls=true",
		"tls=false&tlsCA=" + pem:                 "needs tls=true",
		"tlsCA=" + pem + "&tlsCert=" + pem:       "both tlsCert and tlsKey",
		"tlsCert=" + pem + "&tlsKey=" + pem:      "need tlsCA",
		"parseTime=true&tlsCA=%2Fno%2Fsuch%2Fca": "tlsCA: open /no/such/ca",
	} {
		_, err := conclavesql.Open("root:s3cr3t@tcp(db:3306)/conclave?"+params, conclavesql.Options{})
		require.ErrorIs(t, err, conclavesql.ErrBadDSN, params)
		assert.ErrorContains(t, err, want, params)
		assert.NotContains(t, err.Error(), "s3cr3t", params)
	}
	_, err := conclavesql.Open("root@unix(/tmp/mysql.sock)/conclave?tlsCA="+pem, conclavesql.Options{})
	assert.ErrorContains(t, err, "want a server on TCP")
	// What looks like a parameter in a password is none.
	db := open(t, "root:a?tlsCA=b@tcp(db:3306)/conclave")
	assert.Equal(t, "tcp(db:3306)/conclave", db.Addr())
}

// The embedded server has no TLS. A DSN that asks for it is not served in plain
// text, except by tls=preferred, whose meaning that is.
func TestOpen_TLSThatTheServerLacksIsNotLeftOut(t *testing.T) {
	dsn := embedded(t, devdb.Config{})
	for _, mode := range []string{"true", "skip-verify"} {
		_, err := open(t, dsn+"?tls="+mode).Exec(t.Context(), "SELECT 1")
		assert.ErrorIs(t, err, conclavesql.ErrUnavailable, mode)
	}
	_, err := open(t, dsn+"?tls=preferred").Exec(t.Context(), "SELECT 1")
	assert.NoError(t, err)
}

// with returns a DSN with more parameters.
func with(dsn, params string) string {
	if strings.Contains(dsn, "?") {
		return dsn + "&" + params
	}
	return dsn + "?" + params
}

// cipher returns what the server reports of the TLS of this connection, "" without.
func cipher(t *testing.T, db interface {
	QueryRow(ctx context.Context, statement string, args []any, dest ...any) error
}) (string, error) {
	t.Helper()
	var name, value string
	err := db.QueryRow(t.Context(), "SHOW SESSION STATUS LIKE 'Ssl_cipher'", nil, &name, &value)
	return value, err
}

func TestOpen_TLSOnRealServers(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		ca := s.CA(t)
		dsn := func(params string) string { return with(s.DSN, params) }
		for params, secured := range map[string]bool{
			"tls=false": false, "tls=skip-verify": true, "tls=preferred": true,
			"tlsCA=" + ca: true, "tls=true&tlsCA=" + ca: true, "tls=verify-ca&tlsCA=" + ca: true,
		} {
			got, err := cipher(t, open(t, dsn(params)))
			require.NoError(t, err, params)
			assert.Equal(t, secured, got != "", "%s: cipher %q", params, got)
		}
		_, err := cipher(t, open(t, dsn("tls=true")))
		require.ErrorIs(t, err, conclavesql.ErrUnavailable)
		assert.ErrorContains(t, err, "unknown authority", "the system's CAs do not know the server")

		// The certificate is for 127.0.0.1, not for localhost.
		elsewhere := strings.Replace(dsn("tlsCA="+ca), "127.0.0.1", "localhost", 1)
		_, err = cipher(t, open(t, elsewhere))
		require.ErrorIs(t, err, conclavesql.ErrUnavailable)
		assert.ErrorContains(t, err, "localhost")
		got, err := cipher(t, open(t, strings.Replace(elsewhere, "tlsCA", "tls=verify-ca&tlsCA", 1)))
		require.NoError(t, err)
		assert.NotEmpty(t, got)

		// A user that may connect with TLS only, and all that an election does.
		s.Exec(t, "CREATE USER tlsonly@'%' IDENTIFIED BY 'p' REQUIRE SSL")
		t.Cleanup(func() { s.Exec(t, "DROP USER tlsonly@'%'") })
		s.Exec(t, "GRANT ALL ON *.* TO tlsonly@'%'")
		_, at, _ := strings.Cut(s.DSN, "@")
		_, err = cipher(t, open(t, "tlsonly:p@"+at))
		assert.ErrorIs(t, err, conclavesql.ErrRefused)
		at, _, _ = strings.Cut(at, "?")
		db, _ := migrated(t, "tlsonly:p@"+at+"?tlsCA="+ca)
		p, err := db.Pin(t.Context(), nil)
		require.NoError(t, err)
		defer p.Close()
		got, err = cipher(t, p)
		require.NoError(t, err)
		assert.NotEmpty(t, got, "pinned connections too")
	})
}

// The CA is replaced while the database is open: new connections are verified
// against the new one, and by the last good one while the file cannot be used.
func TestOpen_TLSFilesAreReadForEachConnection(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		ca := s.CA(t)
		good, err := os.ReadFile(ca)
		require.NoError(t, err)
		other := mysqltest.NewCA(t)
		db := openWith(t, with(s.DSN, "tlsCA="+ca), conclavesql.Options{Deadline: 10 * time.Second})
		connects := func() error {
			p, err := db.Pin(t.Context(), nil)
			if err == nil {
				p.Close()
			}
			return err
		}
		require.NoError(t, connects())
		require.NoError(t, os.WriteFile(ca, []byte("half a fi"), 0o600))
		require.NoError(t, connects(), "the last one stays")
		require.NoError(t, os.WriteFile(ca, other, 0o600))
		assert.ErrorContains(t, connects(), "unknown authority")
		require.NoError(t, os.WriteFile(ca, append(other, good...), 0o600))
		require.NoError(t, connects(), "both")
	})
}
