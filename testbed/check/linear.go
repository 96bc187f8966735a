package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"conclave"
	"conclave/internal/trace"
)

// The linearizable objects. A history is linearizable if there is an order of
// all operations, each between its call and its answer, in which an object that
// does one operation at a time would have given the same answers. An operation
// whose answer was lost may have been executed at any time after its call, or
// never.
var linearCheckers = []checker{
	{"P1", "the lock row is a register with compare-and-swap", lockRowLinear},
	{"P2", "per registration, what subscribers see is a register that its publisher writes", registrationsLinear},
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

// lockOp is a statement, as the event before it describes it: Peer, Term and Beat are
// the row that it expects, Epoch.Term is the term to win, and Flag is set if the
// predicate of a win names the beat.
type lockOp trace.Claim

// rowOf returns the row that an event is about.
func rowOf(c trace.Claim) lockRow { return lockRow{true, c.Peer, c.Term, c.Beat} }

// lockAnswer is its outcome.
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
		if op.Kind == trace.Looking {
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
func (o lockOp) certain() bool { return o.Kind == trace.Renewing || o.Kind == trace.Resigning }

// apply returns the row after the statement; fits reports whether its predicate
// may hold on the row.
func (o lockOp) apply(row lockRow) (next lockRow, fits bool) {
	e := rowOf(trace.Claim(o))
	switch o.Kind {
	case trace.Swapping:
		fits = !row.known || row.owner == e.owner && row.term == e.term && (!o.Flag || row.beat == e.beat)
		return lockRow{true, o.Node, o.Epoch.Term, 0}, fits
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

// lockRowLinear checks that one order of the statements on the lock row explains what each
// of them changed and read.
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
			ClientId: client[s.before.Node], Call: int64(s.call), Return: to, Input: lockOp(s.before),
			Output: lockAnswer{lost: lost, changed: s.after.Count, row: rowOf(s.after)},
		})
	}
	return ops
}

// regOp is one value of a registration, written by its publisher or seen by a
// subscriber.
type regOp struct {
	write bool
	value int
}

// regModel is a register whose values are 1, 2, 3 .. A subscriber sees a write
// late, and each at its own time, so each is checked alone with the publisher.
var regModel = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, _ any) (bool, any) {
		op, now := input.(regOp), state.(int)
		if op.write {
			return op.value == now+1, op.value
		}
		return op.value == now, now
	},
}

// registrationsLinear checks that each subscriber sees the values of each registration in
// the order in which they were published, none before it was, and may miss some.
func registrationsLinear(h *History, v *Verdict) {
	type pair struct{ client, tag string }
	writes, reads := map[string][]porcupine.Operation{}, map[pair][]porcupine.Operation{}
	end := int64(len(h.Entries))
	last := map[pair]int{}
	forgotten := h.forgotten()
	h.ops(func(i int, at time.Duration, o Op) {
		call := int64(i)
		if o.Kind == OpPublish { // seen at any time from now on
			writes[o.ID] = append(writes[o.ID], porcupine.Operation{Call: call, Return: end + o.Version, Input: regOp{true, int(o.Version)}})
			return
		}
		if during(forgotten[o.Name], at, at) {
			return
		}
		for _, value := range o.Values {
			tag, n, ok := ParseValue(value)
			if k := (pair{o.Client, tag}); ok && last[k] != n { // a repeated value adds nothing
				last[k] = n
				reads[k] = append(reads[k], porcupine.Operation{ClientId: 1, Call: call, Return: call, Input: regOp{false, n}})
			}
		}
	}, OpPublish, OpPush)
	pairs := make([]pair, 0, len(reads))
	for k := range reads {
		pairs = append(pairs, k)
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Or(cmp.Compare(a.tag, b.tag), cmp.Compare(a.client, b.client)) })
	for _, k := range pairs {
		v.Checks += len(reads[k])
		ops := slices.Concat(writes[k.tag], reads[k])
		if porcupine.CheckOperationsTimeout(regModel, ops, linearLimit) == porcupine.Illegal && len(v.Violations) < maxViolations {
			v.Violations = append(v.Violations, Violation{At: h.End(), What: fmt.Sprintf("no order explains how %s saw %s change, as %d values", k.client, k.tag, len(reads[k]))})
		}
	}
}
