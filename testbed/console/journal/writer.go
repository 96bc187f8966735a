package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"conclave/internal/trace"
	"conclave/testbed"
)

// blockSize is how many bytes of records a block has, before it is compressed: so
// many have to be decoded to show one record.
const blockSize = 128 << 10

// Writer writes a file. It is used by one goroutine. After an error the file is
// not complete, and every call returns that error.
type Writer struct {
	to     io.Writer
	offset int64
	began  time.Time
	footer footer
	state  *testbed.Snapshot // the newest
	next   int               // number of the record after it
	block  *encoder          // nil: the next record begins a block
	open   block
	packed bytes.Buffer
	err    error
}

// NewWriter begins a file.
func NewWriter(to io.Writer, h Header) (*Writer, error) {
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	w := &Writer{to: to, began: h.Began}
	head := append([]byte(magic), version)
	head = binary.AppendUvarint(head, uint64(len(text)))
	w.write(append(head, text...))
	return w, w.err
}

// Write appends a record, whose time is not before that of the last one.
func (w *Writer) Write(r Record) error {
	if w.err != nil {
		return w.err
	}
	if w.footer.Len > 0 && r.At < w.footer.To {
		return w.fail(fmt.Errorf("a record of %s comes after one of %s", r.At, w.footer.To))
	}
	if w.block == nil {
		w.block = newEncoder(w.began)
		w.open = block{First: w.footer.Len, From: r.At, StateOf: w.next}
		if w.state != nil {
			if err := w.block.record(Record{At: r.At, State: w.state}); err != nil {
				return w.fail(err)
			}
		}
	}
	if err := w.block.record(r); err != nil {
		return w.fail(err)
	}
	if r.State != nil {
		w.state, w.next = r.State, w.footer.Len+1
	}
	w.mark(r)
	w.footer.Len++
	w.footer.To = r.At
	if len(w.block.buf) >= blockSize {
		w.flush()
	}
	return w.err
}

// mark notes a fault or an election.
func (w *Writer) mark(r Record) {
	m := Mark{Number: w.footer.Len, At: r.At}
	switch {
	case r.Entry == nil:
		return
	case r.Entry.Fault != nil && r.Entry.Fault.Err == nil:
		m.Kind, m.What = FaultMark, r.Entry.Fault.Action.String()
	case r.Entry.Event != nil && r.Entry.Event.Kind == trace.Led:
		m.Kind, m.What = ElectionMark, fmt.Sprintf("%s leads term %d", r.Entry.Event.Node.Name, r.Entry.Event.Term)
	default:
		return
	}
	w.footer.Marks = append(w.footer.Marks, m)
}

// flush writes the block that is open.
func (w *Writer) flush() {
	if w.block == nil || w.err != nil {
		return
	}
	w.packed.Reset()
	if err := deflate(&w.packed, w.block.buf); err != nil {
		_ = w.fail(err)
		return
	}
	w.open.Offset, w.open.Size, w.open.Raw = w.offset, w.packed.Len(), len(w.block.buf)
	w.open.CRC = crc32.ChecksumIEEE(w.packed.Bytes())
	w.footer.Blocks = append(w.footer.Blocks, w.open)
	w.block = nil
	w.write(w.packed.Bytes())
}

// errClosed is what a closed writer returns.
var errClosed = errors.New("the recording is complete")

// Close completes the file. It does not close the io.Writer.
func (w *Writer) Close(r Result) error {
	w.flush()
	if w.err != nil {
		return w.err
	}
	w.footer.Result = resultOf(r)
	if err := w.footer.write(w.to, w.offset); err != nil {
		return w.fail(err)
	}
	w.err = errClosed
	return nil
}

func (w *Writer) write(b []byte) {
	n, err := w.to.Write(b)
	w.offset += int64(n)
	if err != nil {
		_ = w.fail(err)
	}
}

func (w *Writer) fail(err error) error {
	w.err = fmt.Errorf("write a recording: %w", err)
	return w.err
}
