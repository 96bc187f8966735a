package termcas

import (
	"errors"

	"github.com/go-sql-driver/mysql"
)

// errorClass is what an error of a statement about named locks means.
type errorClass int

const (
	noError      errorClass = iota
	unsupported             // this server never allows it
	connBroken              // the connection is lost; nothing is known about the server
	keepsFailing            // failed several times in a row: continue without it, this time
)

// The MySQL error numbers with which servers refuse a function or a variable
// permanently.
const (
	errSyntax          = 1064 // a proxy or server that does not know the function
	errUnknown         = 1105 // Galera's strict mode: "prohibits use of GET_LOCK"
	errNoSuchFunction  = 1128
	errNoSuchVariable  = 1193
	errNeedsPrivilege  = 1227
	errNotSupported    = 1235
	errNoSuchRoutine   = 1305
	errRoutineDenied   = 1370
	errUserLockName    = 3057 // the lock's name is not accepted
	errFeatureDisabled = 1289
)

// maxRefusals is after how many unknown MySQL errors in a row an election
// continues without a witness, so that it does not wait for ever for a server that
// always answers with an error.
const maxRefusals = 3

// classify distinguishes a server that has no named locks from one that is being
// restarted, kills connections, or is behind a failing proxy. All of them answer
// with a MySQL error; only the first is remembered.
func (s *Strategy) classify(err error) errorClass {
	if err == nil {
		s.refusals = 0
		return noError
	}
	var refused *mysql.MySQLError
	if !errors.As(err, &refused) {
		return connBroken
	}
	switch refused.Number {
	case errSyntax, errUnknown, errNoSuchFunction, errNoSuchVariable, errNeedsPrivilege, errNotSupported,
		errNoSuchRoutine, errRoutineDenied, errUserLockName, errFeatureDisabled:
		s.refusals = 0
		return unsupported
	}
	if s.refusals++; s.refusals < maxRefusals {
		return connBroken
	}
	return keepsFailing
}
