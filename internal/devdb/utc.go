package devdb

import (
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	gmsfunction "github.com/dolthub/go-mysql-server/sql/expression/function"
)

// utcTimestamp is the engine's UTC_TIMESTAMP(digits). The engine makes an empty session, with all variables that MySQL
// has, to learn how many digits are asked for, each time a statement with one is parsed: an eighth of what the
// simulator's database did. What it evaluates to is the engine's own: microseconds, whatever the digits.
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
	return gmsfunction.NewUTCTimestamp(args...) // it knows what is wrong with them
}

func (u *utcTimestamp) String() string { return fmt.Sprintf("UTC_TIMESTAMP(%d)", u.digits) }

func (u *utcTimestamp) WithChildren(children ...sql.Expression) (sql.Expression, error) {
	if len(children) != 0 {
		return nil, sql.ErrInvalidChildrenNumber.New(u, len(children), 0)
	}
	return u, nil
}
