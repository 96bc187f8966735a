package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// printJSON writes v as one line of JSON.
func (a *app) printJSON(v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := a.stdout.Write(buf.Bytes())
	return err
}

// writePage creates a file and writes a report to it.
func writePage(file string, write func(io.Writer) error) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return write(f)
}

// show prints v as JSON with --json, and otherwise what human writes.
func (a *app) show(v any, human func(w io.Writer)) error {
	if a.asJSON {
		return a.printJSON(v)
	}
	var buf bytes.Buffer
	human(&buf)
	_, err := a.stdout.Write(buf.Bytes())
	return err
}

// table is a table of aligned columns. Columns of numbers are aligned right.
type table struct {
	head []string
	rows [][]string
}

func newTable(head ...string) *table { return &table{head: head} }

func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		if row[i] = fmt.Sprint(c); row[i] == "" {
			row[i] = "-"
		}
	}
	t.rows = append(t.rows, row)
}

func (t *table) write(w io.Writer) {
	widths := make([]int, len(t.head))
	numeric := make([]bool, len(t.head))
	for i, h := range t.head {
		widths[i], numeric[i] = utf8.RuneCountInString(h), len(t.rows) > 0
	}
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			numeric[i] = numeric[i] && (cell == "-" || strings.Trim(cell, "0123456789.,") == "")
		}
	}
	for _, row := range append([][]string{t.head}, t.rows...) {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if numeric[i] {
				line.WriteString(pad + cell + "   ")
			} else {
				line.WriteString(cell + pad + "   ")
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// ms formats a number of milliseconds for tables.
func ms(n int64) string {
	switch d := time.Duration(n) * time.Millisecond; {
	case d < 10*time.Second:
		return fmt.Sprintf("%d ms", n)
	default:
		return d.Round(100 * time.Millisecond).String()
	}
}

// clock formats a time of day for tables.
func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("15:04:05.000")
}

// plural formats a number with a noun: "1 slot", "2 slots", "2 pushes".
func plural(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "sh"):
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// sortedKeys returns the sorted keys of a map.
func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
