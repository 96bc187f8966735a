package journal

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/testbed/check"
)

// encoder turns records into the bytes of one block. Strings are written once;
// then they are numbers.
type encoder struct {
	began   time.Time // of the run
	buf     []byte
	last    time.Duration // of the record before
	strings map[string]uint64
}

func newEncoder(began time.Time) *encoder {
	return &encoder{began: began, strings: map[string]uint64{}}
}

// record appends a record.
func (e *encoder) record(r Record) error {
	var kind tag
	switch {
	case r.State != nil:
		kind = tagState
	case r.Message != nil:
		kind = tagMessage
	case r.Entry == nil:
	case r.Entry.Event != nil:
		kind = tagEvent
	case r.Entry.Fault != nil:
		kind = tagFault
	case r.Entry.Op != nil:
		kind = tagOp
	case r.Entry.Observed != nil:
		kind = tagObserved
	case r.Entry.Usage != nil:
		kind = tagUsage
	}
	if kind == 0 {
		return fmt.Errorf("a record at %s has nothing", r.At)
	}
	e.buf = append(e.buf, byte(kind))
	e.int(int64(r.At - e.last))
	e.last = r.At
	switch kind {
	case tagState:
		return e.json(r.State)
	case tagMessage:
		e.message(r.Message)
	case tagEvent:
		e.event(r.Entry.Event)
	case tagFault:
		f := r.Entry.Fault
		return e.json(fault{f.Action, f.Undo, textOf(f.Err)})
	case tagOp:
		e.op(r.Entry.Op)
	case tagObserved:
		return e.json(r.Entry.Observed)
	case tagUsage:
		return e.json(r.Entry.Usage)
	}
	return nil
}

func (e *encoder) message(m *Message) {
	e.string(m.From)
	e.string(m.To)
	e.uint(uint64(m.Conn))
	e.string(m.What)
	e.uint(uint64(m.Kind)<<2 | uint64(m.Fate))
	e.uint(uint64(m.Bytes))
	e.int(int64(m.Took))
}

func (e *encoder) event(c *trace.Claim) {
	var has uint64
	note := func(set bool, bit uint64) {
		if set {
			has |= bit
		}
	}
	note(!c.Peer.IsZero(), hasPeer)
	note(c.Term != 0, hasTerm)
	note(c.Beat != 0, hasBeat)
	note(!c.Epoch.IsZero(), hasEpoch)
	note(!c.Base.IsZero(), hasBase)
	note(c.Slot != 0, hasSlot)
	note(c.Subject != "", hasSubject)
	note(c.Key != "", hasKey)
	note(c.Version != 0, hasVersion)
	note(c.Count != 0, hasCount)
	note(c.Flag, hasFlag)
	note(c.Err != nil, hasErr)
	note(!c.Until.IsZero(), hasUntil)
	e.node(c.Node)
	e.string(string(c.Kind))
	e.uint(has)
	if has&hasPeer != 0 {
		e.node(c.Peer)
	}
	if has&hasTerm != 0 {
		e.uint(c.Term)
	}
	if has&hasBeat != 0 {
		e.uint(c.Beat)
	}
	if has&hasEpoch != 0 {
		e.epoch(c.Epoch)
	}
	if has&hasBase != 0 {
		e.epoch(c.Base)
	}
	if has&hasSlot != 0 {
		e.int(int64(c.Slot))
	}
	if has&hasSubject != 0 {
		e.string(c.Subject)
	}
	if has&hasKey != 0 {
		e.string(c.Key)
	}
	if has&hasVersion != 0 {
		e.int(c.Version)
	}
	if has&hasCount != 0 {
		e.int(int64(c.Count))
	}
	if has&hasErr != 0 {
		e.string(c.Err.Error())
	}
	if has&hasUntil != 0 {
		e.int(int64(c.Until.Sub(e.began)))
	}
}

func (e *encoder) op(o *check.Op) {
	var has uint64
	if o.Err != nil {
		has = hasErr
	}
	e.uint(has)
	e.string(o.Client)
	e.string(string(o.Kind))
	e.string(o.Name)
	e.string(o.ID)
	e.int(o.Version)
	e.uint(uint64(len(o.Values)))
	for _, v := range o.Values {
		e.string(v)
	}
	if o.Err != nil {
		e.string(o.Err.Error())
	}
}

func (e *encoder) node(n conclave.NodeID) {
	e.string(n.Name)
	e.string(n.Incarnation)
}

func (e *encoder) epoch(x conclave.Epoch) {
	e.uint(x.Term)
	e.uint(x.Seq)
}

func (e *encoder) uint(v uint64) { e.buf = binary.AppendUvarint(e.buf, v) }
func (e *encoder) int(v int64)   { e.buf = binary.AppendVarint(e.buf, v) }

// string appends the number of a string that the block has, or 0 and the string.
func (e *encoder) string(s string) {
	if n, ok := e.strings[s]; ok {
		e.uint(n)
		return
	}
	e.strings[s] = uint64(len(e.strings)) + 1
	e.uint(0)
	e.bytes([]byte(s))
}

func (e *encoder) bytes(b []byte) {
	e.uint(uint64(len(b)))
	e.buf = append(e.buf, b...)
}

func (e *encoder) json(v any) error {
	b, err := json.Marshal(v)
	e.bytes(b)
	return err
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
