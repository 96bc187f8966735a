package devdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/sqltypes"
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
	if err := flock(lock); err != nil {
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

// saved is what the store's file has. Its zero value is for a file that this
// process has not written yet.
type saved struct {
	file   *os.File          // open for appending; nil if the next save must write all tables
	info   os.FileInfo       // of file, to notice that another one is in its place,
	size   int64             // and its size, that another process has written to it
	layout string            // which tables there are, and their shapes
	rows   map[string]string // of each table, by its quoted name
	whole  int               // bytes of all tables as they were last written as a whole,
	since  int               // and of the changes after them
}

// appendLimit is the size of the changes, beyond that of the tables, after which
// all tables are written again.
const appendLimit = 1 << 20

// save makes the file durable with what the tables have now: it appends those
// whose rows have changed, which takes one sync, or writes all tables if there
// are others than before, if the changes have grown larger than the tables, or
// if the file is not what this process has written.
func (st *store) save() error {
	if st.path == "" {
		return nil
	}
	tables, layout, err := st.dump()
	if err != nil {
		return fmt.Errorf("dump tables: %w", err)
	}
	s := &st.saved
	if s.appendable(st.path, layout) {
		err = s.append(tables)
	} else {
		err = s.rewrite(st.path, tables, layout)
	}
	if err != nil {
		return fmt.Errorf("save tables: %w", err)
	}
	for _, t := range tables {
		s.rows[t.database+"."+t.name] = t.rows
	}
	return nil
}

func (s *saved) appendable(path, layout string) bool {
	if s.file == nil || s.layout != layout || s.since > s.whole+appendLimit {
		return false
	}
	now, err := os.Stat(path)
	return err == nil && os.SameFile(now, s.info) && now.Size() == s.size
}

// append writes the tables whose rows have changed, all in one part. If it fails,
// the end of the file is not known any more.
func (s *saved) append(tables []tableText) error {
	var changes strings.Builder
	for _, t := range tables {
		if s.rows[t.database+"."+t.name] != t.rows {
			changes.WriteString(t.change())
		}
	}
	if changes.Len() == 0 {
		return nil
	}
	n, err := s.file.WriteString(part(changes.String()))
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		s.close()
	}
	s.since += n
	s.size += int64(n)
	return err
}

// rewrite writes all tables to a temporary file, syncs it and renames it, so that a
// crash leaves either the old file or the new one.
func (s *saved) rewrite(path string, tables []tableText, layout string) error {
	s.close()
	var all strings.Builder
	all.WriteString(layout)
	for _, t := range tables {
		fmt.Fprintf(&all, "USE %s;\n%s", t.database, t.rows)
	}
	aside := path + ".tmp"
	f, err := os.OpenFile(aside, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	n, err := f.WriteString(part(all.String()))
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(aside, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path)) // otherwise a power failure may undo the rename
	}
	var info os.FileInfo
	if err == nil {
		info, err = f.Stat()
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	*s = saved{file: f, info: info, size: info.Size(), layout: layout, rows: map[string]string{}, whole: n}
	return nil
}

