package elector

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
)

// Change is one transition, seen from this node.
type Change struct {
	Term    Term
	Leading bool   // this node leads Term
	Why     string // the election's cause, or why this node's leadership ended; empty for another's term
}

// Changes yields this node's transitions, in their order and none left out, from
// the call on, until ctx or the elector's Run ends. A slow reader is queued for
// and delays nobody. The sequence is for one loop.
//
//	for change := range elector.Changes(ctx) { ... }
func (e *Elector) Changes(ctx context.Context) iter.Seq[Change] {
	r := e.feed.join()
	return func(yield func(Change) bool) {
		defer e.feed.leave(r)
		wakeUp := context.AfterFunc(ctx, e.feed.broadcast)
		defer wakeUp()
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
	mu      sync.Mutex // guards what follows
	news    *sync.Cond
	readers map[*reader]bool
	closed  bool
}

type reader struct{ queue []Change }

func newFeed() *feed {
	f := &feed{readers: make(map[*reader]bool)}
	f.news = sync.NewCond(&f.mu)
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

// put never waits for a reader.
func (f *feed) put(c Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r := range f.readers {
		r.queue = append(r.queue, c)
	}
	f.news.Broadcast()
}

func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.news.Broadcast()
}

func (f *feed) broadcast() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.news.Broadcast()
}

// next waits for the reader's next change; what is queued comes before any end.
func (f *feed) next(ctx context.Context, r *reader) (Change, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(r.queue) == 0 {
		if f.closed || ctx.Err() != nil {
			return Change{}, false
		}
		f.news.Wait()
	}
	c := r.queue[0]
	r.queue = r.queue[1:]
	return c, true
}

// Stats counts what an Elector has done since it was made.
type Stats struct {
	Rounds   uint64 // played
	Failed   uint64 // without an answer from the store
	Won      uint64 // terms led
	Refused  uint64 // wins that came too late to be led
	Ended    uint64 // leaderships over, for whatever reason
	Alive    uint64 // questions answered "alive"
	Promised uint64 // questions answered "stopped"
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
