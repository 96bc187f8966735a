package devdb

import (
	"cmp"
	"context"
	"net"
	"regexp"
	"strings"

	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	"github.com/hashicorp/go-hclog"
)

// client is one connection. Unless noted otherwise, its fields are used by the
// connection's goroutine, or by the engine's while it executes a statement of
// the connection.
type client struct {
	id     uint32
	socket *socket
	log    hclog.Logger

	session    *memory.Session
	inside     bool // holds the gate
	evicted    bool // its idle transaction was ended; guarded by gate.mu
	wrote      bool // committed rows or tables may differ from the file
	mayStepOut bool // the present statement may release the gate while it waits

	savepoints map[string]sql.Transaction // the transaction that has each

	waits *waiter // its place in the queue of a named lock; guarded by lockTable.mu
}

// handler passes commands from the wire to the engine through the gate. It
// defines every method instead of embedding the engine's handler, so that a
// method that a new version of the engine adds cannot bypass the gate.
type handler struct {
	server *Server
	engine mysql.Handler
}

var _ mysql.Handler = (*handler)(nil)

func (c *client) inTransaction() bool { return c.session != nil && c.session.GetTransaction() != nil }

func (h *handler) NewConnection(conn *mysql.Conn) {
	s := h.server
	c := &client{id: conn.ConnectionID, socket: conn.Conn.(*socket), log: s.log, savepoints: map[string]sql.Transaction{}}
	conn.ClientData = c
	c.socket.login.known = func() bool { return conn.UserData != nil }
	s.mu.Lock()
	s.clients[c.id] = c
	s.mu.Unlock()
	h.engine.NewConnection(conn)
}

// ConnectionClosed runs in the connection's goroutine after its socket was
// closed.
func (h *handler) ConnectionClosed(conn *mysql.Conn) {
	c := conn.ClientData.(*client)
	// 1. Release the named locks first, without the gate: a follower may wait
	// for the lock of a killed leader.
	h.server.locks.releaseAll(c)
	// 2. Roll back an open transaction.
	h.abort(c)
	h.engine.ConnectionClosed(conn)
	h.server.mu.Lock()
	delete(h.server.clients, c.id)
	h.server.mu.Unlock()
	c.socket.finished.Store(true)
}

func (h *handler) ConnectionAborted(conn *mysql.Conn, reason string) error {
	h.server.log.Debug("connection refused", "connection", conn.ConnectionID, "reason", reason)
	return h.engine.ConnectionAborted(conn, reason)
}

func (h *handler) ComInitDB(conn *mysql.Conn, name string) error {
	return h.engine.ComInitDB(conn, name)
}

func (h *handler) ComQuery(ctx context.Context, conn *mysql.Conn, query string, send mysql.ResultSpoolFn) error {
	query = h.server.cfg.Rewrite(query)
	return h.execute(conn, query, send, func(keep mysql.ResultSpoolFn) error {
		return h.engine.ComQuery(ctx, conn, query, keep)
	})
}

func (h *handler) ComMultiQuery(ctx context.Context, conn *mysql.Conn, query string, send mysql.ResultSpoolFn) (rest string, err error) {
	query = h.server.cfg.Rewrite(query)
	err = h.execute(conn, query, send, func(keep mysql.ResultSpoolFn) error {
		rest, err = h.engine.ComMultiQuery(ctx, conn, query, keep)
		return err
	})
	return rest, err
}

func (h *handler) ComStmtExecute(ctx context.Context, conn *mysql.Conn, prepared *mysql.PrepareData, send func(*sqltypes.Result) error) error {
	spool := func(r *sqltypes.Result, _ bool) error { return send(r) }
	return h.execute(conn, prepared.PrepareStmt, spool, func(keep mysql.ResultSpoolFn) error {
		return h.engine.ComStmtExecute(ctx, conn, prepared, func(r *sqltypes.Result) error { return keep(r, false) })
	})
}

// ComPrepare does not execute the statement, but it reads the tables' columns
// and therefore needs the gate.
func (h *handler) ComPrepare(ctx context.Context, conn *mysql.Conn, query string, prepared *mysql.PrepareData) ([]*querypb.Field, error) {
	c := conn.ClientData.(*client)
	if err := h.server.gate.enter(c); err != nil {
		return nil, err
	}
	fields, err := h.engine.ComPrepare(ctx, conn, query, prepared)
	return fields, cmp.Or(err, h.leave(c, err == nil))
}

// ComResetConnection releases the connection's locks and resets its transaction
// and variables.
func (h *handler) ComResetConnection(conn *mysql.Conn) error {
	c := conn.ClientData.(*client)
	h.server.locks.releaseAll(c)
	h.abort(c)
	return h.engine.ComResetConnection(conn)
}

