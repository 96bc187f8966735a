package sql

import (
	"context"
	"crypto/tls"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

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

// Error numbers of MySQL that have names here. The texts differ between servers,
// the numbers do not.
const (
	errTableDenied = 1142
	errNoSuchTable = 1146
	errPacketSize  = 1153
	errLockWait    = 1205

	errNotReady      = 1047 // Galera: the node is not part of the cluster
	errOffline       = 3032 // a member that has left its group with OFFLINE_MODE
	errGroupHook     = 3100 // no answer of the group before the commit; the others may have it
	errGroupRollback = 3101 // rolled back in the commit, by the group or because the member left it
)

// noAccess are the errors of a login, which come before any statement: the
// database or the user is denied or unknown, the password has expired.
var noAccess = []uint16{1044, 1045, 1049, 1820}

// notNow are the errors that say nothing about the statement: another moment,
// or another server, has another answer. Most of them mean that it was not
// applied. Those of a commit, and of a connection that was killed, leave it open:
// one that is held back for the other servers may still be applied.
var notNow = append([]uint16{
	1040, 1129, 1203, 1226, // too many connections, a blocked host, a limit of the user
	1053, 1927, 1317, // a shutdown, KILL of the connection (MariaDB) or of the statement
	errLockWait, 1213, 1206, // a lock wait, a deadlock, too many locks
	1036, 1223, // the table, or the server by a lock, is read-only at the moment
	3, 1020, 1021, 1026, 1030, 1114, // the disk or the table is full, a file cannot be written, the row has changed
	1037, 1038, 1041, 1135, // out of memory or threads
	1158, 1159, 1160, 1161, // the server could not read the statement or send its answer
	1180, 1181, // an error in the commit or the rollback
	errNotReady, errOffline, errGroupHook, errGroupRollback, // replication
	3796, 3797, 3798, 3799, // a group's new primary has not caught up
	3168, 3169, 4031, // the server cannot be used, the session was killed, or was idle for too long
	9001, // ProxySQL: no backend server within its time limit
}, readOnlyErrors...)

// readOnlyErrors are the errors of a server that an operator has made read-only,
// or of such a session. Nothing was applied.
var readOnlyErrors = []uint16{1290, 1792, 1836}

// notExecuted are those of notNow with which the server has certainly rolled the
// statement back, or has not begun it. The others leave it open, because they come
// in a commit, from a killed connection, or from a proxy that has lost one.
var notExecuted = append([]uint16{
	errLockWait, 1213, 1206, // a lock wait, a deadlock, too many locks
	1020, 1021, 1030, 1114, // the row has changed, the disk or the table is full
	1040, 1129, 1203, 1226, 1135, // before a statement: too many connections, no thread
}, readOnlyErrors...)

// Answered reports whether an error is a server's answer, as opposed to silence or a
// broken connection.
func Answered(err error) bool {
	var answer *mysql.MySQLError
	return errors.As(err, &answer)
}

// NotExecuted reports whether an error proves that the statement was not executed
// and will not be.
func NotExecuted(err error) bool {
	return errors.Is(err, ErrStatement) || RefusedAs(err, notExecuted...)
}

// contents are the errors for the contents of a statement whose SQLSTATE has
// another class than 22, 23 and 42, or that a server may send without one.
var contents = []uint16{
	1048, 1054, 1062, 1064, 1142, 1146, 1366, 1406, // of 22, 23 and 42, and the same without an SQLSTATE
	1265, 1267, 1270, 1271, 1300, 1364, // a value or its character set does not fit the column
	3819, 1442, 1449, // a CHECK, a trigger, the definer of one
	1193, 1238, 1289, 1419, 1785, 3098, 3750, // the server's settings do not allow it
}

// passing reports whether an error number says nothing about the statement.
// Proxies (ProxySQL, MaxScale) send on the errors of their own connection to a
// server, 2000 to 2999, such as 2013 for a lost one.
func passing(number uint16) bool {
	return 2000 <= number && number < 3000 || slices.Contains(notNow, number)
}

// refusesContents reports whether the server refused a statement for what it
// contains. An error that is not known is none of these: the other mistake would
// give up a write that another moment allows.
func refusesContents(answer *mysql.MySQLError) bool {
	if passing(answer.Number) {
		return false
	}
	class := string(answer.SQLState[:2])
	return class == "22" || class == "23" || class == "42" || slices.Contains(contents, answer.Number)
}

// classify wraps an error of the driver in one of the sentinels above
// (docs/databases.md, "What an answer says about a write").
func classify(err error) error {
	if err == nil {
		return nil
	}
	var answer *mysql.MySQLError
	if errors.As(err, &answer) {
		switch {
		case slices.Contains(noAccess, answer.Number):
			return fmt.Errorf("%w: %w", ErrRefused, err)
		case answer.Number == errPacketSize:
			return fmt.Errorf("%w: %w", ErrTooLarge, err)
		case refusesContents(answer):
			return fmt.Errorf("%w: %w", ErrStatement, err)
		}
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	var network net.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, mysql.ErrPktTooLarge):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case errors.As(err, &network),
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

// IsReadOnly reports whether the server, or the session, is read-only.
func IsReadOnly(err error) bool { return RefusedAs(err, readOnlyErrors...) }

// RefusedAs reports whether the server has read the statement and refused it
// with one of these error numbers.
func RefusedAs(err error, numbers ...uint16) bool {
	var refused *mysql.MySQLError
	return errors.As(err, &refused) && slices.Contains(numbers, refused.Number)
}

// refusedByGroup reports whether a member could not have a statement accepted by
// its group, or has left the group or the cluster. What became of the statement
// is unknown: the others may have received it.
func refusedByGroup(err error) bool {
	return RefusedAs(err, errGroupHook, errGroupRollback, errOffline, errNotReady)
}

// missingTable reports whether a table does not exist, so that the database has
// not been migrated yet.
func missingTable(err error) bool { return RefusedAs(err, errNoSuchTable) }