func (s *saved) close() {
	if s.file != nil {
		s.file.Close() // everything that counts was synced
		s.file = nil
	}
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// The headers of a part, and of the only part that files of earlier versions have,
// which had no length.
const (
	partHeader = "-- conclave devdb 2 "
	oneHeader  = "-- conclave devdb 1 crc32c="
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// part returns the text of one part of the file.
func part(body string) string {
	return fmt.Sprintf("%sbytes=%d crc32c=%08x\n%s", partHeader, len(body), crc32.Checksum([]byte(body), castagnoli), body)
}

var errDamaged = errors.New("the file is damaged (wrong checksum): restore a copy, or delete its first line to load it without the check")

// read returns the statements of a file, "" if it is missing or empty. A file
// without a header was written by hand or by mysqldump and has no checksum to
// verify.
func read(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	text := string(raw)
	switch head, body, _ := strings.Cut(text, "\n"); {
	case err != nil:
		return "", err
	case strings.HasPrefix(head, partHeader):
		return readParts(text)
	case !strings.HasPrefix(head, oneHeader):
		return strings.TrimSpace(text), nil
	case head != oneHeader+fmt.Sprintf("%08x", crc32.Checksum([]byte(body), castagnoli)):
		return "", errDamaged
	default:
		return body, nil
	}
}

// readParts returns the statements of the first part, and the newest change of each
// table. The last part but the first may be cut short or not written to its end: its
// statement was not acknowledged when the machine stopped.
func readParts(text string) (string, error) {
	var all string
	newest := map[string]string{}
	for rest := text; rest != ""; {
		head, body, _ := strings.Cut(rest, "\n")
		var size int
		var sum uint32
		_, err := fmt.Sscanf(head, partHeader+"bytes=%d crc32c=%08x", &size, &sum)
		whole := err == nil && size >= 0 && size <= len(body)
		switch {
		case whole && crc32.Checksum([]byte(body[:size]), castagnoli) == sum:
			if all == "" {
				all = body[:size]
			} else {
				splitChanges(body[:size], newest)
			}
			rest = body[size:]
			continue
		case all == "", strings.Contains(rest, "\n"+partHeader): // the first, or not the last
			return "", errDamaged
		case whole && !strings.Contains(body, "\x00"): // written, and changed since
			return "", errDamaged
		}
		rest = ""
	}
	for _, table := range slices.Sorted(maps.Keys(newest)) {
		all += newest[table]
	}
	return all, nil
}

// splitChanges puts the statements of a change into those of each table. A text in
// a statement has no line of its own: its newlines are escaped.
func splitChanges(body string, of map[string]string) {
	for _, change := range strings.Split("\n"+body, "\nUSE ")[1:] {
		change = "USE " + strings.TrimSuffix(change, "\n") + "\n"
		database, rest, _ := strings.Cut(change, ";\nDELETE FROM ")
		name, _, _ := strings.Cut(rest, ";\n")
		of[database+"."+name] = change
	}
}

// tableText is one table as statements.
type tableText struct {
	database, name string // quoted
	shape          string // CREATE TABLE
	rows           string // INSERT, and the next AUTO_INCREMENT value
}

// change returns the statements that replace the rows of the table.
func (t tableText) change() string {
	return fmt.Sprintf("USE %s;\nDELETE FROM %s;\n%s", t.database, t.name, t.rows)
}

// dump returns every table of every database, in the order of their names, and the
// statements that make all of them except their rows.
func (st *store) dump() (tables []tableText, layout string, err error) {
	ctx := st.context()
	var shapes strings.Builder
	shapes.WriteString("SET FOREIGN_KEY_CHECKS=0;\n")
	for _, d := range st.tables.AllDatabases(ctx) {
		db, ok := d.(*memory.Database)
		if !ok {
			continue
		}
		fmt.Fprintf(&shapes, "CREATE DATABASE IF NOT EXISTS %s;\nUSE %s;\n", quote(db.Name()), quote(db.Name()))
		of := db.Tables()
		for _, name := range slices.Sorted(maps.Keys(of)) {
			t := tableText{database: quote(db.Name()), name: quote(name)}
			if t.shape, err = st.shape(db.Name(), name); err != nil {
				return nil, "", fmt.Errorf("describe %s.%s: %w", db.Name(), name, err)
			}
			fmt.Fprintf(&shapes, "%s;\n", t.shape)
			if t.rows, err = dumpRows(ctx, of[name]); err != nil {
				return nil, "", fmt.Errorf("read %s.%s: %w", db.Name(), name, err)
			}
			tables = append(tables, t)
		}
	}
	return tables, shapes.String(), nil
}

// dumpRows returns the statements that insert the rows of a table.
func dumpRows(ctx *sql.Context, table sql.Table) (string, error) {
	var columns []int
	var names []string
	for i, col := range table.Schema() {
		if col.Generated == nil { // generated columns are computed again
			columns, names = append(columns, i), append(names, quote(col.Name))
		}
	}
	parts, err := table.Partitions(ctx)
	if err != nil {
		return "", err
	}
	rows, err := sql.RowIterToRows(ctx, sql.NewTableRowIter(ctx, table, parts))
	if err != nil {
		return "", err
	}
	var w bytes.Buffer
	between := fmt.Sprintf("INSERT INTO %s (%s) VALUES\n", quote(table.Name()), strings.Join(names, ","))
	for _, row := range rows {
		w.WriteString(between)
		between = ",\n"
		if err := dumpRow(ctx, &w, table.Schema(), row, columns); err != nil {
			return "", err
		}
	}
	if len(rows) > 0 {
		w.WriteString(";\n")
	}
	err = dumpCounter(ctx, &w, table)
	return w.String(), err
}

// dumpCounter writes the next AUTO_INCREMENT value, so that the id of a deleted
// last row is not used again.
func dumpCounter(ctx *sql.Context, w *bytes.Buffer, table sql.Table) error {
	counted, ok := table.(sql.AutoIncrementTable)
	if !ok || !table.Schema().HasAutoIncrement() {
		return nil
	}
	next, err := counted.PeekNextAutoIncrementValue(ctx)
	if err == nil && next > 0 {
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