func (h *handler) WarningCount(conn *mysql.Conn) uint16 { return h.engine.WarningCount(conn) }

func (h *handler) ParserOptionsForConnection(conn *mysql.Conn) (sqlparser.ParserOptions, error) {
	return h.engine.ParserOptionsForConnection(conn)
}

// firstWords returns what a statement does, without what it has in quotes, such as a
// password.
func firstWords(query string) string {
	words := strings.Fields(query)
	text := strings.Join(words[:min(3, len(words))], " ")
	return text[:min(80, len(text))]
}

// execute executes one statement with the gate held.
func (h *handler) execute(conn *mysql.Conn, query string, send mysql.ResultSpoolFn, run func(mysql.ResultSpoolFn) error) error {
	s, c := h.server, conn.ClientData.(*client)
	s.statements.Add(1)
	k := kindOf(query)
	switch k {
	case kills:
		return run(send)
	case refused:
		return mysql.NewSQLError(mysql.ERNotSupportedYet, "42000", "This embedded server does not support: %s", firstWords(query))
	}
	done, err := s.around(c.socket.RemoteAddr(), query)
	if err != nil {
		return err
	}
	// 1. Enter the gate.
	if err := s.gate.enter(c); err != nil {
		return err
	}
	c.mayStepOut = !c.inTransaction() && mayWaitOutside(k, query)
	// 2. Execute, and copy the answer: its rows are in a buffer that the engine
	// reuses, and a client that does not read its answer must not keep the
	// gate.
	var answer results
	if save := savepoint.FindStringSubmatch(query); save != nil {
		err = cmp.Or(c.savepoint(save[1] != "", strings.ToLower(save[2])), answer.keep(&sqltypes.Result{}, false))
	} else {
		err = run(answer.keep)
	}
	if err != nil && strings.Contains(err.Error(), context.Canceled.Error()) {
		err = errInterrupted // only KILL QUERY cancels the engine's own waits
	}
	done(answer.affected, err)
	if err != nil {
		c.log.Debug("statement failed", "connection", c.id, "error", err, "statement", query)
	} else if k == shapes || k == changes && answer.affected > 0 {
		c.wrote = true
	}
	if k == shapes {
		s.store.forgetShapes()
	}
	// 3. Write committed changes to the file and leave the gate.
	err = cmp.Or(err, h.leave(c, err == nil))
	// 4. Only now send the answer.
	if err != nil {
		return err
	}
	return answer.send(send)
}

// savepoint matches the statements that make and release a savepoint.
var savepoint = regexp.MustCompile(`(?i)^\s*(release\s+)?savepoint\s+(\w+)[\s;]*$`)

// savepoint makes a savepoint of the present transaction, or releases it. The engine has
// none; this one shows only that the transaction has not ended.
func (c *client) savepoint(release bool, name string) error {
	has := c.inTransaction() && c.savepoints[name] == c.session.GetTransaction()
	switch {
	case release && !has:
		return mysql.NewSQLError(mysql.ERSPDoesNotExist, "42000", "SAVEPOINT %s does not exist", name)
	case release:
		delete(c.savepoints, name)
	case c.inTransaction():
		c.savepoints[name] = c.session.GetTransaction()
	}
	return nil
}

// around calls Config.Around before a statement, and returns the function to
// call after it.
func (s *Server) around(from net.Addr, query string) (done func(changed uint64, err error), refusal error) {
	if s.cfg.Around != nil {
		done, refusal = s.cfg.Around(from, query)
	}
	if done == nil {
		done = func(uint64, error) {}
	}
	return done, refusal
}

// leave ends a statement. Changes of a statement outside a transaction are
// written to the file before the gate is free; an open transaction keeps the
// gate.
func (h *handler) leave(c *client, done bool) error {
	if !c.inside { // its wait without the gate was cut short; there is nothing to commit
		c.session.SetTransaction(nil)
		return nil
	}
	s := h.server
	open, err := h.settle(c, done)
	if err == nil && open {
		s.gate.pause(c)
		return nil
	}
	if err == nil && c.wrote {
		if err = s.store.save(); err != nil {
			// Memory and file differ, and the file counts: stop as in a crash,
			// and keep the gate so that no other statement reads the memory.
			s.fail(err)
			return err
		}
		c.wrote = false
	}
	s.gate.leave(c)
	return err
}

