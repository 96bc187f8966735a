package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"conclave/meta/metaclient"
	"conclave/testbed/bench"
)

// termWatch repeatedly asks every meta for the leader and checks the answers: a
// term has one owner (I1), and terms only rise at each meta (I2).
type termWatch struct {
	metas []string
	http  *http.Client

	mu      sync.Mutex // guards the fields below
	owner   map[uint64]string
	highest map[string]uint64 // by meta
	one     bench.Invariant
	rise    bench.Invariant
	breach  []string
}

func newTermWatch(metas []string, c *http.Client) *termWatch {
	return &termWatch{
		metas: metas, http: c, owner: make(map[uint64]string), highest: make(map[string]uint64),
		one:  bench.Invariant{Name: "a term has one owner"},
		rise: bench.Invariant{Name: "terms only rise, at every meta and in the history"},
	}
}

// run queries until ctx ends.
func (w *termWatch) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, m := range w.metas {
		all.Go(func() { w.watch(ctx, m) })
	}
	all.Wait()
}

func (w *termWatch) watch(ctx context.Context, meta string) {
	admin := metaclient.NewAdmin(metaclient.AdminConfig{Metas: []string{meta}, HTTP: w.http})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, time.Second)
		leader, err := admin.Leader(asking)
		cancel()
		if err == nil { // a meta that is down or knows no leader gives no answer
			w.said(meta, leader.Term, leader.Leader)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// said checks one answer.
func (w *termWatch) said(meta string, term uint64, owner string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owns(term, owner)
	w.rise.Checks++
	if term < w.highest[meta] {
		w.rise.Broken++
		w.breach = append(w.breach, fmt.Sprintf("%s named term %d after term %d", meta, term, w.highest[meta]))
	}
	w.highest[meta] = max(w.highest[meta], term)
}

// owns checks one pair of term and owner. The caller holds mu.
func (w *termWatch) owns(term uint64, owner string) {
	w.one.Checks++
	if known, ok := w.owner[term]; ok && known != owner {
		w.one.Broken++
		w.breach = append(w.breach, fmt.Sprintf("term %d was owned by %s and by %s", term, known, owner))
	}
	w.owner[term] = owner
}

// history checks the election history, which has the newest first.
func (w *termWatch) history(ctx context.Context, admin *metaclient.Admin) error {
	elections, err := admin.Elections(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, e := range elections {
		w.owns(e.Term, e.Owner)
		w.rise.Checks++
		if i > 0 && e.Term >= elections[i-1].Term {
			w.rise.Broken++
			w.breach = append(w.breach, fmt.Sprintf("the history has term %d after term %d", elections[i-1].Term, e.Term))
		}
	}
	return nil
}

func (w *termWatch) invariants() []bench.Invariant {
	w.mu.Lock()
	defer w.mu.Unlock()
	return []bench.Invariant{w.one, w.rise}
}

func (w *termWatch) broken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.breach...)
}
