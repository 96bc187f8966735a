package fence

import (
	"context"
	stdsql "database/sql"
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
	// ErrOver: the write was refused, because the token's term is over. Stop.
	ErrOver = errors.New("the term is over")
	// ErrUnfenced: the statement has not exactly one {fence} in it, so that nothing
	// would guard it. It was not sent.
	ErrUnfenced = errors.New("the statement is not fenced")
)

// Token is the right to write under a term: while the lock row names this owner and
// this term. It may be copied, stored and sent.
type Token struct {
	Lock  conclavesql.Lock
	Owner string // name@incarnation
	Term  uint64
}

// New is the token of a term that this node leads.
func New(lock conclavesql.Lock, term elector.Term) Token {
	return Token{Lock: lock, Owner: term.Leader.String(), Term: term.Number}
}

// The environment of a child of `conclave lead`.
const (
	EnvTerm       = "CONCLAVE_TERM"
	EnvOwner      = "CONCLAVE_OWNER"
	EnvLock       = "CONCLAVE_LOCK"
	EnvDataCenter = "CONCLAVE_DATA_CENTER"
)

// Environ is the token as a child process's environment.
func (t Token) Environ() []string {
	return []string{
		EnvTerm + "=" + strconv.FormatUint(t.Term, 10),
		EnvOwner + "=" + t.Owner,
		EnvLock + "=" + t.Lock.Name,
		EnvDataCenter + "=" + t.Lock.DataCenter,
	}
}

// FromEnv is the token that `conclave lead` gave to this process.
func FromEnv() (Token, error) {
	t := Token{Lock: conclavesql.Lock{DataCenter: os.Getenv(EnvDataCenter), Name: os.Getenv(EnvLock)}, Owner: os.Getenv(EnvOwner)}
	term, err := strconv.ParseUint(os.Getenv(EnvTerm), 10, 64)
	if err != nil {
		return Token{}, fmt.Errorf("fence: %s %q is no term: is this a child of `conclave lead`?", EnvTerm, os.Getenv(EnvTerm))
	}
	t.Term = term
	return t, t.validate()
}

// validate refuses a token that can never hold: the zero one, for instance.
func (t Token) validate() error {
	if err := t.Lock.Validate(); err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	if owner, err := conclave.ParseNodeID(t.Owner); err != nil || owner.IsZero() || t.Term == 0 {
		return fmt.Errorf("fence: a token of term %d and owner %q holds nothing", t.Term, t.Owner)
	}
	return nil
}

func (t Token) String() string {
	return fmt.Sprintf("term %d of %s in %s", t.Term, t.Owner, t.Lock)
}

// Table is what {fence} stands for, and its arguments: for those who build statements
// by other means. Mind the place of the arguments among those of the statement.
func (t Token) Table() (text string, args []any) {
	return "(" + conclavesql.FenceTable + ") AS fence", []any{t.Lock.DataCenter, t.Lock.Name, t.Owner, t.Term}
}

// DB is what runs the statements: *sql.DB, *sql.Conn, or *sql.Tx (see "What is not
// guaranteed").
type DB interface {
	ExecContext(ctx context.Context, query string, args ...any) (stdsql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *stdsql.Row
}

var (
	_ DB = (*stdsql.DB)(nil)
	_ DB = (*stdsql.Conn)(nil)
	_ DB = (*stdsql.Tx)(nil)
)

// Exec runs a statement under the token and returns how many rows it changed. Nothing
// changed because the term is over: ErrOver. Nothing changed because nothing matched,
// or all was as it is: 0, nil.
func Exec(ctx context.Context, db DB, token Token, query string, args ...any) (changed int64, err error) {
	if err := token.validate(); err != nil {
		return 0, err
	}
	fenced, all, err := token.expand(query, args)
	if err != nil {
		return 0, err
	}
	result, err := db.ExecContext(ctx, fenced, all...)
	if err != nil {
		return 0, fmt.Errorf("fence: under %s: %w", token, err)
	}
	if changed, err = result.RowsAffected(); err != nil || changed > 0 {
		return changed, err
	}
	return 0, token.Check(ctx, db)
}

// Check says whether the token still holds: nil, ErrOver, or that it cannot be known.
// It guards nothing: it may be over when the answer is read.
func (t Token) Check(ctx context.Context, db DB) error {
	var holds int
	err := db.QueryRowContext(ctx, conclavesql.FenceCheck, t.Lock.DataCenter, t.Lock.Name, t.Owner, t.Term).Scan(&holds)
	switch {
	case err != nil:
		return fmt.Errorf("fence: look whether %s still holds: %w", t, err)
	case holds == 0:
		return fmt.Errorf("fence: %s: %w", t, ErrOver)
	}
	return nil
}

// marker is the table's name in a statement.
const marker = "{fence}"

// expand puts the table in the marker's place, and its arguments between those that
// stand before the marker and those that stand after it.
func (t Token) expand(query string, args []any) (string, []any, error) {
	at, before, count := -1, 0, 0
	questions := 0
	for i := 0; i < len(query); {
		if skipped := aside(query[i:]); skipped > 0 {
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

// aside is the length of what stands at the beginning and is no SQL to look at: a
// string, a quoted name, a comment; zero otherwise.
func aside(query string) int {
	end := func(from int, mark string) int {
		if i := strings.Index(query[from:], mark); i >= 0 {
			return from + i + len(mark)
		}
		return len(query)
	}
	switch {
	case strings.HasPrefix(query, "/*"):
		return end(2, "*/")
	case strings.HasPrefix(query, "-- "), strings.HasPrefix(query, "--\n"), strings.HasPrefix(query, "#"):
		return end(1, "\n")
	case query[0] != '\'' && query[0] != '"' && query[0] != '`':
		return 0
	}
	for i := 1; i < len(query); i++ {
		switch {
		case query[i] == '\\' && query[0] != '`':
			i++
		case query[i] == query[0]: // a doubled quote ends one string and begins the next: the same to us
			return i + 1
		}
	}
	return len(query)
}
