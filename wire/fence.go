package wire

import (
	"sync"
	"sync/atomic"

	"conclave"
	"conclave/internal/trace"
)

// Fence keeps the highest term a node has ever seen and refuses every command
// of a lower one. It is the receivers' half of the rule that two leaders may
// believe but never act; the database's half is the term in each statement.
type Fence struct {
	// Trace hears of every command, in the order in which they were judged; set it
	// before the first.
	Trace trace.Sink

	mu      sync.Mutex // guards highest
	highest uint64
	refused atomic.Uint64
}

// maxJump bounds how far one command may raise the highest term: a broken or
// hostile peer must not be able to make a node deaf to every leader to come.
const maxJump = 1 << 40

// Admit takes a command of term, or refuses it with stale_epoch naming the
// highest term seen. A term too high to be true is refused as well, and not
// remembered.
func (f *Fence) Admit(term uint64) error {
	highest, verdict := f.raise(term, true)
	switch verdict {
	case unbelievable:
		f.refused.Add(1)
		return Errorf(CodeBadRequest, "term %d is too high to be true: the highest seen here is %d", term, highest)
	case over:
		f.refused.Add(1)
		e := Errorf(CodeStaleEpoch, "term %d is over: term %d has been seen here", term, highest)
		e.Epoch = conclave.Epoch{Term: highest}
		return e
	}
	return nil
}

// Saw notes a term without judging a command.
func (f *Fence) Saw(term uint64) { f.raise(term, false) }

// Highest is the highest term ever seen.
func (f *Fence) Highest() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.highest
}

// Refused counts the commands of older terms that were turned away (I4).
func (f *Fence) Refused() uint64 { return f.refused.Load() }

// verdict is what is thought of a term.
type verdict int

const (
	fresh        verdict = iota // as high as any that was seen, or higher
	over                        // a higher one was seen
	unbelievable                // too high to be true
)

func (f *Fence) raise(term uint64, command bool) (highest uint64, v verdict) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.highest
	switch {
	case term > before+maxJump:
		return before, unbelievable
	case term < before:
		v = over
	}
	f.highest = max(before, term)
	if command {
		f.Trace.Claim(trace.Claim{Kind: trace.Admission(v != over), Term: term, Base: conclave.Epoch{Term: before}})
	}
	return f.highest, v
}
