package elector

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
)

// Change is one transition as this node sees it: another node leads, this node
// leads, or this node's leadership has ended. Changes are the counterpart of the
// listeners "I am leader" and "I am not leader" of article 000.
type Change struct {
	Term    Term
	Leading bool   // this node leads Term
	Why     string // the election's cause, or why this node's leadership ended; empty for another node's term
}

// Changes returns this node's transitions from the call on, in order and without
// gaps, until ctx or Run ends. Transitions are queued for a slow reader, so that
// it delays neither the elector nor other readers. The sequence may be used in one
// loop only. (onIamLeader and onIamNotLeader in article 000.)
//
//	for change := range elector.Changes(ctx) { ... }
func (e *Elector) Changes(ctx context.Context) iter.Seq[Change] {
	r := e.feed.join()
	return func(yield func(Change) bool) {
		defer e.feed.leave(r)
		stop := context.AfterFunc(ctx, e.feed.broadcast)
		defer stop()
		for {
			change, ok := e.feed.next(ctx, r)
			if !ok || !yield(change) {
				return
			}
		}
	}
}

// feed queues changes for each reader.
type feed struct {
	mu      sync.Mutex // guards the fields below
	changed *sync.Cond
	readers map[*reader]bool
	closed  bool
}

type reader struct{ queue []Change }

func newFeed() *feed {
	f := &feed{readers: make(map[*reader]bool)}
	f.changed = sync.NewCond(&f.mu)
	return f
}

func (f *feed) join() *reader {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &reader{}
	f.readers[r] = true
	return r
}

func (f *feed) leave(r *reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.readers, r)
}

// put queues c for each reader. It never waits for one.
func (f *feed) put(c Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r := range f.readers {
		r.queue = append(r.queue, c)
	}
	f.changed.Broadcast()
}

func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.changed.Broadcast()
}

func (f *feed) broadcast() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed.Broadcast()
}

// next waits for the reader's next change. It returns false when ctx has ended or
// the feed is closed, and the queue is empty.
func (f *feed) next(ctx context.Context, r *reader) (Change, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(r.queue) == 0 {
		if f.closed || ctx.Err() != nil {
			return Change{}, false
		}
		f.changed.Wait()
	}
	c := r.queue[0]
	r.queue = r.queue[1:]
	return c, true
}

// Stats are counts since the Elector was made.
type Stats struct {
	Rounds   uint64 // rounds played
	Failed   uint64 // rounds without an answer from the store
	Won      uint64 // terms won and led
	Refused  uint64 // terms won too late to be led
	Ended    uint64 // leaderships that have ended, for any reason
	Alive    uint64 // calls of ConfirmLeading that returned true
	Promised uint64 // calls of ConfirmLeading that returned false
}

type stats struct {
	rounds, failed, won, refused, ended, alive, promised atomic.Uint64
}

// Stats returns the counts.
func (e *Elector) Stats() Stats {
	s := &e.stats
	return Stats{
		Rounds: s.rounds.Load(), Failed: s.failed.Load(), Won: s.won.Load(), Refused: s.refused.Load(),
		Ended: s.ended.Load(), Alive: s.alive.Load(), Promised: s.promised.Load(),
	}
}
