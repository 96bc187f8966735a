package devdb

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/sqltypes"
)

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
		names := make([]string, 0, len(of))
		for name := range of {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
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
	var w bytes.Buffer
	insert := fmt.Sprintf("INSERT INTO %s (%s) VALUES\n", quote(table.Name()), strings.Join(names, ","))
	parts, err := table.Partitions(ctx)
	if err != nil {
		return "", err
	}
	defer parts.Close(ctx)
	for n := 0; ; {
		part, err := parts.Next(ctx)
		if errors.Is(err, io.EOF) {
			if n > 0 {
				w.WriteString(";\n")
			}
			err = dumpCounter(ctx, &w, table)
			return w.String(), err
		}
		if err != nil {
			return "", err
		}
		rows, err := table.PartitionRows(ctx, part)
		if err != nil {
			return "", err
		}
		all, err := sql.RowIterToRows(ctx, rows)
		if err != nil {
			return "", err
		}
		for _, row := range all {
			if n == 0 {
				w.WriteString(insert)
			} else {
				w.WriteString(",\n")
			}
			n++
			if err := dumpRow(ctx, &w, table.Schema(), row, columns); err != nil {
				return "", err
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
