package journal

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"time"

	"conclave/internal/trace"
	"conclave/testbed"
)

// Reader has the records of a file. Its methods may be called from any goroutine;
// nobody changes what they return.
type Reader struct {
	header  Header
	records []Record
	states  []int // the records with a state
	result  Result
	marks   []Mark
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
func Open(from io.Reader) (*Reader, error) {
	r := &Reader{}
	if err := r.read(from); err != nil {
		return nil, fmt.Errorf("read a recording: %w", err)
	}
	for n, x := range r.records {
		if x.State != nil {
			r.states = append(r.states, n)
		}
		r.mark(n, x)
	}
	for _, v := range r.result.Verdicts {
		for _, x := range v.Violations {
			if n := r.Search(x.At); n < r.Len() {
				r.marks = append(r.marks, Mark{Number: n, At: x.At, Kind: ViolationMark, What: v.ID + ": " + x.What})
			}
		}
	}
	slices.SortStableFunc(r.marks, func(a, b Mark) int { return cmp.Compare(a.Number, b.Number) })
	return r, nil
}

func (r *Reader) read(from io.Reader) error {
	in := bufio.NewReader(from)
	if text, _ := in.Peek(len(oldMagic)); string(text) == oldMagic {
		return errVersion(1)
	}
	zip, err := gzip.NewReader(in)
	if err != nil {
		return errForeign
	}
	limited := &io.LimitedReader{R: zip, N: maxBytes}
	lines := json.NewDecoder(limited)
	var h head
	if err := lines.Decode(&h); err != nil || h.Recording == 0 {
		return errForeign
	}
	if h.Recording != version {
		return errVersion(h.Recording)
	}
	r.header = h.Header
	for {
		var l line
		switch err := lines.Decode(&l); {
		case err != nil && limited.N <= 0:
			return errLarge
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return errCut
		case err != nil:
			return fmt.Errorf("record %d: it is damaged: %w", r.Len(), err)
		}
		if l.Result != nil {
			r.result = l.Result.result()
			switch _, err := io.Copy(io.Discard, limited); { // checks the sum at the end
			case errors.Is(err, gzip.ErrChecksum):
				return errDamaged
			case err != nil:
				return errCut
			}
			return nil
		}
		x, ok := l.record()
		if !ok || r.Len() > 0 && x.At < r.records[r.Len()-1].At {
			return fmt.Errorf("record %d: it has nothing, or is not in order", r.Len())
		}
		r.records = append(r.records, x)
	}
}

// oldMagic begins a file of version 1.
const oldMagic = "conclave recording\n"

func errVersion(v int) error {
	return fmt.Errorf("its format is version %d; this program reads version %d", v, version)
}

// mark notes a fault or an election.
func (r *Reader) mark(n int, x Record) {
	m := Mark{Number: n, At: x.At}
	switch {
	case x.Entry == nil:
		return
	case x.Entry.Fault != nil && x.Entry.Fault.Err == nil:
		m.Kind, m.What = FaultMark, x.Entry.Fault.Action.String()
	case x.Entry.Event != nil && x.Entry.Event.Kind == trace.Led:
		m.Kind, m.What = ElectionMark, fmt.Sprintf("%s leads term %d", x.Entry.Event.Node.Name, x.Entry.Event.Term)
	default:
		return
	}
	r.marks = append(r.marks, m)
}

// Header returns what was played.
func (r *Reader) Header() Header { return r.header }

// Result returns how the run ended.
func (r *Reader) Result() Result { return r.result }

// Len returns the number of records.
func (r *Reader) Len() int { return len(r.records) }

// Span returns the times of the first and of the last record.
func (r *Reader) Span() (from, to time.Duration) {
	if n := r.Len(); n > 0 {
		from, to = r.records[0].At, r.records[n-1].At
	}
	return from, to
}

// Marks returns the faults, elections and violations, in order.
func (r *Reader) Marks() []Mark { return r.marks }

// Record returns the record of a number from 0 to Len-1.
func (r *Reader) Record(n int) Record { return r.records[n] }

// Search returns the number of the first record that is not before the time, or
// Len if there is none.
func (r *Reader) Search(at time.Duration) int {
	return sort.Search(r.Len(), func(n int) bool { return r.records[n].At >= at })
}

// StateBefore returns the newest state among the records before n, nil if there is
// none.
func (r *Reader) StateBefore(n int) *testbed.Snapshot {
	i := sort.SearchInts(r.states, n)
	if i == 0 {
		return nil
	}
	return r.records[r.states[i-1]].State
}
