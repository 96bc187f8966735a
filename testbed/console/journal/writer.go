package journal

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

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
	l, ok := lineOf(r)
	switch {
	case w.err != nil:
		return w.err
	case w.any && r.At < w.last:
		return w.failed(fmt.Errorf("a record of %s comes after one of %s", r.At, w.last))
	case !ok:
		return w.failed(fmt.Errorf("a record at %s has nothing", r.At))
	}
	w.last, w.any = r.At, true
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
