package sql_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// hostile are values of global variables with which the statements would fail, or
// mean something else. A server without the variable refuses it.
var hostile = map[string]string{
	"sql_mode":                 "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'",
	"autocommit":               "0",
	"time_zone":                "'+08:00'",
	"wait_timeout":             "2",
	"sql_select_limit":         "1",
	"unique_checks":            "0",
	"sql_safe_updates":         "1",
	"sql_big_selects":          "0",
	"max_join_size":            "1",
	"transaction_isolation":    "'READ-UNCOMMITTED'",
	"tx_isolation":             "'READ-UNCOMMITTED'",
	"lock_wait_timeout":        "31536000",
	"innodb_lock_wait_timeout": "50",
	"max_statement_time":       "1",
	"max_execution_time":       "1000",
	"default_storage_engine":   "'MyISAM'",
	"init_connect":             "'SET NAMES gbk'", // for users without administrative rights
}

// underHostileSettings gives the server the hostile settings until the test ends, and returns the
// DSN of a user for whom they hold.
func underHostileSettings(t *testing.T, s *mysqltest.Server) (dsn string) {
	t.Helper()
	s.NeedsContainer(t)
	config, err := mysql.ParseDSN(s.DSN)
	require.NoError(t, err)
	s.Exec(t, "CREATE USER 'plain'@'%' IDENTIFIED BY 'plain'")
	t.Cleanup(func() { s.Exec(t, "DROP USER 'plain'@'%'") })
	s.Exec(t, "GRANT ALL ON "+config.DBName+".* TO 'plain'@'%'")
	t.Cleanup(s.Reconnect)
	root := plain(t, s, "")
	for name, value := range hostile {
		if name == "sql_mode" && s.Kind == mysqltest.MariaDB {
			value = "'ORACLE,EMPTY_STRING_IS_NULL,ANSI_QUOTES,NO_BACKSLASH_ESCAPES'"
		}
		if ask(t, root, "SELECT @@GLOBAL."+name) == "error 1193" {
			continue
		}
		s.Exec(t, "SET GLOBAL "+name+" = "+value)
		t.Cleanup(func() { s.Exec(t, "SET GLOBAL "+name+" = DEFAULT") })
	}
	config.User, config.Passwd = "plain", "plain"
	return config.FormatDSN()
}

// relied are the session variables that the statements rely on. A server has not all of
// them.
var relied = map[string]string{
	"autocommit":               "1",
	"time_zone":                "+00:00",
	"sql_mode":                 "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION",
	"wait_timeout":             "28800",
	"sql_select_limit":         "9223372036854775807",
	"unique_checks":            "1",
	"sql_big_selects":          "1",
	"sql_safe_updates":         "0",
	"transaction_isolation":    "REPEATABLE-READ",
	"tx_isolation":             "REPEATABLE-READ",
	"innodb_lock_wait_timeout": "2",
	"lock_wait_timeout":        "2",
	"max_execution_time":       "0",
	"max_statement_time":       "0",
	"character_set_client":     "utf8mb4",
	"character_set_results":    "utf8mb4",
	"collation_connection":     "utf8mb4_general_ci",
}

// Whatever the server's operator and the DSN have set, each connection has the
// session's variables that the statements rely on.
func TestConnections_SetWhatTheStatementsRelyOn(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		dsn := underHostileSettings(t, s)
		db := open(t, dsn+"?charset=gbk&collation=gbk_chinese_ci&CHARACTER_SET_CLIENT=gbk&wait_timeout=3&sql_mode="+url.QueryEscape("'ANSI'"))
		lock := conclavesql.Lock{DataCenter: "test", Name: "it's"}
		require.NoError(t, db.Migrate(t.Context(), lock))
		pinned, err := db.Pin(t.Context(), func(err error) { assert.NoError(t, err, "an idle connection was ended") })
		require.NoError(t, err)
		defer pinned.Close()

		for name, want := range relied {
			for _, conn := range []conclavesql.Querier{db, pinned} {
				var have string
				err := conn.QueryRow(t.Context(), "SELECT @@SESSION."+name, nil, &have)
				if number(err) == 1193 {
					break // the server has no such variable
				}
				require.NoError(t, err, name)
				have = strings.TrimSuffix(have, ".000000")
				assert.Equal(t, want, have, name)
			}
		}

		// Texts whose last byte would be taken for a backslash, and others.
		elect(t, db, lock, "a@1", 1)
		store := conclavesql.NewStateStore(db, lock)
		for i, body := range []string{"车's", `"; DROP TABLE x -- \`, `\'"` + "\x00\x1a😀", "", "誠\\' OR 1=1 "} {
			states, err := store.Read(t.Context())
			require.NoError(t, err)
			require.Len(t, states, len(conclavesql.Kinds()))
			outcome, err := store.Write(t.Context(), conclavesql.Fence{Owner: "a@1", Term: 1}, states[conclavesql.KindConfig],
				conclavesql.State{Body: body, Seq: uint64(i + 1), Nonce: "n"})
			require.NoError(t, err)
			require.Equal(t, conclavesql.Written, outcome)
			assert.Equal(t, body, read(t, db, lock, conclavesql.KindConfig).Body)
		}

		// Longer than the server's wait_timeout.
		idle := time.NewTimer(3500 * time.Millisecond)
		defer idle.Stop()
		<-idle.C
		var one int
		require.NoError(t, pinned.QueryRow(t.Context(), "SELECT 1", nil, &one))
	})
}

// Tables are made on InnoDB whatever the server's default is, and those on another
// engine are not used.
func TestMigrate_TablesAreOnInnoDB(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		dsn := underHostileSettings(t, s)
		db := open(t, dsn)
		lock := conclavesql.DefaultLock()
		require.NoError(t, db.Migrate(t.Context(), lock))
		require.NoError(t, db.Check(t.Context(), lock))
		require.NoError(t, db.Create(t.Context(), "ALTER TABLE cluster_state MODIFY lock_name varchar(100) CHARACTER SET ascii NOT NULL, ENGINE=MyISAM"))
		for _, prepare := range []error{db.Migrate(t.Context(), lock), db.Check(t.Context(), lock)} {
			require.ErrorContains(t, prepare, "table cluster_state is on MyISAM, want InnoDB")
		}
	})
}
