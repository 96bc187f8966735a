package journal

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sort"
	"sync"
	"time"

	"conclave/testbed"
)

// Reader reads a file. Its methods may be called from any goroutine.
type Reader struct {
	from   io.ReaderAt
	header Header
	footer *footer
	marks  []Mark

	mu   sync.Mutex // guards the rest; not held while a block is read
	kept []*decoded // the blocks that were read last, the newest first
}

// blocksKept is how many decoded blocks a reader keeps.
const blocksKept = 4

// decoded is one block.
type decoded struct {
	index   int
	state   *testbed.Snapshot // at its beginning
	records []Record
}

// Open reads the beginning and the end of a file of that size.
func Open(from io.ReaderAt, size int64) (*Reader, error) {
	r := &Reader{from: from}
	if err := r.open(size); err != nil {
		return nil, fmt.Errorf("read a recording: %w", err)
	}
	return r, nil
}

func (r *Reader) open(size int64) error {
	head := io.NewSectionReader(r.from, 0, size)
	start := make([]byte, len(magic)+1)
	if _, err := io.ReadFull(head, start); err != nil || string(start[:len(magic)]) != magic {
		return errForeign
	}
	if v := start[len(magic)]; v != version {
		return fmt.Errorf("its format is version %d; this program reads version %d", v, version)
	}
	var err error
	if r.footer, err = readFooter(r.from, size); err != nil {
		return err
	}
	length, err := binary.ReadUvarint(byteReader{head})
	if err != nil || length > maxHeader || length > uint64(size) {
		return fmt.Errorf("the header: %w", errDamaged)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(head, text); err != nil {
		return fmt.Errorf("the header: %w", errDamaged)
	}
	if err := json.Unmarshal(text, &r.header); err != nil {
		return fmt.Errorf("the header: %w: %w", errDamaged, err)
	}
	r.marks = slices.Clone(r.footer.Marks)
	for _, v := range r.Result().Verdicts {
		for _, x := range v.Violations {
			n, err := r.Search(x.At)
			if err != nil {
				return err
			}
			if n < r.Len() {
				r.marks = append(r.marks, Mark{Number: n, At: x.At, Kind: ViolationMark, What: v.ID + ": " + x.What})
			}
		}
	}
	slices.SortStableFunc(r.marks, func(a, b Mark) int { return cmp.Compare(a.Number, b.Number) })
	return nil
}

// Header returns what was played.
func (r *Reader) Header() Header { return r.header }

// Result returns how the run ended.
func (r *Reader) Result() Result { return r.footer.Result.result() }

// Len returns the number of records.
func (r *Reader) Len() int { return r.footer.Len }

// Span returns the times of the first and of the last record.
func (r *Reader) Span() (from, to time.Duration) {
	if len(r.footer.Blocks) > 0 {
		from = r.footer.Blocks[0].From
	}
	return from, r.footer.To
}

// Marks returns the faults, elections and violations, in order. The caller does
// not change them.
func (r *Reader) Marks() []Mark { return r.marks }

// Record returns the record of a number.
func (r *Reader) Record(n int) (Record, error) {
	if n < 0 || n >= r.Len() {
		return Record{}, fmt.Errorf("record %d: want 0 to %d", n, r.Len()-1)
	}
	b, err := r.block(r.blockOf(n))
	if err != nil {
		return Record{}, err
	}
	return b.records[n-r.footer.Blocks[b.index].First], nil
}

// Search returns the number of the first record that is not before the time, or
// Len if there is none.
func (r *Reader) Search(at time.Duration) (int, error) {
	// The block before the first one that begins at that time or later.
	i := max(0, sort.Search(len(r.footer.Blocks), func(i int) bool { return r.footer.Blocks[i].From >= at })-1)
	if i >= len(r.footer.Blocks) {
		return 0, nil
	}
	b, err := r.block(i)
	if err != nil {
		return 0, err
	}
	return r.footer.Blocks[i].First + sort.Search(len(b.records), func(k int) bool { return b.records[k].At >= at }), nil
}

// StateBefore returns the newest state among the records before n, and the number
// of the record after it: the entries from there to n say what has happened since.
// It returns nil if there is none.
func (r *Reader) StateBefore(n int) (s *testbed.Snapshot, since int, err error) {
	if n <= 0 || r.Len() == 0 {
		return nil, 0, nil
	}
	b, err := r.block(r.blockOf(min(n, r.Len()) - 1))
	if err != nil {
		return nil, 0, err
	}
	first := r.footer.Blocks[b.index].First
	for i := min(n-first, len(b.records)) - 1; i >= 0; i-- {
		if s := b.records[i].State; s != nil {
			return s, first + i + 1, nil
		}
	}
	return b.state, r.footer.Blocks[b.index].StateOf, nil
}

// blockOf returns the index of the block with record n.
func (r *Reader) blockOf(n int) int {
	return sort.Search(len(r.footer.Blocks), func(i int) bool { return r.footer.Blocks[i].First > n }) - 1
}

// block returns a block, decoded.
func (r *Reader) block(index int) (*decoded, error) {
	r.mu.Lock()
	for i, b := range r.kept {
		if b.index == index {
			r.kept = slices.Insert(slices.Delete(r.kept, i, i+1), 0, b)
			r.mu.Unlock()
			return b, nil
		}
	}
	r.mu.Unlock()
	b, err := r.decode(index)
	if err != nil {
		return nil, fmt.Errorf("read a recording: block %d: %w", index+1, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = slices.Insert(r.kept, 0, b)
	r.kept = r.kept[:min(len(r.kept), blocksKept)]
	return b, nil
}

func (r *Reader) decode(index int) (*decoded, error) {
	at, next := r.footer.Blocks[index], r.footer.Len
	if index+1 < len(r.footer.Blocks) {
		next = r.footer.Blocks[index+1].First
	}
	packed := make([]byte, at.Size)
	if _, err := r.from.ReadAt(packed, at.Offset); err != nil {
		return nil, err
	}
	if crc32.ChecksumIEEE(packed) != at.CRC {
		return nil, fmt.Errorf("its checksum is wrong: %w", errDamaged)
	}
	raw, err := inflate(packed, int64(at.Raw))
	if err != nil {
		return nil, err
	}
	d := &decoder{began: r.header.Began, buf: raw}
	out := &decoded{index: index}
	if at.StateOf > 0 {
		first, err := d.record()
		if err != nil || first.State == nil {
			return nil, fmt.Errorf("it has no state at its beginning: %w", errDamaged)
		}
		out.state = first.State
	}
	for len(d.buf) > 0 {
		x, err := d.record()
		if err != nil {
			return nil, fmt.Errorf("record %d: %w: %w", at.First+len(out.records), errDamaged, err)
		}
		if n := len(out.records); n > 0 && x.At < out.records[n-1].At || len(out.records) == next-at.First {
			return nil, fmt.Errorf("record %d is not in order: %w", at.First+n, errDamaged)
		}
		out.records = append(out.records, x)
	}
	if len(out.records) != next-at.First {
		return nil, fmt.Errorf("it has %d records, not %d: %w", len(out.records), next-at.First, errDamaged)
	}
	return out, nil
}

// byteReader reads single bytes.
type byteReader struct{ io.Reader }

func (r byteReader) ReadByte() (byte, error) {
	var b [1]byte
	_, err := io.ReadFull(r, b[:])
	return b[0], err
}
