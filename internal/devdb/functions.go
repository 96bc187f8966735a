package devdb

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	gmsfunction "github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// provider is the engine's set of databases with the functions of this package,
// which take precedence over the built-in ones.
type provider struct {
	*memory.DbProvider
	functions map[string]sql.Function
}

var _ sql.FunctionProvider = (*provider)(nil)

func (p *provider) Function(_ *sql.Context, name string) (sql.Function, bool) {
	f, ok := p.functions[strings.ToLower(name)]
	return f, ok
}

// functions returns the functions that wait, those about named locks, and
// UTC_TIMESTAMP (see utc.go).
func (s *Server) functions() map[string]sql.Function {
	all := make(map[string]sql.Function)
	define := func(name string, args int, result sql.Type, eval func(*sql.Context, []any) (any, error)) {
		all[name] = sql.FunctionN{Name: name, Fn: func(children ...sql.Expression) (sql.Expression, error) {
			if len(children) != args {
				return nil, sql.ErrInvalidArgumentNumber.New(name, args, len(children))
			}
			return &function{expression.NaryExpression{ChildExpressions: children}, name, result, eval}, nil
		}}
	}
	define("get_lock", 2, types.Int64, s.getLock)
	ofLock := func(eval func(ctx *sql.Context, name string) any) func(*sql.Context, []any) (any, error) {
		return func(ctx *sql.Context, args []any) (any, error) {
			name, err := lockName(args[0])
			if err != nil {
				return nil, err
			}
			return eval(ctx, name), nil
		}
	}
	define("release_lock", 1, types.Int64, ofLock(func(ctx *sql.Context, name string) any {
		mine, exists := s.locks.release(s.client(ctx), name)
		if !exists {
			return nil
		}
		return boolInt(mine)
	}))
	define("release_all_locks", 0, types.Int64, func(ctx *sql.Context, _ []any) (any, error) {
		return int64(s.locks.releaseAll(s.client(ctx))), nil
	})
	define("is_used_lock", 1, types.Uint32, ofLock(func(_ *sql.Context, name string) any {
		if id := s.locks.owner(name); id != 0 {
			return id
		}
		return nil
	}))
	define("is_free_lock", 1, types.Int64, ofLock(func(_ *sql.Context, name string) any { return boolInt(s.locks.owner(name) == 0) }))
	define("load_file", 1, types.LongBlob, noLoadFile)
	define("sleep", 1, types.Int64, s.sleep)
	all["utc_timestamp"] = sql.FunctionN{Name: "utc_timestamp", Fn: newUTCTimestamp}
	return all
}

// boolInt returns SQL's 1 for true and 0 for false.
func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// getLock is GET_LOCK(name, seconds): 1 if the lock was acquired, 0 after a
// timeout. Seconds are rounded to whole ones, as in MySQL; a negative number
// waits without limit.
func (s *Server) getLock(ctx *sql.Context, args []any) (any, error) {
	name, err := lockName(args[0])
	if err != nil {
		return nil, err
	}
	limit, err := seconds(ctx, args[1])
	if err != nil {
		return nil, err
	}
	limit = limit.Round(time.Second)
	c := s.client(ctx)
	// 1. A free lock, or a call that does not wait, needs no queue.
	if s.locks.acquire(c, name) {
		return int64(1), nil
	}
	if limit == 0 {
		return int64(0), nil
	}
	// 2. Wait for the lock or for a reason to stop.
	w, err := s.locks.enqueue(c, name)
	if err != nil {
		return nil, err
	}
	waitErr := s.waitOutside(ctx, c, limit, w.granted)
	// 3. The lock may have been granted at the moment when the wait ended. If
	// this statement fails, it releases the lock for the next waiter.
	granted := s.locks.abandon(w)
	if waitErr != nil {
		if granted {
			s.locks.release(c, name)
		}
		return nil, waitErr
	}
	return boolInt(granted), nil
}

