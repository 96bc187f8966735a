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
	// starting or stopping, cannot write at the moment, or did not answer within
	// the deadline. The caller may retry; but the statement that failed may have
	// been applied, or may be applied later.
	ErrUnavailable = errors.New("database unavailable")

	// ErrStatement reports that the server has read the statement and refused it
	// for what it contains, or that it was not sent because the server would do
	// so. It was not applied, and a retry is refused again.
	ErrStatement = errors.New("the database refuses the statement")

	// ErrTooLarge is the ErrStatement of one that is larger than the server's
	// max_allowed_packet.
	ErrTooLarge = fmt.Errorf("%w as too large", ErrStatement)

	// ErrUnsuitable reports that the servers of a DSN with several hosts are
	// replicated in a way that can elect two leaders or lose a term: with several
	// primaries, or without a quorum. A retry is useless until an operator has
	// changed it.
	ErrUnsuitable = errors.New("replication is not suitable")

	// ErrSchemaOlder reports that Check found a schema that has to be migrated
	// first.
	ErrSchemaOlder = errors.New("the database is not migrated")

	// ErrSchemaNewer reports that Migrate found the schema of a newer program.
	// The error names both versions; nothing was changed.
	ErrSchemaNewer = errors.New("schema is newer than this program")
)

// MySQL's error numbers that are not answers to the contents of a statement. The
// texts differ between servers, the numbers do not.
const (
	errTableDenied = 1142
	errNoSuchTable = 1146
	errPacketSize  = 1153
	errLockWait    = 1205

	errNotReady      = 1047 // Galera: the node is not part of the cluster
	errOffline       = 3032 // a member that has left its group with OFFLINE_MODE
	errGroupHook     = 3100 // the group did not answer before the commit; the others may have it
	errGroupRollback = 3101 // rolled back in the commit, by the group's decision or because the member left it
)

// noAccess are the errors of a login, which come before any statement: the
// database or the user is denied or unknown, the password has expired.
var noAccess = []uint16{1044, 1045, 1049, 1820}

// notNow are the errors that say nothing about the statement: another moment, or
// another server, has another answer. Most of them mean that it was not applied.
// Those of a commit, and of a connection that was killed, leave it open: one that
// is held back for the other servers may still be applied.
var notNow = append([]uint16{
	1040, 1129, 1203, 1226, // too many connections, a blocked host, a limit of the user
	1053, 1927, 1317, // a shutdown, KILL of the connection (MariaDB) or of the statement
	errLockWait, 1213, 1206, // a lock wait, a deadlock, too many locks
	3, 1020, 1021, 1026, 1030, 1114, // the disk or the table is full, a file cannot be written, the row has changed
	1037, 1038, 1041, 1135, // out of memory or threads
	1158, 1159, 1160, 1161, // the server could not read the statement or send its answer
	1180, 1181, // an error in the commit or the rollback
	errNotReady, errOffline, errGroupHook, errGroupRollback, // replication
}, readOnlyErrors...)

// readOnlyErrors are the errors of a server that an operator has made read-only, or of
// such a session. Nothing was applied.
var readOnlyErrors = []uint16{1290, 1792, 1836}

// notExecuted are those of notNow with which the server has certainly rolled the
// statement back, or has not begun it. The others leave it open, because they come
// in a commit, from a killed connection, or from a proxy that has lost one.
var notExecuted = append([]uint16{
	errLockWait, 1213, 1206, // a lock wait, a deadlock, too many locks
	1020, 1021, 1030, 1114, // the row has changed, the disk or the table is full
	1040, 1129, 1203, 1226, 1135, // before a statement: too many connections, no thread
}, readOnlyErrors...)

// NotExecuted reports whether an error proves that the statement was not executed
// and will not be.
func NotExecuted(err error) bool {
	return errors.Is(err, ErrStatement) || RefusedAs(err, notExecuted...)
}

// fromProxy reports whether an error number is not one of a server: those of the
// client library, with which a proxy reports that it has lost the server, and
// ProxySQL's own. They say nothing about the statement.
func fromProxy(number uint16) bool { return number/1000 == 2 || number/1000 == 9 }

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
		case slices.Contains(notNow, answer.Number), fromProxy(answer.Number):
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		case answer.Number == errPacketSize:
			return fmt.Errorf("%w: %w", ErrTooLarge, err)
		}
		return fmt.Errorf("%w: %w", ErrStatement, err)
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
// its group, or has left the group or the cluster. What became of the statement is
// unknown: the others may have received it.
func refusedByGroup(err error) bool {
	return RefusedAs(err, errGroupHook, errGroupRollback, errOffline, errNotReady)
}

// missingTable reports whether a table does not exist, so that the database has
// not been migrated yet.
func missingTable(err error) bool { return RefusedAs(err, errNoSuchTable) }
