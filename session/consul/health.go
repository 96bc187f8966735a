package consul

import (
	"context"
	"net/http"
	"slices"
	"strings"
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
func (l *lists) get(ctx context.Context, c serve.Caller, service string, q query) (List, error) {
	have, known := l.recall(service)
	wait := q.jittered()
	if !known || q.index != have.index() {
		now, err := l.next(ctx, c, service, List{}, 0)
		switch {
		case err != nil:
			return now, err
		case now.Version >= have.Version:
			have = now
		case now.Hash != have.Hash:
			q.index, wait = have.index(), l.ReadWait // the slot has a leader that has not reached it, and must
		}
		if q.index != have.index() {
			return have, nil // also if it is higher than all that there is: its client starts again
		}
	}
	return l.next(ctx, c, service, have, wait)
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

func (l *lists) recall(service string) (List, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have, known := l.known[service]
	return have, known
}

// remember remembers a list, unless a newer one is known, or forgets all others first.
func (l *lists) remember(service string, list List, forgets bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if forgets {
		clear(l.known)
		l.bytes = 0
	}
	old, known := l.known[service]
	if list.Version < old.Version {
		return
	}
	if known {
		l.bytes -= old.bytes(service)
	}
	if l.bytes += list.bytes(service); l.bytes > knownMost {
		clear(l.known)
		l.bytes = list.bytes(service)
	}
	l.known[service] = list
}

// bytes returns what a list takes under the name of its service, about.
func (l List) bytes(service string) int {
	n := 200 + len(service) + 4*len(l.Publishers)
	for _, v := range l.Values {
		n += 16 + len(v)
	}
	return n
}

// instances returns the instances of a service that a query selects, and the index.
func (l *lists) instances(ctx context.Context, c serve.Caller, service string, q query) (out []Instance, index uint64, err error) {
	if err := checkName(service); err != nil {
		return nil, 0, err
	}
	list, err := l.get(ctx, c, service, q)
	for _, in := range parseAll(service, list.Values) {
		if q.selects(in) {
			out = append(out, in)
		}
	}
	return out, list.index(), err
}

// same returns an instance as it is registered already, if it is. What is at other
// addresses is not parsed: there may be thousands, each of which asks this.
func (l *lists) same(ctx context.Context, c serve.Caller, in Instance) ([]Instance, error) {
	list, err := l.get(ctx, c, in.Service, query{})
	address, here := in.address(), []string{}
	for _, v := range list.Values {
		if strings.Contains(v, address) {
			here = append(here, v)
		}
	}
	return slices.DeleteFunc(parseAll(in.Service, here), func(x Instance) bool { return x.ID != in.ID || x.address() != address }), err
}

// list returns a handler that shows each instance of a service as show does.
func (l *lists) list(show func(in Instance, dataCenter string, index uint64) object) handler {
	return func(r *http.Request, c serve.Caller, q query) (any, uint64, error) {
		name, err := serve.Segment(r, "name")
		if err != nil {
			return nil, 0, err
		}
		all, index, err := l.instances(r.Context(), c, name, q)
		out := []object{}
		for _, in := range all {
			out = append(out, show(in, l.DataCenter, index))
		}
		return out, index, err
	}
}
