package soak

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"conclave/meta/metaclient"
	"conclave/testbed"
)

const (
	askEvery   = 100 * time.Millisecond // how often each meta is asked for the leader
	askTimeout = 2 * time.Second        // bounds one request
)

// runTerms asks one meta for the leader until ctx ends.
func (r *runner) runTerms(ctx context.Context, meta, address string) error {
	admin := r.admin(address)
	return every(ctx, askEvery, func() {
		if l, err := admin.Leader(ctx); err == nil && l.Leader != "" {
			r.oracle.Led(meta, l.Term, l.Leader)
		}
	})
}

// checkElections reads the election history, if a meta answers, and checks it.
func (r *runner) checkElections(ctx context.Context) {
	all, err := r.admin(slices.Collect(maps.Values(r.metas()))...).Elections(ctx)
	if err != nil {
		r.oracle.Note("the election history is not known: " + err.Error())
		return
	}
	history := fmt.Sprintf("the history at %s", r.elapsed())
	for _, e := range slices.Backward(all) { // the newest is the first
		r.oracle.Elected(history, e.Term, e.Owner)
	}
}

// metas returns the addresses of the metas, by name.
func (r *runner) metas() map[string]string {
	all := r.cluster.Addresses()
	maps.DeleteFunc(all, func(name, _ string) bool { return testbed.RoleOf(name) != "meta" })
	return all
}

// admin returns a client that asks these metas, without keeping connections: an old
// one may lead to a process that has ended.
func (r *runner) admin(metas ...string) *metaclient.Admin {
	web := &http.Client{Timeout: askTimeout, Transport: r.cluster.Secure(&http.Transport{DisableKeepAlives: true, DialContext: r.cluster.Dial})}
	return metaclient.NewAdmin(metaclient.AdminConfig{Metas: metas, HTTP: web, TokenFor: func(string) string { return r.cluster.Token() }})
}
