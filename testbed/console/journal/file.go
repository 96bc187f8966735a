package journal

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"time"

	"conclave/testbed"
	"conclave/testbed/check"
)

// version is that of the format; it is raised with every change. A file of another
// one is refused.
const version = 5

// head is the first line.
type head struct {
	Recording int `json:"recording"`
	Header
}

// line is a record, or the last line.
type line struct {
	At           time.Duration     `json:"at"`
	*check.Entry                   // without its time and its error
	Err          string            `json:"err,omitempty"` // that error as text
	Message      *Message          `json:"message,omitempty"`
	State        *testbed.Snapshot `json:"state,omitempty"`
	Result       *Result           `json:"result,omitempty"`
}

// valid reports whether there is something in a record.
func (r Record) valid() bool {
	return r.Message != nil || r.State != nil || r.Entry != nil && *r.Entry != check.Entry{At: r.Entry.At}
}

// errorIn returns where an entry has its error; nil: it has none.
func errorIn(e *check.Entry) *error {
	switch {
	case e == nil:
	case e.Event != nil:
		return &e.Event.Err
	case e.Fault != nil:
		return &e.Fault.Err
	case e.Op != nil:
		return &e.Op.Err
	}
	return nil
}

// Recording is a file in memory. It is only data, which is not changed.
type Recording struct {
	Header
	Records []Record // in the order of their times
	Result  Result
}

// Write writes the file.
func (r *Recording) Write(to io.Writer) error {
	if err := r.write(to); err != nil {
		return fmt.Errorf("write a recording: %w", err)
	}
	return nil
}

func (r *Recording) write(to io.Writer) error {
	zip, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(zip)
	if err := lines.Encode(head{version, r.Header}); err != nil {
		return err
	}
	_, end := r.Span()
	for i, x := range r.Records {
		switch {
		case i > 0 && x.At < r.Records[i-1].At:
			return fmt.Errorf("a record of %s comes after one of %s", x.At, r.Records[i-1].At)
		case !x.valid():
			return fmt.Errorf("a record at %s has nothing", x.At)
		}
		l := line{At: x.At, Entry: x.Entry, Message: x.Message, State: x.State}
		if err := errorIn(x.Entry); err != nil && *err != nil {
			l.Err = (*err).Error()
		}
		if err := lines.Encode(l); err != nil {
			return err
		}
	}
	if err := lines.Encode(line{At: end, Result: &r.Result}); err != nil {
		return err
	}
	return zip.Close()
}

// maxBytes limits the lines of a file; those of a storm have some 8 MiB.
const maxBytes = 128 << 20

// What is wrong with a file that cannot be read.
var (
	errForeign = errors.New("it is not a recording of conclave")
	errDamaged = errors.New("it is damaged: its checksum is wrong")
	errCut     = errors.New("it is cut short: the run that was recorded has not ended, or a copy of the file is not complete")
	errLarge   = fmt.Errorf("it has more than %d MiB of records", maxBytes>>20)
)

// Open reads a file to its end.
func Open(from io.Reader) (*Recording, error) {
	r := &Recording{}
	if err := r.read(from); err != nil {
		return nil, fmt.Errorf("read a recording: %w", err)
	}
	return r, nil
}

func (r *Recording) read(from io.Reader) error {
	zip, err := gzip.NewReader(bufio.NewReader(from))
	if err != nil {
		return errForeign
	}
	limited := &io.LimitedReader{R: zip, N: maxBytes}
	lines := json.NewDecoder(limited)
	var h head
	switch err := lines.Decode(&h); {
	case err != nil || h.Recording == 0:
		return errForeign
	case h.Recording != version:
		return fmt.Errorf("its format is version %d; this program reads version %d", h.Recording, version)
	}
	r.Header = h.Header
	for {
		var l line
		switch err := lines.Decode(&l); {
		case err != nil && limited.N <= 0:
			return errLarge
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return errCut
		case err != nil:
			return fmt.Errorf("record %d: it is damaged: %w", len(r.Records), err)
		}
		if l.Result != nil {
			r.Result = *l.Result
			switch _, err := io.Copy(io.Discard, limited); { // checks the sum at the end
			case errors.Is(err, gzip.ErrChecksum):
				return errDamaged
			case err != nil:
				return errCut
			}
			return nil
		}
		x := Record{At: l.At, Entry: l.Entry, Message: l.Message, State: l.State}
		if _, last := r.Span(); !x.valid() || len(r.Records) > 0 && x.At < last {
			return fmt.Errorf("record %d: it is damaged: it has nothing, or is not in order", len(r.Records))
		}
		if x.Entry != nil {
			x.Entry.At = l.At
		}
		if err := errorIn(x.Entry); err != nil && l.Err != "" {
			*err = errors.New(l.Err)
		}
		r.Records = append(r.Records, x)
	}
}

// Span returns the times of the first and of the last record.
func (r *Recording) Span() (from, to time.Duration) {
	if n := len(r.Records); n > 0 {
		from, to = r.Records[0].At, r.Records[n-1].At
	}
	return from, to
}

// Search returns the number of records before a time.
func (r *Recording) Search(at time.Duration) int {
	return sort.Search(len(r.Records), func(n int) bool { return r.Records[n].At >= at })
}