// sleep is SLEEP(seconds), which returns 0.
func (s *Server) sleep(ctx *sql.Context, args []any) (any, error) {
	limit, err := seconds(ctx, args[0])
	if err != nil {
		return nil, err
	}
	if limit > 0 {
		err = s.waitOutside(ctx, s.client(ctx), limit, nil)
	}
	return int64(0), err
}

// waitOutside waits until ready is closed or limit has passed, and then returns
// nil; it returns an error if the wait is cut short.
//
// It releases the gate meanwhile if the statement is outside a transaction and
// names no table, so that nothing it has read can become stale (the engine
// writes every table that a statement has read back, as it was then). Any other
// statement keeps the gate and waits at most as long as other statements wait
// for it.
func (s *Server) waitOutside(ctx *sql.Context, c *client, limit time.Duration, ready <-chan struct{}) error {
	var late <-chan time.Time
	timed := limit >= 0
	if !c.mayStepOut && (!timed || limit > s.cfg.LockWait) {
		limit, timed = s.cfg.LockWait, false
		t := time.NewTimer(limit)
		defer t.Stop()
		late = t.C
	}
	var out <-chan time.Time
	if timed {
		t := time.NewTimer(limit)
		defer t.Stop()
		out = t.C
	}
	if c.mayStepOut {
		s.gate.leave(c)
	}
	gone, stop := c.socket.watch()
	var err error
	select {
	case <-ready:
	case <-out:
	case <-late:
		err = errLockWait
	case <-gone:
		err = errInterrupted
	case <-c.socket.closed:
		err = errInterrupted
	case <-ctx.Done():
		err = errInterrupted
	case <-s.sockets.stopping:
		err = errStopping
	}
	stop()
	if c.mayStepOut && err == nil {
		err = s.gate.enter(c)
	}
	return err
}

// seconds converts a number of seconds, which may have a fraction.
func seconds(ctx *sql.Context, arg any) (time.Duration, error) {
	v, _, err := types.Float64.Convert(ctx, arg)
	if err != nil || v == nil {
		return 0, fmt.Errorf("invalid number of seconds: %v", arg)
	}
	return time.Duration(max(-1, min(v.(float64), math.MaxInt32)) * float64(time.Second)), nil
}

// function is an SQL function that is implemented over plain Go values.
type function struct {
	expression.NaryExpression
	name   string
	result sql.Type
	eval   func(*sql.Context, []any) (any, error)
}

var (
	_ sql.FunctionExpression         = (*function)(nil)
	_ sql.NonDeterministicExpression = (*function)(nil)
	_ sql.CollationCoercible         = (*function)(nil)
)

func (f *function) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	args := make([]any, len(f.ChildExpressions))
	for i, child := range f.ChildExpressions {
		v, err := child.Eval(ctx, row)
		if err != nil {
			return nil, err
		}
		if args[i], err = sql.UnwrapAny(ctx, v); err != nil {
			return nil, err
		}
	}
	return f.eval(ctx, args)
}

func (f *function) WithChildren(children ...sql.Expression) (sql.Expression, error) {
	if len(children) != len(f.ChildExpressions) {
		return nil, sql.ErrInvalidChildrenNumber.New(f, len(children), len(f.ChildExpressions))
	}
	g := *f
	g.ChildExpressions = children
	return &g, nil
}

func (f *function) FunctionName() string { return f.name }
func (f *function) Description() string {
	return f.name + " as in MySQL; it does not hold the gate while it waits"
}
func (f *function) Type() sql.Type           { return f.result }
func (f *function) IsNullable() bool         { return true }
func (f *function) IsNonDeterministic() bool { return true }

func (f *function) CollationCoercibility(*sql.Context) (sql.CollationID, byte) {
	return sql.Collation_binary, 5
}

func (f *function) String() string {
	args := make([]string, len(f.ChildExpressions))
	for i, child := range f.ChildExpressions {
		args[i] = child.String()
	}
	return f.name + "(" + strings.Join(args, ",") + ")"
}

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