// settle reports whether a transaction is open, and closes one that the engine
// should have closed.
//
// After an error in autocommit the engine keeps the statement's snapshot as an
// open transaction. The next statement would read old rows and write them back
// over changes that others have committed since.
func (h *handler) settle(c *client, done bool) (open bool, err error) {
	if !c.inTransaction() {
		if c.session != nil {
			c.session.SetIgnoreAutoCommit(false) // the engine does not reset this when a CREATE ends a transaction
		}
		return false, nil
	}
	tx := c.session.GetTransaction()
	ctx := h.server.context(c.session)
	autocommit, err := plan.IsSessionAutocommit(ctx)
	if err != nil || !autocommit || c.session.GetIgnoreAutoCommit() {
		return err == nil, err
	}
	if done { // SET autocommit=1 commits the open transaction
		err = c.session.CommitTransaction(ctx, tx)
	} else {
		err = c.session.Rollback(ctx, tx)
	}
	c.session.SetTransaction(nil)
	return false, err
}

// abort rolls back the connection's open transaction and leaves the gate.
func (h *handler) abort(c *client) {
	if !c.inside {
		return
	}
	if c.inTransaction() {
		tx := c.session.GetTransaction()
		ctx := h.server.context(c.session)
		if err := c.session.Rollback(ctx, tx); err != nil {
			h.server.fail(err)
		}
		c.session.SetIgnoreAutoCommit(false)
		c.session.SetTransaction(nil)
	}
	c.wrote = false
	h.server.gate.leave(c)
}

// results is a copy of a statement's answer, kept until the gate was left.
type results struct {
	parts    []*sqltypes.Result
	more     []bool
	affected uint64
}

func (r *results) keep(part *sqltypes.Result, more bool) error {
	r.affected += part.RowsAffected
	own := *part
	own.Rows = make([][]sqltypes.Value, len(part.Rows))
	for i, row := range part.Rows {
		own.Rows[i] = make([]sqltypes.Value, len(row))
		for j, v := range row {
			own.Rows[i][j] = v
			if !v.IsNull() {
				own.Rows[i][j] = sqltypes.MakeTrusted(v.Type(), append([]byte{}, v.Raw()...))
			}
		}
	}
	r.parts, r.more = append(r.parts, &own), append(r.more, more)
	return nil
}

func (r *results) send(to mysql.ResultSpoolFn) error {
	for i, part := range r.parts {
		if err := to(part, r.more[i]); err != nil {
			return err
		}
	}
	return nil
}

// context returns an engine context for work on behalf of a client.
func (s *Server) context(session sql.Session) *sql.Context {
	return sql.NewContext(context.Background(), sql.WithSession(session), sql.WithProcessList(s.engine.ProcessList))
}

// kind classifies a statement for the gate and the file before the engine
// parses it. A statement that is not known to be a read is treated as a write,
// which costs an unnecessary write to the file but never loses a row.
type kind int

const (
	reads   kind = iota // changes no table: SELECT, SHOW, SET, BEGIN, COMMIT, ...
	changes             // changes rows if it reports any: INSERT, UPDATE, DELETE, REPLACE
	shapes              // may change anything: CREATE, ALTER, CALL, EXECUTE, and unknown statements
	kills               // KILL, which must not wait for a transaction that holds the gate
	refused             // not supported with this server's guarantees
)

var keywords = map[string]kind{
	"select": reads, "show": reads, "describe": reads, "desc": reads, "explain": reads, "use": reads, "do": reads,
	"set": reads, "begin": reads, "start": reads, "commit": reads, "rollback": reads, "values": reads, "table": reads,
	"prepare": reads, "deallocate": reads, "unlock": reads, "savepoint": reads, "release": reads,
	"insert": changes, "update": changes, "delete": changes, "replace": changes, "with": changes,
	"kill": kills,
	"lock": refused, "load": refused,
}

var (
	firstWord  = regexp.MustCompile(`^(?:[\s(;]|/\*(?s:.*?)\*/|--[^\n]*(?:\n|$)|#[^\n]*(?:\n|$))*([A-Za-z]+)`)
	namesTable = regexp.MustCompile(`(?i)\b(?:from|table|into)\b`)
	// Objects that are not stored in the file and would be lost by a restart.
	notKept = regexp.MustCompile(`(?i)^create\s+(?:or\s+replace\s+|definer\s*=\s*\S+\s+|algorithm\s*=\s*\w+\s+|sql\s+security\s+\w+\s+|temporary\s+)*(view|trigger|procedure|function|event|user|role)\b`)
)

func kindOf(query string) kind {
	at := firstWord.FindStringSubmatchIndex(query)
	if at == nil {
		return shapes
	}
	k, known := keywords[strings.ToLower(query[at[2]:at[3]])]
	switch {
	case !known && notKept.MatchString(query[at[2]:]):
		return refused
	case !known:
		return shapes
	}
	return k
}

// mayWaitOutside reports whether the statement may wait without the gate: a
// read that names no table has read nothing that could become stale.
func mayWaitOutside(k kind, query string) bool {
	return k == reads && !namesTable.MatchString(query)
}
