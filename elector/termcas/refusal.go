package termcas

import (
	"errors"

	"github.com/go-sql-driver/mysql"
)

// verdict is what an error says about a server's way with named locks.
type verdict int

const (
	fine     verdict = iota // no error
	meant                   // such a thing is not to be had on this server, ever
	broken                  // this line is lost; it says nothing of the server
	stubborn                // broken again and again: go on without, this time
)

// The numbers with which servers refuse a function or a variable for good.
const (
	errSyntax          = 1064 // a proxy or server that does not know the words
	errUnknown         = 1105 // Galera's strict mode: "prohibits use of GET_LOCK"
	errNoSuchFunction  = 1128
	errNoSuchVariable  = 1193
	errNeedsPrivilege  = 1227
	errNotSupported    = 1235
	errNoSuchRoutine   = 1305
	errRoutineDenied   = 1370
	errUserLockName    = 3057 // it does not take our names
	errFeatureDisabled = 1289 // the feature is disabled
)

// patience is how many refusals in a row, with numbers of which nothing is known,
// count as an accident. An election must not wait for ever for a server that
// always answers something unheard of.
const patience = 3

// judge tells a server that has no named locks from one that is being restarted, is
// killing connections, or stands behind a proxy with troubles of its own: all of
// them answer with a MySQL error. Only the first is remembered for ever.
func (s *Strategy) judge(err error) verdict {
	if err == nil {
		s.doubts = 0
		return fine
	}
	var refused *mysql.MySQLError
	if !errors.As(err, &refused) {
		return broken
	}
	switch refused.Number {
	case errSyntax, errUnknown, errNoSuchFunction, errNoSuchVariable, errNeedsPrivilege, errNotSupported,
		errNoSuchRoutine, errRoutineDenied, errUserLockName, errFeatureDisabled:
		s.doubts = 0
		return meant
	}
	if s.doubts++; s.doubts < patience {
		return broken
	}
	return stubborn
}
