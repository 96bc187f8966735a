package devdb

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/sql"
)

// store keeps all tables in one SQL file, which MySQL could load as well: all
// tables, and then what has changed since they were written, each part with its
// length and checksum:
//
//	-- conclave devdb 2 bytes=2310 crc32c=9ae0daaf
//	CREATE DATABASE IF NOT EXISTS `conclave`; USE `conclave`; CREATE TABLE ...; INSERT INTO ...;
//	-- conclave devdb 2 bytes=412 crc32c=01be7f4c
//	DELETE FROM `conclave`.`distribute_lock`; INSERT INTO ...;
//
// The methods are called with the gate held, or before the server runs.
type store struct {
	path   string // empty: there is no file
	saved  saved
	user   string // of the server's own statements
	lock   *os.File
	engine *sqle.Engine
	tables *memory.DbProvider
	shapes map[string]string // SHOW CREATE TABLE by "database.table", until a statement may have changed one
}

// Tables holds the tables of a server in memory.
type Tables struct{ provider *memory.DbProvider }

// NewTables returns an empty set of tables.
func NewTables() *Tables {
	provider := memory.NewDBProvider()
	provider.WithOption(memory.NativeIndexProvider(true)) // foreign keys need the index of the primary key
	return &Tables{provider}
}

// openStore locks the file for this process, loads it, and creates the database
// if it does not exist.
func openStore(path, database, user string, engine *sqle.Engine, tables *memory.DbProvider) (*store, error) {
	st := &store{path: path, user: user, engine: engine, tables: tables, shapes: make(map[string]string)}
	if path != "" {
		if err := st.take(); err != nil {
			return nil, err
		}
		text, err := read(path)
		if err == nil && text != "" {
			err = st.run(text)
		}
		if err != nil {
			st.close()
			return nil, fmt.Errorf("load %s: %w", path, err)
		}
	}
	if !tables.HasDatabase(nil, database) {
		if err := tables.CreateDatabase(nil, database); err != nil {
			st.close()
			return nil, fmt.Errorf("create database %s: %w", database, err)
		}
	}
	return st, nil
}

// take locks a file beside the store's file, because two servers would
// overwrite each other's acknowledged rows. The kernel releases the lock when
// the process ends.
func (st *store) take() error {
	lock, err := os.OpenFile(st.path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open the lock file of %s: %w", st.path, err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return fmt.Errorf("%s is in use by another server (%w)", st.path, err)
	}
	st.lock = lock
	return nil
}

func (st *store) close() {
	st.saved.close()
	if st.lock != nil {
		st.lock.Close()
		st.lock = nil
	}
}

// forgetShapes clears the cached definitions after a statement that may have
// changed one.
func (st *store) forgetShapes() { clear(st.shapes) }

// run executes the statements of a file.
func (st *store) run(text string) error {
	ctx := st.context()
	for n := 1; ; n++ {
		if text = strings.TrimSpace(text); text == "" {
			return nil
		}
		_, one, rest, err := st.engine.Parser.Parse(ctx, text, true)
		if err == nil {
			_, err = st.query(ctx, one)
		}
		if err != nil {
			return fmt.Errorf("statement %d (%.60q): %w", n, text, err)
		}
		text = rest
	}
}

func (st *store) query(ctx *sql.Context, query string) ([]sql.Row, error) {
	_, rows, _, err := st.engine.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	return sql.RowIterToRows(ctx, rows)
}

// context returns an engine context for the server's own statements, with a new
// session.
func (st *store) context() *sql.Context {
	base := sql.NewBaseSessionWithClientServer("", sql.Client{User: st.user, Address: "localhost"}, 0)
	session := memory.NewSession(base, st.tables)
	return sql.NewContext(context.Background(), sql.WithSession(session), sql.WithProcessList(sql.EmptyProcessList{}))
}

func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
