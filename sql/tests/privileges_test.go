package sql_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// grants returns the GRANT statements of docs/databases.md for one user, for
// another database and user.
func grants(t *testing.T, user, database, as string) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/databases.md")
	require.NoError(t, err)
	var out []string
	for _, grant := range regexp.MustCompile(`(?m)^GRANT .* TO '`+user+`'@'%';$`).FindAllString(string(page), -1) {
		grant = strings.ReplaceAll(strings.TrimSuffix(grant, ";"), " ON conclave.", " ON "+database+".")
		out = append(out, strings.ReplaceAll(grant, "'"+user+"'", "'"+as+"'"))
	}
	require.NotEmpty(t, out)
	return out
}

func TestEnsureUser_OnRealServers(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		ctx := t.Context()
		config, err := mysql.ParseDSN(s.DSN)
		require.NoError(t, err)
		admin := open(t, s.DSN)
		lock := conclavesql.Lock{DataCenter: "dc", Name: "users"}
		require.NoError(t, admin.Migrate(ctx, lock))
		name := fmt.Sprintf("meta_%d", os.Getpid())
		t.Cleanup(func() { s.Exec(t, "DROP USER '"+name+"'@'%'") })
		dsn := func(password, more string) string {
			c := config.Clone()
			c.User, c.Passwd = name, password
			return c.FormatDSN() + more
		}
		first, second := dsn("first", ""), dsn("second", "")
		require.NoError(t, admin.EnsureUser(ctx, first))
		db := open(t, first)
		require.NoError(t, db.Check(ctx, lock))
		for _, refused := range []string{"CREATE TABLE more (id INT)", "DELETE FROM distribute_lock", "UPDATE schema_version SET version = 1"} {
			_, err := db.Exec(ctx, refused)
			assert.True(t, conclavesql.RefusedAs(err, denied...), "%s: %v", refused, err)
		}
		held, err := db.Pin(ctx, nil)
		require.NoError(t, err)
		defer held.Close()
		require.NoError(t, admin.EnsureUser(ctx, second), "another password")
		var version int
		assert.NoError(t, held.QueryRow(ctx, "SELECT version FROM schema_version", nil, &version), "a connection that is open stays")
		assert.Error(t, open(t, first).Check(ctx, lock))
		assert.NoError(t, open(t, second).Check(ctx, lock))

		more := "?tls=skip-verify"
		if strings.Contains(second, "?") {
			more = "&tls=skip-verify"
		}
		require.NoError(t, admin.EnsureUser(ctx, second+more))
		assert.Error(t, open(t, second).Check(ctx, lock), "the server refuses it without TLS")
		if ca := s.CA(t); ca != "" {
			assert.NoError(t, open(t, second+more).Check(ctx, lock))
		}
	})
}

func TestEnsureUser_RefusesWhatItCannotQuote(t *testing.T) {
	db := open(t, "root:x@tcp(127.0.0.1:1)/conclave")
	for _, dsn := range []string{
		"root:y@tcp(127.0.0.1:1)/conclave", "meta:y@tcp(127.0.0.1:1)/other", "meta:@tcp(127.0.0.1:1)/conclave", "me'ta:y@tcp(127.0.0.1:1)/conclave",
		`meta:a\b@tcp(127.0.0.1:1)/conclave`, `meta:"@tcp(127.0.0.1:1)/conclave`, "meta:`@tcp(127.0.0.1:1)/conclave", "meta:a b@tcp(127.0.0.1:1)/conclave",
	} {
		assert.ErrorIs(t, db.EnsureUser(t.Context(), dsn), conclavesql.ErrBadDSN, dsn)
	}
	assert.ErrorIs(t, db.EnsureUser(t.Context(), "meta:a!b%c@tcp(127.0.0.1:1)/conclave"), conclavesql.ErrUnavailable)
}

// denied are the error numbers of missing privileges: on a database, a table, a
// column, a routine, and of the server.
var denied = []uint16{1044, 1142, 1143, 1370, 1227}

func TestPrivileges_OfMigratingAndRunning(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		config, err := mysql.ParseDSN(s.DSN)
		require.NoError(t, err)
		user := func(name, like string) (dsn string, grant func()) {
			name = fmt.Sprintf("%s_%d", name, os.Getpid())
			s.Exec(t, "CREATE USER '"+name+"'@'%' IDENTIFIED BY 'secret'")
			t.Cleanup(func() { s.Exec(t, "DROP USER '"+name+"'@'%'") })
			c := config.Clone()
			c.User, c.Passwd = name, "secret"
			return c.FormatDSN(), func() {
				for _, grant := range grants(t, like, config.DBName, name) {
					s.Exec(t, grant)
				}
			}
		}
		lock := conclavesql.Lock{DataCenter: "dc", Name: "privileges"}
		ctx := t.Context()

		adminDSN, grantAdmin := user("migrates", "conclave_admin")
		grantAdmin()
		admin := open(t, adminDSN)
		require.ErrorIs(t, admin.Check(ctx, lock), conclavesql.ErrSchemaOlder)
		require.NoError(t, admin.Migrate(ctx, lock))
		require.NoError(t, admin.Migrate(ctx, lock), "again")

		runsDSN, grantRuns := user("runs", "conclave")
		s.Exec(t, "GRANT SELECT ON "+config.DBName+".cluster_state TO 'runs_"+fmt.Sprint(os.Getpid())+"'@'%'") // it may open the database
		db := open(t, runsDSN)
		require.ErrorIs(t, db.Check(ctx, lock), conclavesql.ErrSchemaOlder, "as if it did not exist")
		grantRuns()
		require.NoError(t, db.Check(ctx, lock))
		require.ErrorIs(t, db.Check(ctx, conclavesql.Lock{DataCenter: "other", Name: "lock"}), conclavesql.ErrSchemaOlder, "without rows")

		// Every statement of the election, the state and the history.
		for _, path := range sqlFiles(t) {
			if !strings.HasPrefix(path, "sql/lock/") && !strings.HasPrefix(path, "sql/state/") && !strings.HasPrefix(path, "sql/history/") ||
				strings.HasSuffix(path, "seed.sql") { // migrate's
				continue
			}
			sent := conclavesql.Statement(os.DirFS("../.."), path)
			args := make([]any, strings.Count(sent, "?"))
			for i := range args {
				args[i] = "1"
			}
			if strings.HasPrefix(sent, "SELECT") {
				err := db.Query(ctx, sent, args, func(func(...any) error) error { return nil })
				assert.False(t, conclavesql.RefusedAs(err, denied...), "%s: %v", path, err)
				continue
			}
			_, err := db.Exec(ctx, sent, args...)
			assert.False(t, conclavesql.RefusedAs(err, denied...), "%s: %v", path, err)
		}
		for _, refused := range []string{
			"CREATE TABLE more (id INT)", "ALTER TABLE distribute_lock ADD more INT", "DROP TABLE election_history", "DELETE FROM distribute_lock",
			"DELETE FROM election_history", "UPDATE election_history SET term = 1", "UPDATE schema_version SET version = 1", "DELETE FROM cluster_state",
		} {
			_, err := db.Exec(ctx, refused)
			assert.True(t, conclavesql.RefusedAs(err, denied...), "%s: %v", refused, err)
		}
	})
}
