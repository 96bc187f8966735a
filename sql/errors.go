package sql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/go-sql-driver/mysql"
)

var (
	// ErrBadDSN: Open was given a DSN that cannot be read or lacks a part. The
	// error never shows the password. Trying again is useless.
	ErrBadDSN = errors.New("bad DSN")

	// ErrRefused: the server is there and does not let us in (wrong password, no
	// such database, no right). Trying again rarely helps.
	ErrRefused = errors.New("database refuses us")

	// ErrUnavailable: the server could not be reached, broke the connection, is
	// starting or stopping, or did not answer within the deadline. Try again; but
	// a statement that failed with it may have been applied, or may be later.
	ErrUnavailable = errors.New("database unavailable")

	// ErrSchemaNewer: Migrate found a schema written by a newer program. The error
	// names both versions; nothing was touched.
	ErrSchemaNewer = errors.New("schema is newer than this program")
)

// MySQL's error numbers that say something about the server and not about the
// statement. The texts differ between servers, the numbers do not.
const (
	errTooManyConns   = 1040
	errDBDenied       = 1044
	errUserDenied     = 1045
	errNotReady       = 1047 // Galera: this node is not part of the cluster now
	errUnknownDB      = 1049
	errShutdown       = 1053
	errUserConns      = 1203
	errNoSuchTable    = 1146
	errLockWait       = 1205
	errKilled         = 1317
	errConnKilled     = 1927 // MariaDB: the connection was killed
	errPasswordExpiry = 1820
	errNoBackend      = 9001 // ProxySQL: no server behind it within its time limit
)

// classify wraps what the driver says in one of the sentinels above, or returns
// it as it is: then the server has read the statement and refused it.
func classify(err error) error {
	if err == nil {
		return nil
	}
	var refused *mysql.MySQLError
	if errors.As(err, &refused) {
		switch refused.Number {
		case errDBDenied, errUserDenied, errUnknownDB, errPasswordExpiry:
			return fmt.Errorf("%w: %w", ErrRefused, err)
		case errTooManyConns, errShutdown, errUserConns, errKilled, errConnKilled, errNotReady, errNoBackend:
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return err
	}
	var network net.Error
	switch {
	case errors.As(err, &network),
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

// RefusedAs says that the server has read the statement, and refused it with one of
// these error numbers of MySQL.
func RefusedAs(err error, numbers ...uint16) bool {
	var refused *mysql.MySQLError
	return errors.As(err, &refused) && slices.Contains(numbers, refused.Number)
}

// missingTable says that a statement met no table: nobody has migrated yet.
func missingTable(err error) bool { return RefusedAs(err, errNoSuchTable) }
