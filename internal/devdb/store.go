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

// store keeps all tables in one file of SQL, which a real MySQL would load as well:
//
//	-- conclave devdb 1 crc32c=9ae0daaf
//	CREATE DATABASE IF NOT EXISTS `conclave`; USE `conclave`; CREATE TABLE ...; INSERT INTO ...;
//
// It is written whole, for tables of some hundred rows: no log to replay, no torn page to repair.
// Its methods are called with the gate held, or before the server runs.
type store struct {
	path   string // empty: nothing is kept
	lock   *os.File
	engine *sqle.Engine
	tables *memory.DbProvider
	shapes map[string]string // SHOW CREATE TABLE by "database.table", as long as no statement may have changed one
}

// Tables are what a server stores, in memory.
type Tables struct{ provider *memory.DbProvider }

// NewTables makes an empty set.
func NewTables() *Tables {
	provider := memory.NewDBProvider()
	provider.WithOption(memory.NativeIndexProvider(true)) // foreign keys want a primary key's index
	return &Tables{provider}
}

const fileHeader = "-- conclave devdb 1 crc32c="

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// openStore takes the file for this process, loads it, and makes sure that the database exists.
func openStore(path, database string, engine *sqle.Engine, tables *memory.DbProvider) (*store, error) {
	st := &store{path: path, engine: engine, tables: tables, shapes: make(map[string]string)}
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
			return nil, fmt.Errorf("create the database %s: %w", database, err)
		}
	}
	return st, nil
}

// take locks the file's neighbour: two servers over one file would overwrite each other's acknowledged rows. The
// kernel lets go of the lock when the process dies, however it dies.
func (st *store) take() error {
	lock, err := os.OpenFile(st.path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open the lock of %s: %w", st.path, err)
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

// forgetShapes is called when a statement may have changed a table's definition.
func (st *store) forgetShapes() { clear(st.shapes) }

// save writes all tables aside, syncs, and renames: a crash at any point leaves the old file or the new one.
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
		err = syncDir(filepath.Dir(st.path)) // or a power cut may bring the old name back
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

// read answers the statements of a file, "" for a missing or an empty one. A file without our header was written by
// hand, or by mysqldump, and is taken as it is.
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
		return "", errors.New("the file is damaged (its checksum does not fit); put a copy in its place, or delete its first line to load it as it is")
	}
	return body, nil
}

// dump writes every table of every database, in the order of their names.
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
		if col.Generated == nil { // those are computed again
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

// dumpCounter keeps the next AUTO_INCREMENT value, so that the id of a deleted last row is not given out again.
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
		return "", fmt.Errorf("SHOW CREATE TABLE answered %T", rows[0][1])
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

// context is one for the server's own statements, with a session that has seen nothing yet.
func (st *store) context() *sql.Context {
	session := memory.NewSession(sql.NewBaseSession(), st.tables)
	return sql.NewContext(context.Background(), sql.WithSession(session), sql.WithProcessList(sql.EmptyProcessList{}))
}

func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
