package sql

import (
	"context"
	"crypto/tls"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

var (
	// ErrBadDSN reports a DSN that cannot be parsed or lacks a part. The
	// error never contains the password. A retry is useless.
	ErrBadDSN = errors.New("bad DSN")

	// ErrRefused reports that the server denied access (wrong password, no
	// such database, missing privileges). A retry rarely helps.
	ErrRefused = errors.New("database refused access")

	// ErrUnavailable reports that the server could not be reached, has not the
	// TLS or the certificate that the DSN requires, broke the connection, is
	// starting or stopping, cannot write at the moment, answered with an error
	// that is not known, or did not answer within the deadline. The caller may
	// retry; but the statement that failed may have been applied, or may be
	// applied later.
	ErrUnavailable = errors.New("database unavailable")

	// ErrStatement reports that the server has read the statement and refused it
	// for what it contains, or that it was not sent because the server would do
	// so. It was not applied, and a retry is refused again.
	ErrStatement = errors.New("the database refuses the statement")

	// ErrTooLarge is the ErrStatement of one that is larger than the server's
	// max_allowed_packet.
	ErrTooLarge = fmt.Errorf("%w as too large", ErrStatement)

	// ErrUnsuitable reports that the servers of a DSN with several hosts are
	// replicated in a way that can elect two leaders or lose a term: with
	// several primaries, or without a quorum. A retry is useless until an
	// operator has changed it.
	ErrUnsuitable = errors.New("replication is not suitable")

	// ErrSchemaOlder reports that Check found a schema that has to be migrated
	// first.
	ErrSchemaOlder = errors.New("the database is not migrated")

	// ErrSchemaNewer reports that Migrate found the schema of a newer program.
	// The error names both versions; nothing was changed.
	ErrSchemaNewer = errors.New("schema is newer than this program")
)

// meaning is what an error number of MySQL says to the sender of a statement, as a
// set. The texts differ between servers, the numbers do not.
type meaning int

const (
	denied      meaning = 1 << iota // at the login, which comes before any statement
	passing                         // nothing about the statement: another moment, or another server, has another answer
	notExecuted                     // the server has certainly rolled the statement back, or has not begun it
	contention                      // other transactions were in the way
	readOnly                        // an operator has made the server, or the session, read-only
	outOfGroup                      // the replication group or cluster did not accept it, or the member has left it
	contents                        // the statement is refused for what it contains
	unsupported                     // the server never allows this function or variable
)

// The numbers that have names here.
const (
	errTableDenied = 1142
	errNoSuchTable = 1146
	errPacketSize  = 1153
	errLockWait    = 1205
)

// What an operator can do about the answers that come from more than one row below.
const (
	leaveReadOnly = "this server is read-only: connect to the primary, or wait until it is promoted"
	freeDisk      = "free space on the server's disk"
)

// answers has what error numbers mean, and what an operator can do about them. Most
// that are passing mean that the statement was not applied; those of a commit, of a
// connection that was killed, and of a proxy that has lost one leave that open, so they
// are not notExecuted.
var answers = []struct {
	means   meaning
	numbers []uint16
	advice  string
}{
	{denied, []uint16{1045, 1130, 1698}, "correct the user or the password of the DSN, or allow the user to connect from this host"},
	{denied, []uint16{1044}, "grant the user SELECT, INSERT and UPDATE on this database, or correct the database in the DSN"},
	{denied, []uint16{1049}, "create the database, or correct its name in the DSN"},
	{denied, []uint16{1820, 1862}, "set a new password for the user"},
	{denied, []uint16{3118}, "unlock the user: ALTER USER ... ACCOUNT UNLOCK"},

	{passing | notExecuted | readOnly, []uint16{1290, 1792, 1836}, leaveReadOnly},
	{passing | notExecuted | contention, []uint16{errLockWait, 1213, 1206, 1020}, ""}, // a lock wait, a deadlock, too many locks, the row has changed
	{passing | notExecuted, []uint16{1021, 1114}, freeDisk},                           // the disk or the table is full
	{passing | notExecuted, []uint16{1030, 1135}, ""},                                 // the engine failed, no thread
	{passing | notExecuted, []uint16{1040, 1203, 1226}, "allow more connections (max_connections, or the limit of the user): each process needs about three"},
	{passing | notExecuted, []uint16{1129}, "the server blocks this host after connections that failed: run mysqladmin flush-hosts there"},
	{passing | outOfGroup, []uint16{1047, 3032}, ""},      // a Galera node, or a member in OFFLINE_MODE, that has left the others
	{passing | outOfGroup, []uint16{3100, 3101}, ""},      // in the commit: no answer of the group, which may have it, or rolled back
	{passing, []uint16{3796, 3797, 3798, 3799}, ""},       // a group's new primary has not caught up
	{passing, []uint16{1053, 1927, 1317}, ""},             // a shutdown, KILL of the connection (MariaDB) or of the statement
	{passing, []uint16{1223}, leaveReadOnly},              // by a lock, at the moment
	{passing, []uint16{3}, freeDisk},                      // a file cannot be written
	{passing, []uint16{1026, 1036, 1037, 1038, 1041}, ""}, // the same without the reason; the table is read-only; out of memory
	{passing, []uint16{1158, 1159, 1160, 1161}, ""},       // the server could not read the statement or send its answer
	{passing, []uint16{1180, 1181}, ""},                   // an error in the commit or the rollback
	{passing, []uint16{3168, 3169, 4031}, ""},             // the server cannot be used, the session was killed, or was idle for too long
	{passing, []uint16{9001}, ""},                         // ProxySQL: no backend server within its time limit

	{contents, []uint16{errNoSuchTable}, "create the tables once: run conclave migrate, or call DB.Migrate of conclave/sql"},
	{contents, []uint16{1054}, "the tables are older than this program: run conclave migrate, or call DB.Migrate of conclave/sql"},
	{contents, []uint16{1048, 1062, 1064, errTableDenied, 1366, 1406}, ""}, // as those before, of the classes 22, 23 and 42, but without an SQLSTATE
	{contents, []uint16{1265, 1267, 1270, 1271, 1300, 1364}, ""},           // a value or its character set does not fit the column
	{contents, []uint16{3819, 1442, 1449}, ""},                             // a CHECK, a trigger, the definer of one
	{contents, []uint16{1193, 1238, 1289, 1419, 1785, 3098, 3750}, ""},     // the server's settings do not allow it

	{unsupported, []uint16{1064, 1128, 1193, 1305}, ""}, // a server or proxy that does not know the function or variable
	{unsupported, []uint16{1227, 1235, 1289, 1370}, ""}, // it, or a privilege for it, is missing or switched off
	{unsupported, []uint16{1105, 3057}, ""},             // GET_LOCK in Galera's strict mode; the name of a lock is not accepted
}

// meaningOf returns what the server's answer means; nothing if err is no answer, or
// its number is not known. Proxies (ProxySQL, MaxScale) send on the errors of their
// own connection to a server, 2000 to 2999, such as 2013 for a lost one.
func meaningOf(err error) (m meaning) {
	var answer *mysql.MySQLError
	if !errors.As(err, &answer) {
		return 0
	}
	if 2000 <= answer.Number && answer.Number < 3000 {
		return passing
	}
	for _, row := range answers {
		if slices.Contains(row.numbers, answer.Number) {
			m |= row.means
		}
	}
	if class := string(answer.SQLState[:2]); m&passing == 0 && (class == "22" || class == "23" || class == "42") {
		m |= contents
	}
	return m
}

// deniedText is the text of a missing privilege: MySQL has the table in single quotes,
// MariaDB the database and the table in others.
var deniedText = regexp.MustCompile(`^(\S.*) command denied to user (\S+) for table (\S+)$`)

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
	for _, row := range answers {
		if row.advice != "" && slices.Contains(row.numbers, answer.Number) {
			return row.advice
		}
	}
	return ""
}

