package journal

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
)

// decoder reads the records of one block. After the first error it returns zeros.
type decoder struct {
	began   time.Time
	buf     []byte
	last    time.Duration
	strings []string
	err     error
}

// errShort reports that a block ends within a record.
var errShort = errors.New("it ends within a record")

// record returns the next record.
func (d *decoder) record() (Record, error) {
	if len(d.buf) == 0 {
		return Record{}, errShort
	}
	kind := tag(d.buf[0])
	d.buf = d.buf[1:]
	d.last += time.Duration(d.int())
	r := Record{At: d.last}
	entry := func(e check.Entry) { e.At = d.last; r.Entry = &e }
	switch kind {
	case tagState:
		r.State = &testbed.Snapshot{}
		d.json(r.State)
	case tagMessage:
		r.Message = d.message()
	case tagEvent:
		entry(check.Entry{Event: d.event()})
	case tagFault:
		var f fault
		d.json(&f)
		entry(check.Entry{Fault: &check.Fault{Action: f.Action, Undo: f.Undo, Err: errorOf(f.Err)}})
	case tagOp:
		entry(check.Entry{Op: d.op()})
	case tagObserved:
		o := &check.Observation{}
		d.json(o)
		entry(check.Entry{Observed: o})
	case tagUsage:
		u := &testbed.Usage{}
		d.json(u)
		entry(check.Entry{Usage: u})
	default:
		d.fail(fmt.Errorf("it has a record of the unknown kind %d", kind))
	}
	return r, d.err
}

func (d *decoder) message() *Message {
	m := &Message{From: d.string(), To: d.string(), Conn: d.count(), What: d.string()}
	flags := d.uint()
	m.Kind, m.Fate = MessageKind(flags>>2&3), Fate(flags&3)
	m.Bytes, m.Took = d.count(), time.Duration(d.int())
	return m
}

func (d *decoder) event() *trace.Claim {
	c := &trace.Claim{Node: d.node(), Kind: trace.Kind(d.string())}
	has := d.uint()
	if has&hasPeer != 0 {
		c.Peer = d.node()
	}
	if has&hasTerm != 0 {
		c.Term = d.uint()
	}
	if has&hasBeat != 0 {
		c.Beat = d.uint()
	}
	if has&hasEpoch != 0 {
		c.Epoch = d.epoch()
	}
	if has&hasBase != 0 {
		c.Base = d.epoch()
	}
	if has&hasSlot != 0 {
		c.Slot = int(d.int())
	}
	if has&hasSubject != 0 {
		c.Subject = d.string()
	}
	if has&hasKey != 0 {
		c.Key = d.string()
	}
	if has&hasVersion != 0 {
		c.Version = d.int()
	}
	if has&hasCount != 0 {
		c.Count = int(d.int())
	}
	c.Flag = has&hasFlag != 0
	if has&hasErr != 0 {
		c.Err = errors.New(d.string())
	}
	if has&hasUntil != 0 {
		c.Until = d.began.Add(time.Duration(d.int()))
	}
	return c
}

func (d *decoder) op() *check.Op {
	has := d.uint()
	o := &check.Op{Client: d.string(), Kind: check.OpKind(d.string()), Name: d.string(), ID: d.string(), Version: d.int()}
	for n := d.uint(); n > 0 && d.err == nil; n-- {
		o.Values = append(o.Values, d.string())
	}
	if has&hasErr != 0 {
		o.Err = errors.New(d.string())
	}
	return o
}

func (d *decoder) node() conclave.NodeID {
	return conclave.NodeID{Name: d.string(), Incarnation: d.string()}
}

func (d *decoder) epoch() conclave.Epoch { return conclave.Epoch{Term: d.uint(), Seq: d.uint()} }

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.buf)
	return skip(d, v, n)
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.buf)
	return skip(d, v, n)
}

// skip goes on behind a number of n bytes.
func skip[T int64 | uint64](d *decoder, v T, n int) T {
	if d.err != nil || n <= 0 {
		d.fail(errShort)
		return 0
	}
	d.buf = d.buf[n:]
	return v
}

// count reads a number of bytes or connections.
func (d *decoder) count() int { return int(min(d.uint(), 1<<40)) }

func (d *decoder) string() string {
	n := d.uint()
	switch {
	case n == 0:
		s := string(d.bytes())
		d.strings = append(d.strings, s)
		return s
	case n > uint64(len(d.strings)):
		d.fail(fmt.Errorf("it names string %d of %d", n, len(d.strings)))
		return ""
	}
	return d.strings[n-1]
}

func (d *decoder) bytes() []byte {
	n := d.uint()
	if d.err != nil || n > uint64(len(d.buf)) {
		d.fail(errShort)
		return nil
	}
	b := d.buf[:n]
	d.buf = d.buf[n:]
	return b
}

func (d *decoder) json(v any) {
	if b := d.bytes(); d.err == nil {
		if err := json.Unmarshal(b, v); err != nil {
			d.fail(err)
		}
	}
}

// fail keeps the first error.
func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

func errorOf(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}
