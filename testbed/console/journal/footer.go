package journal

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"conclave/testbed/check"
)

// The beginning and the end of a file. The version is raised with every change of
// the format; a file of another version is refused.
const (
	magic   = "conclave recording\n"
	version = 1
)

// trailer is the last bytes of a file: the offset, the size and the checksum of
// the footer, and endMagic.
const (
	endMagic    = "end of recording\n"
	trailerSize = 8 + 8 + 4 + len(endMagic)
)

// Limits of what a file may ask a reader to allocate.
const (
	maxHeader = 4 << 20
	maxBlock  = 64 << 20
	maxFooter = 64 << 20
)

// What is wrong with a file that cannot be read.
var (
	errForeign = errors.New("it is not a recording of conclave")
	errCut     = errors.New("it is cut short: the run that was recorded has not ended, or a copy of the file is not complete")
	errDamaged = errors.New("it is damaged")
)

// footer is what a reader needs to find a record.
type footer struct {
	Blocks []block
	Len    int           // number of records
	To     time.Duration // time of the last one
	Marks  []Mark        // faults and elections
	Result result
}

// block is where a block is and what it has.
type block struct {
	First  int           // number of its first record
	From   time.Duration // time of that record
	Offset int64
	Size   int // compressed
	Raw    int // not compressed
	CRC    uint32
	// It begins with a copy of the newest state, that of record StateOf - 1; 0: there
	// is none yet.
	StateOf int
}

// result is Result in a form that can be read again.
type result struct {
	Failures []string
	Verdicts []verdict
}

type verdict struct {
	ID, Says   string
	Checks     int
	Violations []violation
	Shown      string
}

type violation struct {
	At       time.Duration
	What     string
	Evidence []string
}

func resultOf(r Result) result {
	out := result{Failures: r.Failures}
	for _, v := range r.Verdicts {
		w := verdict{ID: v.ID, Says: v.Says, Checks: v.Checks, Shown: v.Shown}
		for _, x := range v.Violations {
			w.Violations = append(w.Violations, violation{x.At, x.What, x.Evidence})
		}
		out.Verdicts = append(out.Verdicts, w)
	}
	return out
}

func (r result) result() Result {
	out := Result{Failures: r.Failures}
	for _, v := range r.Verdicts {
		w := check.Verdict{ID: v.ID, Says: v.Says, Checks: v.Checks, Shown: v.Shown}
		for _, x := range v.Violations {
			w.Violations = append(w.Violations, check.Violation{At: x.At, What: x.What, Evidence: x.Evidence})
		}
		out.Verdicts = append(out.Verdicts, w)
	}
	return out
}

// write appends the footer and the trailer to a file that has offset bytes.
func (f *footer) write(w io.Writer, offset int64) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := deflate(&b, text); err != nil {
		return err
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(offset))
	out = binary.LittleEndian.AppendUint64(out, uint64(b.Len()))
	out = binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(b.Bytes()))
	if _, err := w.Write(b.Bytes()); err != nil {
		return err
	}
	_, err = w.Write(append(out, endMagic...))
	return err
}

// readFooter reads and checks the end of a file of that size.
func readFooter(r io.ReaderAt, size int64) (*footer, error) {
	end := make([]byte, trailerSize)
	if size < int64(len(end)) {
		return nil, errCut
	}
	if _, err := r.ReadAt(end, size-int64(len(end))); err != nil {
		return nil, err
	}
	if string(end[20:]) != endMagic {
		return nil, errCut
	}
	offset, length := binary.LittleEndian.Uint64(end), binary.LittleEndian.Uint64(end[8:])
	room := uint64(size) - uint64(trailerSize)
	if length > maxFooter || offset > room || length > room-offset {
		return nil, fmt.Errorf("the footer is %d bytes at %d of %d: %w", length, offset, size, errDamaged)
	}
	packed := make([]byte, length)
	if _, err := r.ReadAt(packed, int64(offset)); err != nil {
		return nil, err
	}
	if crc32.ChecksumIEEE(packed) != binary.LittleEndian.Uint32(end[16:]) {
		return nil, fmt.Errorf("the checksum of the footer is wrong: %w", errDamaged)
	}
	text, err := inflate(packed, maxFooter)
	if err != nil {
		return nil, fmt.Errorf("the footer: %w", err)
	}
	f := &footer{}
	if err := json.Unmarshal(text, f); err != nil {
		return nil, fmt.Errorf("the footer: %w: %w", errDamaged, err)
	}
	return f, f.validate(int64(offset))
}

// validate returns an error unless the blocks follow one another, in the file and
// in their numbers, and end before the given offset.
func (f *footer) validate(end int64) error {
	at, next := int64(len(magic)), 0
	for i, b := range f.Blocks {
		if b.Offset < at || b.Size < 0 || b.Raw < 0 || b.Raw > maxBlock || int64(b.Size) > end || b.Offset > end-int64(b.Size) || b.First < next || (i == 0) != (b.First == 0) || b.StateOf < 0 || b.StateOf > b.First {
			return fmt.Errorf("block %d is not where it can be: %w", i+1, errDamaged)
		}
		at, next = b.Offset+int64(b.Size), b.First+1
	}
	// A record takes two bytes at least, so this bounds what Len can be.
	if last := len(f.Blocks) - 1; f.Len < next || last < 0 && f.Len > 0 || last >= 0 && f.Len-f.Blocks[last].First > f.Blocks[last].Raw {
		return fmt.Errorf("it cannot have %d records: %w", f.Len, errDamaged)
	}
	for _, m := range f.Marks {
		if m.Number < 0 || m.Number >= f.Len {
			return fmt.Errorf("a mark is at record %d of %d: %w", m.Number, f.Len, errDamaged)
		}
	}
	return nil
}

func deflate(w io.Writer, b []byte) error {
	z, err := flate.NewWriter(w, flate.BestSpeed)
	if err != nil {
		return err
	}
	if _, err := z.Write(b); err != nil {
		return err
	}
	return z.Close()
}

func inflate(b []byte, limit int64) ([]byte, error) {
	z := flate.NewReader(bytes.NewReader(b))
	defer z.Close()
	out, err := io.ReadAll(io.LimitReader(z, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	case int64(len(out)) > limit:
		return nil, fmt.Errorf("it is longer than it says: %w", errDamaged)
	}
	return out, nil
}
