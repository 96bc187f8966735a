package sql

import (
	"fmt"
	"time"
)

// setting is a session variable that a connection sets.
type setting struct {
	text     string // name = value
	optional bool   // a server may refuse it: it lacks the variable, or has it for all sessions only
}

// utf8Texts are the settings for texts. The driver quotes a parameter as UTF-8 and writes
// it into the statement. In gbk, sjis and others a backslash may be the second byte
// of a character, so that a server that reads the statement in one of them would not
// see that the quote after it is quoted.
var utf8Texts = []setting{
	{"character_set_client = utf8mb4", false},
	{"character_set_results = utf8mb4", false},
	{"collation_connection = utf8mb4_general_ci", false}, // columns have their own
}

// settings returns the session variables that the statements rely on. They are sent in
// one statement after those of the DSN, so that neither a DSN nor the settings of the
// server can change what a statement means or how long a session lasts.
func (o Options) settings() []setting {
	wait := o.LockWait / time.Second
	return append([]setting{
		// Every statement is a transaction of its own, because no decision takes two.
		{"autocommit = 1", false},
		// Migrations convert times in the zone of their session.
		{"time_zone = '+00:00'", false},
		// A value that does not fit is refused and not cut, and a table without InnoDB is
		// not created. Nothing else: ANSI_QUOTES, NO_BACKSLASH_ESCAPES, and ORACLE and
		// EMPTY_STRING_IS_NULL of MariaDB change what texts mean; with the last two the
		// empty owner of a new lock would be NULL.
		{"sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'", false},
		// The server ends sessions that are idle for longer, and with them a witness. A
		// beat may last longer than an operator's limit for idle clients.
		{"wait_timeout = 28800", false},
		// A read of the cluster's state returns all rows, or decisions would be missing.
		{"sql_select_limit = 9223372036854775807", false},
		// An INSERT IGNORE of a row that exists changes nothing.
		{"unique_checks = 1", false},
		// The servers refuse joins and updates that they take for large ones.
		{"sql_big_selects = 1", false},
		{"sql_safe_updates = 0", false},
		// What is not committed is not read. The first is MySQL's name, the second MariaDB's.
		{"transaction_isolation = 'REPEATABLE-READ'", true},
		{"tx_isolation = 'REPEATABLE-READ'", true},
		// The waits for a lock of a row, and of a table or the whole server. Without the
		// second, whose default is a year, each statement that is given up during a backup's
		// FLUSH TABLES WITH READ LOCK would leave a waiting connection in the server.
		{fmt.Sprintf("innodb_lock_wait_timeout = %d", wait), true},
		{fmt.Sprintf("lock_wait_timeout = %d", wait), true},
		// A limit of the execution time would end the waits for a witness. The names are
		// those of MySQL and of MariaDB.
		{"max_execution_time = 0", true},
		{"max_statement_time = 0", true},
	}, utf8Texts...)
}
