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
	// starting or stopping, or did not answer within the deadline. The caller may retry; but the statement that failed may have
	// been applied, or may be applied later.
	ErrUnavailable = errors.New("database unavailable")

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

// MySQL's error numbers for conditions of the server, as opposed to the
// statement. The texts differ between servers, the numbers do not.
const (
	errTooManyConns   = 1040
	errDBDenied       = 1044
	errUserDenied     = 1045
	errNotReady       = 1047 // Galera: the node is not part of the cluster
	errUnknownDB      = 1049
	errShutdown       = 1053
	errUserConns      = 1203
	errTableDenied    = 1142
	errNoSuchTable    = 1146
	errLockWait       = 1205
	errKilled         = 1317
	errConnKilled     = 1927 // MariaDB: the connection was killed
	errPasswordExpiry = 1820
	errNoBackend      = 9001 // ProxySQL: no backend server within its time limit
	errOffline        = 3032 // a member that has left its group with OFFLINE_MODE
	errGroupHook      = 3100 // the group did not answer before the commit; the others may have it
	errGroupRollback  = 3101 // rolled back in the commit, by the group's decision or because the member left it
)

// classify wraps an error of the driver in one of the sentinels above. It
// returns the error unchanged if the server has read the statement and refused
// it.
func classify(err error) error {
	if err == nil {
		return nil
	}
	var refused *mysql.MySQLError
	if errors.As(err, &refused) {
		switch refused.Number {
		case errDBDenied, errUserDenied, errUnknownDB, errPasswordExpiry:
			return fmt.Errorf("%w: %w", ErrRefused, err)
		case errTooManyConns, errShutdown, errUserConns, errKilled, errConnKilled, errNotReady, errNoBackend,
			errOffline, errGroupHook, errGroupRollback:
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return err
	}
	var network net.Error
	var certificate *tls.CertificateVerificationError
	switch {
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
