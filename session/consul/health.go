package consul

import (
	"context"
	"net/http"
	"sync"
	"time"

	"conclave/wire/serve"
)

// lists reads services. It remembers the last list of each that it has answered, which
// is what a client has that brings its index: to subscribe with that makes the push guard
// compare with it, and keeps the index from falling.
type lists struct {
	Config

	mu    sync.Mutex // guards the rest
	known map[string]List
	bytes int // of known, about
}

// knownMost bounds what is remembered. Beyond it all is forgotten: then reads start from
// nothing, once.
const knownMost = 64 << 20

// get returns the list of a service: at once, or, if the query has the index of the list
// that there is, the next one, or the same after its wait.
func (l *lists) get(ctx context.Context, c serve.Caller, q query) (List, error) {
	l.mu.Lock()
	have, wait := l.known[q.name], q.jittered()
	l.mu.Unlock()
	if have.List == nil || q.index != have.index() {
		now, err := l.next(ctx, c, q.name, List{}, 0)
		switch {
		case err != nil:
			return now, err
		case now.Version >= have.Version:
			have = now
		case now.Hash() != have.Hash():
			q.index, wait = have.index(), l.ReadWait // the slot has a leader that has not reached it, and must
		}
		if q.index != have.index() {
			return have, nil // also if it is higher than all that there is: its client starts again
		}
	}
	return l.next(ctx, c, q.name, have, wait)
}

// next returns the list after the one that the caller has, or that one if the wait ends
// before.
func (l *lists) next(ctx context.Context, c serve.Caller, service string, have List, wait time.Duration) (List, error) {
	newer, err := l.Cluster.Next(ctx, c, service, have, wait)
	if err == nil {
		l.remember(service, newer, newer.Version < have.Version)
	}
	return newer, err
}

// remember remembers a list, unless a newer one is known, or forgets all others first.
func (l *lists) remember(service string, list List, forgets bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.known[service]
	if list.Version < old.Version && !forgets {
		return
	}
	l.bytes += list.bytes(service) - old.bytes(service)
	if forgets || l.bytes > knownMost {
		clear(l.known)
		l.bytes = list.bytes(service)
	}
	l.known[service] = list
}

// bytes returns what a list takes under the name of its service, about.
func (l List) bytes(service string) int {
	if l.List == nil {
		return 0
	}
	return 200 + len(service) + l.Bytes()
}

// instances returns the instances of a service that a query selects, and the index.
func (l *lists) instances(ctx context.Context, c serve.Caller, q query) (out []Instance, index uint64, err error) {
	if err := checkName(q.name); err != nil {
		return nil, 0, err
	}
	list, err := l.get(ctx, c, q)
	if err != nil {
		return nil, 0, err
	}
	return parseAll(q.name, list.Values, q), list.index(), nil
}

// list returns a handler that shows each instance of a service as show does.
func (l *lists) list(show func(in Instance, dataCenter string, index uint64) object) handler {
	return func(r *http.Request, c serve.Caller, q query) (any, uint64, error) {
		all, index, err := l.instances(r.Context(), c, q)
		out := []object{}
		for _, in := range all {
			out = append(out, show(in, l.DataCenter, index))
		}
		return out, index, err
	}
}
