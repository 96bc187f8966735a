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
)

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
		x, ok := l.record()
		if _, last := r.Span(); !ok || len(r.Records) > 0 && x.At < last {
			return fmt.Errorf("record %d: it has nothing, or is not in order", len(r.Records))
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
