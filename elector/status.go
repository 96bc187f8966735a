package elector

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// Status is what a node knows of its election at one moment.
type Status struct {
	State State
	Since time.Time // when State began; wall clock (Config.Now)
	// Term is the latest term that this node knows, with its leader, the leader's
	// address, and since when (Term.Since). No node leads if Leader is zero.
	Term Term
	// Silent means that another node leads Term by the store's record, but did not renew
	// it while this node watched for its lease: it is dead, cut off or paused. An alert that
	// no node leads asks for this, or for a Leader that is zero.
	Silent bool
	// Why is the cause of the election if this node leads Term, and why its leadership
	// ended if it led Term; empty for another node's term.
	Why string

	// Err is why the last round had no answer from the store, with what to do about it
	// if that is known (package termcas); nil after an answer. The term may go on.
	Err      error
	Failures int       // rounds in a row without an answer
	Next     time.Time // when the next round is due, or the present one began; by this node's monotonic clock
}

// String returns the status in one line, for logs and pages.
func (s Status) String() string {
	text := fmt.Sprintf("%s, %s", s.State, s.Term)
	if s.Term.Address != "" {
		text += " at " + s.Term.Address
	}
	if s.Silent {
		text += ", silent for its lease"
	}
	if s.Why != "" {
		text += fmt.Sprintf(" (%s)", s.Why)
	}
	if s.Err != nil {
		text += fmt.Sprintf("; %d rounds without an answer: %v", s.Failures, s.Err)
	}
	return text
}

// Status returns the present status. It may be called from any goroutine, and never
// blocks on I/O.
func (e *Elector) Status() Status {
	suspended := e.suspended()
	e.mu.Lock()
	defer e.mu.Unlock()
	status := e.shared.status()
	status.State = e.shared.stateAt(time.Now(), suspended)
	return status
}

// status returns the status as the loop has taken it in; mu is held.
func (s *shared) status() Status {
	return Status{State: s.state, Since: s.since, Term: s.last, Silent: s.silent && !s.state.holds(), Why: s.why, Err: s.err, Failures: s.failures, Next: s.next}
}

// Live returns an error if this process should be restarted: Run has ended, its loop
// hangs, or Lead has not returned five leases after its context ended (HandOver, if that
// is longer), so that no node leads, or another one beside it. A store that does not
// answer is no reason, because a restart would not help; nor is a process that has not
// called Run yet. Use it as a liveness probe (package electorhttp).
func (e *Elector) Live() error {
	select {
	case <-e.done:
		return ErrStopped
	default:
	}
	status, late := e.Status(), 5*e.cfg.Lease
	since := func(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }
	e.mu.Lock()
	defer e.mu.Unlock()
	switch l := e.shared.lead; {
	case l != nil && !l.left.IsZero() && time.Since(l.left) > max(late, e.cfg.HandOver):
		return fmt.Errorf("term %d: Lead has not returned for %v after its context ended", l.term.Number, since(l.left))
	case time.Since(status.Next) > late && !status.Next.IsZero():
		return fmt.Errorf("a round has been due for %v", since(status.Next))
	}
	return nil
}

// Changes returns this node's status after each change from the call on, in order and
// without gaps, until ctx or Run ends: another state, another term or leader, a leader
// that is silent for its lease, the store answers no more, for another reason, or again.
// Beats are no changes. Changes are queued
// for a slow reader, so that it delays neither the elector nor other readers.
// (onIamLeader and onIamNotLeader in article 000.)
//
//	for status := range elector.Changes(ctx) { ... }
func (e *Elector) Changes(ctx context.Context) iter.Seq[Status] {
	e.mu.Lock()
	next := e.shared.changes
	e.mu.Unlock()
	return func(yield func(Status) bool) {
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
			if !yield(q.status) {
				return
			}
		}
	}
}

// queued is one change in the queue that all readers share. A reader holds its own
// place, so that what all have read is freed.
type queued struct {
	set    chan struct{} // closed when the status, and the place of the next one, are set
	status Status
	next   *queued
}

// put queues the present status for each reader, unless nothing has changed; mu is held.
func (e *Elector) put() {
	s := &e.shared
	now, last := s.status(), s.shown
	if now.State == last.State && now.Term.Number == last.Term.Number && now.Term.Leader == last.Term.Leader &&
		now.Silent == last.Silent && now.Why == last.Why && (now.Err == nil) == (last.Err == nil) {
		return
	}
	s.shown = now
	q := s.changes
	q.status, q.next = now, &queued{set: make(chan struct{})}
	s.changes = q.next
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
