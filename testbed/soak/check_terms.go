package soak

import (
	"context"
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

// term is one row of the election history.
type term struct {
	number uint64
	owner  string
}

// Elected checks the election history, newest first.
func (o *Oracle) Elected(history []term) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, e := range history {
		o.owned(e.number, e.owner)
		o.counts[checkRise].Checks++
		if i > 0 && e.number >= history[i-1].number {
			o.violate(checkRise, nil, "the history lists term %d below term %d", e.number, history[i-1].number)
		}
	}
}

// askEvery is how often each meta is asked for the leader.
const askEvery = 100 * time.Millisecond

// askTimeout bounds one request.
const askTimeout = 2 * time.Second

// runTerms asks one meta for the leader until ctx ends.
func (r *Runner) runTerms(ctx context.Context, meta, address string) {
	admin := r.admin(address)
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, askTimeout)
		l, err := admin.Leader(asking)
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
