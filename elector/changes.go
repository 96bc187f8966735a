package elector

import (
	"context"
	"iter"
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
// it delays neither the elector nor other readers. (onIamLeader and onIamNotLeader
// in article 000.)
//
//	for change := range elector.Changes(ctx) { ... }
func (e *Elector) Changes(ctx context.Context) iter.Seq[Change] {
	e.mu.Lock()
	next := e.shared.changes
	e.mu.Unlock()
	return func(yield func(Change) bool) {
		for q := next; ; q = q.next {
			select {
			case <-q.set:
			case <-ctx.Done():
			case <-e.done:
			}
			select { // what is queued comes before the end
			case <-q.set:
			default:
				return
			}
			if !yield(q.change) {
				return
			}
		}
	}
}

// queued is one change in the queue that all readers share. A reader holds its own
// place, so that what all have read is freed.
type queued struct {
	set    chan struct{} // closed when the change, and the place of the next one, are set
	change Change
	next   *queued
}

// put queues c for each reader; mu is held.
func (e *Elector) put(c Change) {
	q := e.shared.changes
	q.change, q.next = c, &queued{set: make(chan struct{})}
	e.shared.changes = q.next
	close(q.set)
}

// Stats are counts since the Elector was made.
type Stats struct {
	Rounds     uint64 // rounds played
	Failed     uint64 // rounds without an answer from the store
	Won        uint64 // terms won and led
	Refused    uint64 // terms that the store gave this node and it did not lead
	Ended      uint64 // leaderships that have ended, for any reason
	LeadFailed uint64 // calls of Lead that failed; see Config.Lead
	Alive      uint64 // calls of ConfirmLeading that returned true
	Promised   uint64 // calls of ConfirmLeading that returned false
}

// Stats returns the counts.
func (e *Elector) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.shared.stats
}
