package sql

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// deniedText is the text of a missing privilege: MySQL has the table in single quotes,
// MariaDB the database and the table in others.
var deniedText = regexp.MustCompile(`^(\S.*) command denied to user (\S+) for table (\S+)$`)

// advices has what an operator can do about an answer of the server.
var advices = []struct {
	do      string
	numbers []uint16
}{
	{"create the tables once: call Migrate of this package, or run conclave migrate", []uint16{errNoSuchTable}},
	{"the tables are older than this program: call Migrate, or run conclave migrate", []uint16{1054}},
	{"correct the user or the password of the DSN, or allow the user to connect from this host", []uint16{1045, 1130, 1698}},
	{"grant the user SELECT, INSERT and UPDATE on this database, or correct the database in the DSN", []uint16{1044}},
	{"create the database, or correct its name in the DSN", []uint16{1049}},
	{"set a new password for the user", []uint16{1820, 1862}},
	{"unlock the user: ALTER USER ... ACCOUNT UNLOCK", []uint16{3118}},
	{"this server is read-only: connect to the primary, or wait until it is promoted", []uint16{1290, 1792, 1836, 1223}},
	{"allow more connections (max_connections, or the limit of the user): each process needs about three", []uint16{1040, 1203, 1226}},
	{"the server blocks this host after connections that failed: run mysqladmin flush-hosts there", []uint16{1129}},
	{"free space on the server's disk", []uint16{1021, 1114, 3}},
}

// Advice returns what an operator can do about the error of a statement or a
// connection; empty if that is not known. It names the privilege that is missing, but not
// the account that needs it: the server names the user and the host of the connection.
func Advice(err error) string {
	var answer *mysql.MySQLError
	if !errors.As(err, &answer) {
		return ""
	}
	if m := deniedText.FindStringSubmatch(answer.Message); m != nil {
		return fmt.Sprintf("GRANT %s ON %s to the account of %s, whose host may be a pattern: SELECT CURRENT_USER() on its connection names it",
			m[1], strings.Trim(m[3], "'"), m[2])
	}
	for _, a := range advices {
		if RefusedAs(err, a.numbers...) {
			return a.do
		}
	}
	return ""
}
