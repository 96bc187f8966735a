package fence

import (
	"context"
	stdsql "database/sql"
	"embed"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"conclave"
	"conclave/elector"
	conclavesql "conclave/sql"
)

var (
	// ErrTermEnded is returned if the write was refused because the token's term has
	// ended. The caller must stop. It wraps elector.ErrDeposed, so that Lead may return
	// it without ending Run (see StopOnError in elector.Config).
	ErrTermEnded = fmt.Errorf("the term has ended (%w)", elector.ErrDeposed)
	// ErrUnfenced is returned if the statement does not contain {fence} exactly once,
	// so that it would not be fenced. It was not sent.
	ErrUnfenced = errors.New("the statement is not fenced")
)

// Token identifies a term for fenced writes. It is valid while the lock row names
// this owner and this term. It may be copied, stored and sent.
type Token struct {
	Lock  conclavesql.Lock
	Owner string // name@incarnation
	Term  uint64
}

// New returns the token of a term that this node leads.
func New(lock conclavesql.Lock, term elector.Term) Token {
	return Token{Lock: lock, Owner: term.Leader.String(), Term: term.Number}
}

// The environment variables of a child process of `conclave lead`.
const (
	EnvTerm       = "CONCLAVE_TERM"
	EnvOwner      = "CONCLAVE_OWNER"
	EnvLock       = "CONCLAVE_LOCK"
	EnvDataCenter = "CONCLAVE_DATA_CENTER"
)

// Environ returns the token as environment variables for a child process.
func (t Token) Environ() []string {
	return []string{
		EnvTerm + "=" + strconv.FormatUint(t.Term, 10),
		EnvOwner + "=" + t.Owner,
		EnvLock + "=" + t.Lock.Name,
		EnvDataCenter + "=" + t.Lock.DataCenter,
	}
}

// FromEnv returns the token that `conclave lead` has given to this process.
func FromEnv() (Token, error) {
	t := Token{Lock: conclavesql.Lock{DataCenter: os.Getenv(EnvDataCenter), Name: os.Getenv(EnvLock)}, Owner: os.Getenv(EnvOwner)}
	term, err := strconv.ParseUint(os.Getenv(EnvTerm), 10, 64)
	if err != nil {
		return Token{}, fmt.Errorf("fence: invalid %s %q (want a term): is this a child process of `conclave lead`?", EnvTerm, os.Getenv(EnvTerm))
	}
	t.Term = term
	return t, t.validate()
}

// validate returns an error for a token that can never be valid, such as the zero Token.
func (t Token) validate() error {
	if err := t.Lock.Validate(); err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	if owner, err := conclave.ParseNodeID(t.Owner); err != nil || owner.IsZero() || t.Term == 0 {
		return fmt.Errorf("fence: invalid token with term %d and owner %q", t.Term, t.Owner)
	}
	return nil
}

func (t Token) String() string {
	return fmt.Sprintf("term %d of %s in %s", t.Term, t.Owner, t.Lock)
}

// Table returns the table that {fence} stands for, and its arguments, for statements
// that are built by other means. The arguments must be placed where the table is among
// the statement's own.
func (t Token) Table() (text string, args []any) {
	return "(" + tableSQL + ") AS fence", []any{t.Lock.DataCenter, t.Lock.Name, t.Owner, t.Term}
}

