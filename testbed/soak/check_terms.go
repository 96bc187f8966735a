package soak

import (
	"context"
	"net/http"
	"time"
)

// Led checks one answer of a meta that names the leader.
func (o *Oracle) Led(meta string, term uint64, owner string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.owned(term, owner)
	o.counts[checkRise].Checks++
	if term < o.terms[meta] {
		o.violate(checkRise, nil, "%s named term %d after term %d", meta, term, o.terms[meta])
	}
	o.terms[meta] = max(o.terms[meta], term)
}

// owned checks one pair of a term and its owner; mu is held.
func (o *Oracle) owned(term uint64, owner string) {
	o.counts[checkTerm].Checks++
	was, known := o.owners[term]
	if known && was != owner {
		o.violate(checkTerm, nil, "term %d was owned by %s and by %s", term, was, owner)
	}
	if !known {
		o.note("", "%s leads term %d", owner, term)
	}
	o.owners[term] = owner
}

// Elected checks the election history, newest first.
func (o *Oracle) Elected(history []election) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, e := range history {
		o.owned(e.Term, e.Owner)
		o.counts[checkRise].Checks++
		if i > 0 && e.Term >= history[i-1].Term {
			o.violate(checkRise, nil, "the history lists term %d below term %d", e.Term, history[i-1].Term)
		}
	}
}

// slotsEvery is how often the slot table is read, for the event log.
const slotsEvery = 250 * time.Millisecond

// runSlots records the slot tables until ctx ends.
func (r *Runner) runSlots(ctx context.Context) {
	tick := time.NewTicker(slotsEvery)
	defer tick.Stop()
	for last := ""; ; {
		if s, err := r.operator.slots(ctx); err == nil && s.String() != last {
			last = s.String()
			r.oracle.Note("slots: %s", last)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// askEvery is how often each meta is asked for the leader.
const askEvery = 100 * time.Millisecond

// runTerms asks one meta for the leader until ctx ends.
func (r *Runner) runTerms(ctx context.Context, meta, address string) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		var l leaderInfo
		asking, cancel := context.WithTimeout(ctx, askTimeout)
		err := r.operator.call(asking, address, http.MethodGet, "/v1/leader", nil, &l)
		cancel()
		if err == nil && l.Leader != "" {
			r.oracle.Led(meta, l.Term, l.Leader)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
