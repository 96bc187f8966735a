package devdb

import (
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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
	if err != nil {
		return "", err
	}
	text := string(raw)
	if head, body, _ := strings.Cut(text, "\n"); strings.HasPrefix(head, oneHeader) {
		if strings.TrimPrefix(head, oneHeader) != fmt.Sprintf("%08x", crc32.Checksum([]byte(body), castagnoli)) {
			return "", errDamaged
		}
		return body, nil
	}
	if !strings.HasPrefix(text, partHeader) {
		return strings.TrimSpace(text), nil
	}
	return readParts(text)
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
