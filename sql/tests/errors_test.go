package sql_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

func TestAdvice_NamesWhatToDo(t *testing.T) {
	for _, test := range []struct {
		number    uint16
		text, has string
	}{
		{1146, "Table 'shop.distribute_lock' doesn't exist", "Migrate"},
		{1142, "UPDATE command denied to user 'job'@'10.0.0.7' for table 'distribute_lock'", "GRANT UPDATE ON distribute_lock to the account of 'job'@'10.0.0.7', whose host may be a pattern"},
		{1142, "SELECT, INSERT command denied to user 'job'@'%' for table `shop`.`election_history`", "GRANT SELECT, INSERT ON `shop`.`election_history` to the account of 'job'@'%'"},
		{1045, "Access denied for user 'job'@'10.0.0.7' (using password: YES)", "password"},
		{1290, "The MySQL server is running with the --super-read-only option so it cannot execute this statement", "primary"},
		{1040, "Too many connections", "max_connections"},
		{1213, "Deadlock found when trying to get lock", ""},
	} {
		advice := conclavesql.Advice(fmt.Errorf("renew: %w", &mysql.MySQLError{Number: test.number, Message: test.text}))
		if test.has == "" {
			assert.Empty(t, advice)
			continue
		}
		assert.Contains(t, advice, test.has)
	}
	assert.Empty(t, conclavesql.Advice(errors.New("no answer")))
}

// What the servers themselves say to a user without a privilege, and without tables.
func TestAdvice_KnowsTheServersTexts(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		db, err := conclavesql.Open(s.DSN, conclavesql.Options{})
		require.NoError(t, err)
		defer db.Close()
		_, err = db.Exec(t.Context(), "SELECT 1 FROM distribute_lock")
		assert.Contains(t, conclavesql.Advice(err), "Migrate", "%v", err)
	})
}
