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

// printJSON writes one document on one line.
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

// writePage writes a report to the file of --html.
func writePage(file string, write func(io.Writer) error) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return write(f)
}

// show prints v with --json, and what human writes otherwise.
func (a *app) show(v any, human func(w io.Writer)) error {
	if a.asJSON {
		return a.printJSON(v)
	}
	var buf bytes.Buffer
	human(&buf)
	_, err := a.stdout.Write(buf.Bytes())
	return err
}

// table is aligned columns under a head of capitals. Cells that look like
// numbers are set to the right.
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

// ms is a duration as people read it in tables.
func ms(n int64) string {
	switch d := time.Duration(n) * time.Millisecond; {
	case d < 10*time.Second:
		return fmt.Sprintf("%d ms", n)
	default:
		return d.Round(100 * time.Millisecond).String()
	}
}

// clock is a time of day as people read it in tables.
func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("15:04:05.000")
}

// plural is "1 slot", "2 slots", "2 pushes".
func plural(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "sh"):
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// sortedKeys are a map's keys in their order.
func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