// Answered reports whether an error is a server's answer, as opposed to silence or a
// broken connection.
func Answered(err error) bool {
	var answer *mysql.MySQLError
	return errors.As(err, &answer)
}

// NotExecuted reports whether an error proves that the statement was not executed
// and will not be.
func NotExecuted(err error) bool {
	return errors.Is(err, ErrStatement) || meaningOf(err)&notExecuted != 0
}

// IsContention reports whether the statement was refused because of other transactions: a
// wait for a lock, a deadlock, too many locks, a row that has changed. It has no effect.
func IsContention(err error) bool { return meaningOf(err)&contention != 0 }

// IsReadOnly reports whether the server, or the session, is read-only.
func IsReadOnly(err error) bool { return meaningOf(err)&readOnly != 0 }

// IsUnsupported reports whether the server refused a function or a variable, such as
// a named lock, because it never allows it.
func IsUnsupported(err error) bool { return meaningOf(err)&unsupported != 0 }

// RefusedAs reports whether the server has read the statement and refused it
// with one of these error numbers.
func RefusedAs(err error, numbers ...uint16) bool {
	var refused *mysql.MySQLError
	return errors.As(err, &refused) && slices.Contains(numbers, refused.Number)
}

// missingTable reports whether a table does not exist, so that the database has
// not been migrated yet.
func missingTable(err error) bool { return RefusedAs(err, errNoSuchTable) }

// classify wraps an error of the driver in one of the sentinels above
// (docs/databases.md, "What an answer says about a write"). An answer that is not
// known is ErrUnavailable: the other mistake would give up a write that another
// moment allows.
func classify(err error) error {
	var network net.Error
	var certificate *tls.CertificateVerificationError
	m := meaningOf(err)
	switch {
	case err == nil:
		return nil
	case m&denied != 0:
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case RefusedAs(err, errPacketSize), errors.Is(err, mysql.ErrPktTooLarge):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case m&contents != 0:
		return fmt.Errorf("%w: %w", ErrStatement, err)
	case Answered(err),
		errors.As(err, &network),
		errors.As(err, &certificate),
		errors.Is(err, errCertificate),
		errors.Is(err, errNoWriter),
		errors.Is(err, mysql.ErrNoTLS),
		errors.Is(err, driver.ErrBadConn),
		errors.Is(err, mysql.ErrInvalidConn),
		errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, net.ErrClosed),
		errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}
