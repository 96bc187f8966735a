package check

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"conclave"
)

// A checker checks one invariant of a history. It counts its checks and reports
// violations; it has no access to a running cluster.
type checker struct {
	id    string
	title string
	run   func(h *History, v *Verdict)
}

// Verdict is the outcome of one checker.
type Verdict struct {
	ID         string      `json:"id"`
	Says       string      `json:"says"`
	Checks     int         `json:"checks"`
	Violations []Violation `json:"violations"`
	Shown      string      `json:"shown,omitempty"` // a figure that the checker found on the way
}

// Violation is one violation of an invariant, with the entries that show it.
type Violation struct {
	At       time.Duration `json:"at"`
	What     string        `json:"what"`
	Evidence []string      `json:"evidence"`
}

// violation is a Violation in JSON, with its time in milliseconds.
type violation struct {
	AtMs     float64  `json:"atMs"`
	Evidence []string `json:"evidence"`
	What     string   `json:"what"`
}

func (v Violation) MarshalJSON() ([]byte, error) {
	return json.Marshal(violation{float64(v.At) / float64(time.Millisecond), v.Evidence, v.What})
}

func (v *Violation) UnmarshalJSON(text []byte) error {
	var in violation
	err := json.Unmarshal(text, &in)
	*v = Violation{At: time.Duration(math.Round(in.AtMs * float64(time.Millisecond))), What: in.What, Evidence: in.Evidence}
	return err
}

// maxViolations is how many violations a checker keeps: the first explain the
// rest.
const maxViolations = 20

// check counts one check, and records a violation if it does not hold.
func (v *Verdict) check(holds bool, h *History, at time.Duration, evidence []int, format string, args ...any) {
	v.Checks++
	if holds || len(v.Violations) >= maxViolations {
		return
	}
	x := Violation{At: at, What: fmt.Sprintf(format, args...)}
	for _, i := range evidence {
		x.Evidence = append(x.Evidence, h.Entries[i].String())
	}
	v.Violations = append(v.Violations, x)
}

// show keeps a figure that the checker found on the way.
func (v *Verdict) show(format string, args ...any) { v.Shown = fmt.Sprintf(format, args...) }

// slotEpoch identifies one leadership of one slot.
type slotEpoch struct {
	slot  int
	epoch conclave.Epoch
}

// nodeSlot identifies one slot at one incarnation of a node.
type nodeSlot struct {
	node conclave.NodeID
	slot int
}

// owned identifies what one incarnation of a session has: a registration, a
// subscription, or what it has read of a datum.
type owned struct {
	session conclave.NodeID
	id      string
}

// seenAt is a value with the index of the entry that shows it.
type seenAt[T any] struct {
	v T
	i int
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
