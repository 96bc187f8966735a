package journal

import (
	"errors"
	"time"

	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
)

// version is that of the format; it is raised with every change. A file of another
// one is refused.
const version = 3

// head is the first line.
type head struct {
	Recording int `json:"recording"`
	Header
}

// line is a record, or the last line.
type line struct {
	At       time.Duration      `json:"at"`
	Event    *event             `json:"event,omitempty"`
	Fault    *fault             `json:"fault,omitempty"`
	Op       *op                `json:"op,omitempty"`
	Observed *check.Observation `json:"observed,omitempty"`
	Usage    *testbed.Usage     `json:"usage,omitempty"`
	Message  *Message           `json:"message,omitempty"`
	State    *testbed.Snapshot  `json:"state,omitempty"`
	Result   *Result            `json:"result,omitempty"`
}

// event, fault and op have their errors as text: an outer field is written instead
// of an inner one of the same name.
type event struct {
	trace.Claim
	Err string `json:",omitempty"`
}

type fault struct {
	check.Fault
	Err string `json:",omitempty"`
}

type op struct {
	check.Op
	Err string `json:",omitempty"`
}

// lineOf returns a record as a line. It reports false if the record has nothing.
func lineOf(r Record) (line, bool) {
	l := line{At: r.At, Message: r.Message, State: r.State}
	e := r.Entry
	switch {
	case e == nil:
		return l, r.Message != nil || r.State != nil
	case e.Event != nil:
		l.Event = &event{*e.Event, textOf(e.Event.Err)}
	case e.Fault != nil:
		l.Fault = &fault{*e.Fault, textOf(e.Fault.Err)}
	case e.Op != nil:
		l.Op = &op{*e.Op, textOf(e.Op.Err)}
	case e.Observed != nil:
		l.Observed = e.Observed
	case e.Usage != nil:
		l.Usage = e.Usage
	default:
		return l, false
	}
	return l, true
}

// record returns a line as a record. It reports false if there is nothing in it.
func (l line) record() (Record, bool) {
	r := Record{At: l.At, Message: l.Message, State: l.State}
	e := &check.Entry{At: l.At, Observed: l.Observed, Usage: l.Usage}
	switch {
	case l.Event != nil:
		e.Event = &l.Event.Claim
		e.Event.Err = errorOf(l.Event.Err)
	case l.Fault != nil:
		e.Fault = &l.Fault.Fault
		e.Fault.Err = errorOf(l.Fault.Err)
	case l.Op != nil:
		e.Op = &l.Op.Op
		e.Op.Err = errorOf(l.Op.Err)
	case l.Observed == nil && l.Usage == nil:
		return r, l.Message != nil || l.State != nil
	}
	r.Entry = e
	return r, true
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func errorOf(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}