// DB executes the statements. *sql.DB, *sql.Conn and *sql.Tx implement it; for *sql.Tx
// see "What is not guaranteed", and Tx.
type DB interface {
	ExecContext(ctx context.Context, query string, args ...any) (stdsql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *stdsql.Row
}

var (
	_ DB = (*stdsql.DB)(nil)
	_ DB = (*stdsql.Conn)(nil)
	_ DB = (*stdsql.Tx)(nil)
)

// Exec executes a statement under the token and returns how many rows it changed. It
// returns ErrTermEnded if no row was changed because the term has ended, and 0, nil if
// no row matched or all values were the same already.
func Exec(ctx context.Context, db DB, token Token, query string, args ...any) (changed int64, err error) {
	if err := token.validate(); err != nil {
		return 0, err
	}
	fenced, all, err := token.expand(query, args)
	if err != nil {
		return 0, err
	}
	if changed, err = conclavesql.ExecOn(ctx, db, fenced, all...); err != nil {
		return 0, fmt.Errorf("fence: under %s: %w", token, err)
	}
	if changed > 0 {
		return changed, nil
	}
	return 0, token.Check(ctx, db)
}

// Check returns nil if the token is still valid, ErrTermEnded if it is not, and
// another error if that is unknown. It does not fence anything: the term may have ended
// when the caller reads the answer.
func (t Token) Check(ctx context.Context, db DB) error {
	var valid int
	err := db.QueryRowContext(ctx, checkSQL, t.Lock.DataCenter, t.Lock.Name, t.Owner, t.Term).Scan(&valid)
	switch {
	case err != nil:
		return fmt.Errorf("fence: check %s: %w", t, err)
	case valid == 0:
		return fmt.Errorf("fence: %s: %w", t, ErrTermEnded)
	}
	return nil
}

// marker stands for the table in a statement.
const marker = "{fence}"

// expand replaces the marker by the table, and inserts the table's arguments between
// those before the marker and those after it.
func (t Token) expand(query string, args []any) (string, []any, error) {
	at, before, count := -1, 0, 0
	questions := 0
	for i := 0; i < len(query); {
		if skipped := quoted(query[i:]); skipped > 0 {
			i += skipped
			continue
		}
		switch {
		case strings.HasPrefix(query[i:], marker):
			at, before = i, questions
			count++
			i += len(marker)
			continue
		case query[i] == '?':
			questions++
		}
		i++
	}
	if count != 1 {
		return "", nil, fmt.Errorf("fence: %w: want one %s, found %d in %q", ErrUnfenced, marker, count, query)
	}
	if before > len(args) {
		return "", nil, fmt.Errorf("fence: %d arguments for %d question marks in %q", len(args), questions, query)
	}
	text, own := t.Table()
	all := make([]any, 0, len(args)+len(own))
	all = append(all, args[:before]...)
	all = append(all, own...)
	all = append(all, args[before:]...)
	return query[:at] + text + query[at+len(marker):], all, nil
}

// quoted returns the length of the string, quoted name or comment at the beginning of
// query, in which neither marker nor question marks count; zero if there is none.
func quoted(query string) int {
	end := func(from int, mark string) int {
		if i := strings.Index(query[from:], mark); i >= 0 {
			return from + i + len(mark)
		}
		return len(query)
	}
	switch {
	case strings.HasPrefix(query, "/*"):
		return end(2, "*/")
	case strings.HasPrefix(query, "#"),
		strings.HasPrefix(query, "--") && (len(query) == 2 || query[2] <= ' ' || query[2] == 0x7f): // white space or a control character
		return end(1, "\n")
	case query[0] != '\'' && query[0] != '"' && query[0] != '`':
		return 0
	}
	for i := 1; i < len(query); i++ {
		switch {
		case query[i] == '\\' && query[0] != '`':
			i++
		case query[i] == query[0]: // a doubled quote counts as the end of one string and the start of the next
			return i + 1
		}
	}
	return len(query)
}

// files holds the statements, one in each file, under the rule of package sql.
//
//go:embed sql/*.sql
var files embed.FS

var (
	tableSQL   = conclavesql.Statement(files, "sql/table.sql")
	checkSQL   = conclavesql.Statement(files, "sql/check.sql")
	saveSQL    = conclavesql.Statement(files, "sql/save.sql")
	savedSQL   = conclavesql.Statement(files, "sql/saved.sql")
	boundSQL   = conclavesql.Statement(files, "sql/bound.sql")
	unboundSQL = conclavesql.Statement(files, "sql/unbound.sql")
)
