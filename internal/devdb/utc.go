package devdb

import (
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	gmsfunction "github.com/dolthub/go-mysql-server/sql/expression/function"
)

// utcTimestamp is the engine's UTC_TIMESTAMP(digits). To evaluate digits, the
// engine creates a session with all of MySQL's variables each time it parses
// such a statement, which took an eighth of the time of the simulator's
// database. The value is the engine's own, with microseconds for any number of
// digits.
type utcTimestamp struct {
	*gmsfunction.UTCTimestamp
	digits int8
}

func newUTCTimestamp(args ...sql.Expression) (sql.Expression, error) {
	if len(args) == 1 {
		if l, ok := args[0].(*expression.Literal); ok {
			if digits, ok := l.Value().(int8); ok && 0 <= digits && digits <= 6 {
				return &utcTimestamp{new(gmsfunction.UTCTimestamp), digits}, nil
			}
		}
	}
	return gmsfunction.NewUTCTimestamp(args...) // returns the error for invalid arguments
}

func (u *utcTimestamp) String() string { return fmt.Sprintf("UTC_TIMESTAMP(%d)", u.digits) }

func (u *utcTimestamp) WithChildren(children ...sql.Expression) (sql.Expression, error) {
	if len(children) != 0 {
		return nil, sql.ErrInvalidChildrenNumber.New(u, len(children), 0)
	}
	return u, nil
}
