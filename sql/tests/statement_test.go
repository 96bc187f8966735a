package sql_test

import (
	stdsql "database/sql"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	conclavesql "conclave/sql"
)

// Every server accepts every statement of the module: it knows the syntax, the
// tables and the columns.
func TestStatements_AreAcceptedByEveryServer(t *testing.T) {
	files := os.DirFS("../..")
	servers(t, func(t *testing.T, dsn string) {
		migrated(t, dsn)
		db, err := stdsql.Open("mysql", dsn)
		require.NoError(t, err)
		defer db.Close()
		for _, create := range []bool{true, false} {
			for _, path := range sqlFiles(t) {
				sent := conclavesql.Statement(files, path)
				switch isTable := strings.HasPrefix(sent, "CREATE TABLE"); {
				case create && isTable:
					_, err := db.ExecContext(t.Context(), sent)
					assert.NoError(t, err, path)
				case strings.Contains(sent, "performance_schema") && strings.HasSuffix(t.Name(), "/embedded"):
					// It has no such database; Diagnose continues without an answer.
				case path == "sql/member/group.sql" && strings.HasSuffix(t.Name(), "/mariadb"):
					// It has no such table, and is not asked: it is in no group.
				case strings.Contains(sent, "SAVEPOINT"): // MySQL prepares none, and fence.Tx sends them as text
					tx, err := db.BeginTx(t.Context(), nil)
					require.NoError(t, err)
					for _, statement := range []string{conclavesql.Statement(files, "elector/fence/sql/save.sql"), sent} {
						_, err := tx.ExecContext(t.Context(), statement)
						assert.NoError(t, err, path)
					}
					assert.NoError(t, tx.Rollback())
				case !create && !isTable:
					// The shop's write under a term joins the fence's table.
					fence := conclavesql.Statement(files, "elector/fence/sql/table.sql")
					assert.NoError(t, prepare(t, db, strings.ReplaceAll(sent, "{fence}", "("+fence+") AS fence")), path)
				}
			}
		}
	})
}

// prepare returns the server's error for a statement that it does not accept.
func prepare(t *testing.T, db *stdsql.DB, statement string) error {
	prepared, err := db.PrepareContext(t.Context(), statement)
	if err != nil {
		return err
	}
	defer prepared.Close()
	return nil
}
