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

// Writer writes a file. It is used by one goroutine. After an error the file is
// not complete, and every call returns that error.
type Writer struct {
	zip   *gzip.Writer
	lines *json.Encoder
	last  time.Duration // time of the last record
	any   bool          // there is one
	err   error
}

// NewWriter begins a file.
func NewWriter(to io.Writer, h Header) (*Writer, error) {
	zip, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	w := &Writer{zip: zip, lines: json.NewEncoder(zip)}
	err = w.write(head{version, h})
	if err == nil {
		err = w.failed(zip.Flush()) // a disk that is full is noticed now
	}
	return w, err
}

// Write appends a record, whose time is not before that of the last one.
func (w *Writer) Write(r Record) error {
	switch {
	case w.err != nil:
		return w.err
	case w.any && r.At < w.last:
		return w.failed(fmt.Errorf("a record of %s comes after one of %s", r.At, w.last))
	case !r.valid():
		return w.failed(fmt.Errorf("a record at %s has nothing", r.At))
	}
	w.last, w.any = r.At, true
	l := line{At: r.At, Entry: r.Entry, Message: r.Message, State: r.State}
	if err := errorIn(r.Entry); err != nil && *err != nil {
		l.Err = (*err).Error()
	}
	return w.write(l)
}

// errClosed is what a closed writer returns.
var errClosed = errors.New("the recording is complete")

// Close completes the file. It does not close the io.Writer.
func (w *Writer) Close(r Result) error {
	if w.err != nil {
		return w.err
	}
	if err := w.write(line{At: w.last, Result: &r}); err != nil {
		return err
	}
	if err := w.zip.Close(); err != nil {
		return w.failed(err)
	}
	w.err = errClosed
	return nil
}

func (w *Writer) write(v any) error { return w.failed(w.lines.Encode(v)) }

// failed keeps an error, if there is one.
func (w *Writer) failed(err error) error {
	if err != nil {
		w.err = fmt.Errorf("write a recording: %w", err)
	}
	return w.err
}

// Recording is a file in memory. It is only data, which is not changed.
type Recording struct {
	Header
	Records []Record // in the order of their times
	Result  Result
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
