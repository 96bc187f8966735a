package devdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/sqltypes"
)

// store keeps all tables in one SQL file, which MySQL could load as well:
//
//	-- conclave devdb 1 crc32c=9ae0daaf
//	CREATE DATABASE IF NOT EXISTS `conclave`; USE `conclave`; CREATE TABLE ...; INSERT INTO ...;
//
// The file is always written as a whole, which is fast enough for tables of
// some hundred rows and needs no log or recovery. The methods are called with
// the gate held, or before the server runs.
type store struct {
	path   string // empty: there is no file
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

const fileHeader = "-- conclave devdb 1 crc32c="

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

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
	if st.lock != nil {
		st.lock.Close()
		st.lock = nil
	}
}

// forgetShapes clears the cached definitions after a statement that may have
// changed one.
func (st *store) forgetShapes() { clear(st.shapes) }

// save writes all tables to a temporary file, syncs it and renames it, so that
// a crash leaves either the old file or the new one.
func (st *store) save() error {
	if st.path == "" {
		return nil
	}
	var body bytes.Buffer
	if err := st.dump(&body); err != nil {
		return fmt.Errorf("dump tables: %w", err)
	}
	aside := st.path + ".tmp"
	f, err := os.OpenFile(aside, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("save tables: %w", err)
	}
	_, err = fmt.Fprintf(f, "%s%08x\n", fileHeader, crc32.Checksum(body.Bytes(), castagnoli))
	if err == nil {
		_, err = f.Write(body.Bytes())
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(aside, st.path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(st.path)) // otherwise a power failure may undo the rename
	}
	if err != nil {
		return fmt.Errorf("save tables: %w", err)
	}
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// read returns the statements of a file, "" if it is missing or empty. A file
// without the header was written by hand or by mysqldump and has no checksum to
// verify.
func read(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	text := string(raw)
	if !strings.HasPrefix(text, fileHeader) {
		return strings.TrimSpace(text), nil
	}
	head, body, _ := strings.Cut(text, "\n")
	if want := strings.TrimPrefix(head, fileHeader); want != fmt.Sprintf("%08x", crc32.Checksum([]byte(body), castagnoli)) {
		return "", errors.New("the file is damaged (wrong checksum): restore a copy, or delete its first line to load it without the check")
	}
	return body, nil
}

// dump writes every table of every database in the order of their names.
func (st *store) dump(w *bytes.Buffer) error {
	ctx := st.context()
	fmt.Fprintln(w, "SET FOREIGN_KEY_CHECKS=0;")
	for _, d := range st.tables.AllDatabases(ctx) {
		db, ok := d.(*memory.Database)
		if !ok {
			continue
		}
		fmt.Fprintf(w, "CREATE DATABASE IF NOT EXISTS %s;\nUSE %s;\n", quote(db.Name()), quote(db.Name()))
		tables := db.Tables()
		names := make([]string, 0, len(tables))
		for name := range tables {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			shape, err := st.shape(db.Name(), name)
			if err != nil {
				return fmt.Errorf("describe %s.%s: %w", db.Name(), name, err)
			}
			fmt.Fprintf(w, "%s;\n", shape)
			err = dumpRows(ctx, w, tables[name])
			if err == nil {
				err = dumpCounter(ctx, w, tables[name])
			}
			if err != nil {
				return fmt.Errorf("read %s.%s: %w", db.Name(), name, err)
			}
		}
	}
	return nil
}

func dumpRows(ctx *sql.Context, w *bytes.Buffer, table sql.Table) error {
	var columns []int
	var names []string
	for i, col := range table.Schema() {
		if col.Generated == nil { // generated columns are computed again
			columns, names = append(columns, i), append(names, quote(col.Name))
		}
	}
	insert := fmt.Sprintf("INSERT INTO %s (%s) VALUES\n", quote(table.Name()), strings.Join(names, ","))
	parts, err := table.Partitions(ctx)
	if err != nil {
		return err
	}
	defer parts.Close(ctx)
	for n := 0; ; {
		part, err := parts.Next(ctx)
		if errors.Is(err, io.EOF) {
			if n > 0 {
				w.WriteString(";\n")
			}
			return nil
		}
		if err != nil {
			return err
		}
		rows, err := table.PartitionRows(ctx, part)
		if err != nil {
			return err
		}
		all, err := sql.RowIterToRows(ctx, rows)
		if err != nil {
			return err
		}
		for _, row := range all {
			if n == 0 {
				w.WriteString(insert)
			} else {
				w.WriteString(",\n")
			}
			n++
			if err := dumpRow(ctx, w, table.Schema(), row, columns); err != nil {
				return err
			}
		}
	}
}

// dumpCounter writes the next AUTO_INCREMENT value, so that the id of a deleted
// last row is not used again.
func dumpCounter(ctx *sql.Context, w *bytes.Buffer, table sql.Table) error {
	counted, ok := table.(sql.AutoIncrementTable)
	if !ok || !table.Schema().HasAutoIncrement() {
		return nil
	}
	next, err := counted.PeekNextAutoIncrementValue(ctx)
	if err == nil && next > 1 {
		fmt.Fprintf(w, "ALTER TABLE %s AUTO_INCREMENT = %d;\n", quote(table.Name()), next)
	}
	return err
}

func dumpRow(ctx *sql.Context, w *bytes.Buffer, schema sql.Schema, row sql.Row, columns []int) error {
	for n, i := range columns {
		w.WriteByte("(,"[min(n, 1)])
		if row[i] == nil {
			w.WriteString("NULL")
			continue
		}
		v, err := schema[i].Type.SQL(ctx, nil, row[i])
		if err != nil {
			return err
		}
		switch v.Type() {
		case sqltypes.Binary, sqltypes.VarBinary, sqltypes.Blob, sqltypes.Bit:
			fmt.Fprintf(w, "x'%x'", v.Raw())
		default:
			v.EncodeSQL(w)
		}
	}
	w.WriteByte(')')
	return nil
}

func (st *store) shape(database, table string) (string, error) {
	key := database + "." + table
	if shape, ok := st.shapes[key]; ok {
		return shape, nil
	}
	rows, err := st.query(st.context(), fmt.Sprintf("SHOW CREATE TABLE %s.%s", quote(database), quote(table)))
	if err != nil {
		return "", err
	}
	shape, ok := rows[0][1].(string)
	if !ok {
		return "", fmt.Errorf("SHOW CREATE TABLE returned a %T, want a string", rows[0][1])
	}
	st.shapes[key] = shape
	return shape, nil
}

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
