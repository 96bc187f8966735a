package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
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

// writeFile creates a file and writes it.
func writeFile(file string, write func(io.Writer) error) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return write(f)
}

// writeReport creates a file with a report as an indented document.
func writeReport(file string, report any) error {
	return writeFile(file, func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(report)
	})
}

// show prints v as JSON with --json, and otherwise what human writes.
func (a *app) show(v any, human func(w io.Writer)) error {
	if a.asJSON {
		return a.printJSON(v)
	}
	var buf bytes.Buffer
	human(&buf)
	_, err := io.WriteString(a.stdout, printable(buf.String(), "\n\t"))
	return err
}

// line writes one line of text, whatever its arguments contain.
func line(w io.Writer, format string, args ...any) {
	fmt.Fprintln(w, printable(fmt.Sprintf(format, args...), ""))
}

// printable escapes the characters that have no glyph, as Go does in a string
// literal, except those of layout. Names and values come from clients: they must not
// forge a line, command the terminal, or reverse the text around them. --json prints
// them as they are.
func printable(s, layout string) string {
	var out strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) || strings.ContainsRune(layout, r) {
			out.WriteRune(r)
		} else {
			out.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return out.String()
}

// isTerminal reports whether what is written to w appears on a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// progress returns a function that shows how far a long command is, in one
// line of a terminal that each call replaces, and one that removes the line.
// Without a terminal, or with --json, nothing is shown.
func (a *app) progress() (show func(string), done func()) {
	f := a.stderr
	if !isTerminal(f) || a.asJSON {
		return func(string) {}, func() {}
	}
	last := ""
	return func(text string) {
		if text != last {
			fmt.Fprintf(f, "\r\033[K%s", text)
			last = text
		}
	}, func() { fmt.Fprint(f, "\r\033[K") }
}

// usualWidth is how wide a table may be without a terminal: a longer last column is
// wrapped.
const usualWidth = 120

// tableWidth returns usualWidth, or the width of the terminal on standard output.
var tableWidth = sync.OnceValue(func() int {
	if size, err := unix.IoctlGetWinsize(unix.Stdout, unix.TIOCGWINSZ); err == nil && size.Col > 0 {
		return int(size.Col)
	}
	return usualWidth
})

// table is a table of aligned columns. Columns of numbers are aligned right.
type table struct {
	head []string
	rows [][]string
}

func newTable(head ...string) *table { return &table{head: head} }

// writeRows writes a table with a row for each item. The columns are the words of head.
func writeRows[T any](w io.Writer, items []T, head string, cells func(T) []any) {
	t := newTable(strings.Fields(head)...)
	for _, item := range items {
		t.add(cells(item)...)
	}
	t.write(w)
}

func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		if row[i] = printable(fmt.Sprint(c), ""); row[i] == "" {
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
	left, gap := 0, "   " // left is the width of all columns but the last
	for _, n := range widths[:len(widths)-1] {
		left += n + len(gap)
	}
	if left+widths[len(widths)-1] > tableWidth() {
		left, gap = left-len(widths)+1, "  "
	}
	for _, row := range append([][]string{t.head}, t.rows...) {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell)))
			switch {
			case numeric[i]:
				line.WriteString(pad + cell + gap)
			case i == len(row)-1:
				line.WriteString(wrap(cell, max(tableWidth()-left, 20), "\n"+strings.Repeat(" ", left)))
			default:
				line.WriteString(cell + pad + gap)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// wrap breaks a text between words into lines of at most width characters.
func wrap(text string, width int, newline string) string {
	var out strings.Builder
	used := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i > 0 && used+1+n > width:
			out.WriteString(newline)
			used = 0
		case i > 0:
			out.WriteByte(' ')
			used++
		}
		out.WriteString(word)
		used += n
	}
	return out.String()
}

// ms formats a number of milliseconds for people.
func ms(n int64) string {
	switch d := time.Duration(n) * time.Millisecond; {
	case d < time.Second:
		return fmt.Sprintf("%d ms", n)
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	default:
		return d.Round(time.Second).String()
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
	case strings.HasSuffix(noun, "s"), strings.HasSuffix(noun, "sh"):
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func either(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}

// now returns the time in UTC and whole milliseconds.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// since returns the time since t in whole milliseconds.
func since(t time.Time) int64 { return time.Since(t).Milliseconds() }
