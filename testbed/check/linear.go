package check

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"conclave"
	"conclave/internal/trace"
)

// The linearizable object. A history is linearizable if there is an order of
// all operations, each between its call and its answer, in which an object that
// does one operation at a time would have given the same answers. An operation
// whose answer was lost may have been executed at any time after its call, or
// never.
var linearCheckers = []checker{
	{"P1", "the lock row is a register with compare-and-swap", lockRowLinear},
}

// linearLimit bounds one check; if it is exceeded, the check is undecided.
const linearLimit = 10 * time.Second

// lockRow is the state of the model: which node owns the row, in which term and
// at which beat. The other columns do not matter here.
type lockRow struct {
	known bool // before the first reading the row may be anything
	owner conclave.NodeID
	term  uint64
	beat  uint64
}

// lockOp is a statement; lockAnswer is its outcome.
type lockOp struct {
	kind    trace.Kind // of the call
	me      conclave.NodeID
	expects lockRow
	beaten  bool // a win whose predicate names the beat
	term    uint64
}

type lockAnswer struct {
	lost    bool // it is not known whether the statement was executed
	changed int
	row     lockRow // what a reading returned
}

// lockModel defines what a statement may do to the row. A win that changes nothing
// is always possible, because the witness may not have been free.
var lockModel = porcupine.NondeterministicModel{
	Init: func() []any { return []any{lockRow{}} },
	Step: func(state, input, output any) []any {
		row, op, out := state.(lockRow), input.(lockOp), output.(lockAnswer)
		if op.kind == trace.Looking {
			if out.lost {
				return []any{row}
			}
			if !row.known || row == out.row {
				return []any{out.row}
			}
			return nil
		}
		next, fits := op.apply(row)
		switch {
		case out.lost && fits:
			return []any{row, next}
		case out.lost:
			return []any{row}
		case out.changed > 0 && fits:
			return []any{next}
		case out.changed > 0:
			return nil
		case fits && row.known && op.certain():
			return nil // its predicate has no other conditions, so it must have changed the row
		}
		return []any{row}
	},
	Equal: func(a, b any) bool { return a == b },
}

// certain reports whether the statement's predicate names only owner, term and
// beat.
func (o lockOp) certain() bool { return o.kind == trace.Renewing || o.kind == trace.Resigning }

// apply returns the row after the statement; fits reports whether its predicate
// may hold on the row.
func (o lockOp) apply(row lockRow) (next lockRow, fits bool) {
	e := o.expects
	switch o.kind {
	case trace.Swapping:
		fits = !row.known || row.owner == e.owner && row.term == e.term && (!o.beaten || row.beat == e.beat)
		return lockRow{true, o.me, o.term, 0}, fits
	case trace.Renewing:
		fits = !row.known || row.owner == e.owner && row.term == e.term && row.beat == e.beat
		return lockRow{true, e.owner, e.term, e.beat + 1}, fits
	case trace.Reacquiring:
		fits = !row.known || row.owner == e.owner && row.term == e.term && (row.beat == e.beat || row.beat == e.beat+1)
		return lockRow{true, e.owner, e.term, e.beat + 2}, fits
	case trace.Resigning:
		fits = !row.known || row.owner == e.owner && row.term == e.term
		return lockRow{true, conclave.NodeID{}, e.term, row.beat}, fits
	}
	return row, false
}

func lockRowLinear(h *History, v *Verdict) {
	ops := h.lockOps()
	v.Checks = len(ops)
	if v.Checks == 0 {
		return
	}
	switch porcupine.CheckOperationsTimeout(lockModel.ToModel(), ops, linearLimit) {
	case porcupine.Illegal:
		v.Violations = append(v.Violations, Violation{At: h.End(), What: fmt.Sprintf("no order of %d statements explains what each of them changed and read", len(ops))})
	case porcupine.Unknown:
		v.show("not decided within %s", linearLimit)
	}
}

// lockOps returns the statements on the lock row. In a joined history they begin
// after joining: then the row may be anything, and what was sent before it may have
// been executed already, or not.
func (h *History) lockOps() (ops []porcupine.Operation) {
	client := map[conclave.NodeID]int{}
	joining := h.joining()
	all := h.statements(trace.Looking, trace.Swapping, trace.Renewing, trace.Reacquiring, trace.Resigning)
	for _, s := range all {
		if _, known := client[s.before.Node]; !known {
			client[s.before.Node] = len(client)
		}
		lost := s.done < 0 || s.after.Err != nil
		if s.from <= joining {
			if !lost && s.to <= joining {
				continue
			}
			lost = true
		}
		if lost && s.before.Kind == trace.Looking {
			continue
		}
		to := int64(s.done)
		if lost { // it may be executed at any later time
			to = int64(len(h.Entries)) + int64(s.call)
		}
		ops = append(ops, porcupine.Operation{
			ClientId: client[s.before.Node], Call: int64(s.call), Return: to,
			Input: lockOp{
				kind: s.before.Kind, me: s.before.Node, beaten: s.before.Flag, term: s.before.Epoch.Term,
				expects: lockRow{true, s.before.Peer, s.before.Term, s.before.Beat},
			},
			Output: lockAnswer{lost: lost, changed: s.after.Count, row: lockRow{true, s.after.Peer, s.after.Term, s.after.Beat}},
		})
	}
	return ops
}
