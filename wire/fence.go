package wire

import (
	"sync"
	"sync/atomic"

	"conclave"
	"conclave/internal/trace"
)

// Fence keeps the highest term that a node has seen and refuses every command
// of a lower one. It is the receivers' half of the rule that two nodes may both
// believe they lead but at most one can change anything; the other half is the
// term in each statement to the database.
type Fence struct {
	// Trace receives every command, in the order in which they were decided.
	// Set it before the first.
	Trace trace.Sink

	mu      sync.Mutex // guards highest
	highest uint64
	refused atomic.Uint64
}

// Admit accepts a command of the given term, or refuses it with CodeStaleEpoch
// and the highest term seen, as an epoch without a sequence. An implausibly high
// term is refused with CodeBadRequest and not remembered.
func (f *Fence) Admit(term uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.highest
	if term > before+conclave.MaxJump {
		f.refused.Add(1)
		return Errorf(CodeBadRequest, "term %d is implausibly high: the highest seen here is %d", term, before)
	}
	admitted := term >= before
	f.highest = max(before, term)
	f.Trace.Claim(trace.Claim{Kind: trace.Admission(admitted), Term: term, Base: conclave.Epoch{Term: before}})
	if !admitted {
		f.refused.Add(1)
		e := Errorf(CodeStaleEpoch, "term %d has ended: term %d has been seen here", term, before)
		e.Epoch = conclave.Epoch{Term: before}
		return e
	}
	return nil
}

// Saw records a term that did not come with a command, unless it is implausibly high.
func (f *Fence) Saw(term uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if term <= f.highest+conclave.MaxJump {
		f.highest = max(f.highest, term)
	}
}

// Highest returns the highest term seen.
func (f *Fence) Highest() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.highest
}

// Refused returns the number of commands of older terms that were refused
// (invariant I4).
func (f *Fence) Refused() uint64 { return f.refused.Load() }
