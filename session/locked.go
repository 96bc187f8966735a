package session

import (
	"sync"

	"conclave/session/registry"
)

// locked is the registry with its lock. Under the lock only memory is touched:
// the locks of the clients and of their outboxes may be taken inside it, so that
// pushes are given to an outbox in the order in which they were decided.
type locked struct {
	mu sync.Mutex // guards the registry
	*registry.Registry
}

// do calls f under the lock, which a panic of f releases: net/http survives the
// panic of a request.
func (l *locked) do(f func(*registry.Registry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.Registry)
}

// with calls f under the lock, and returns what f returns.
func with[T any](l *locked, f func(*registry.Registry) T) T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return f(l.Registry)
}

// partAtOnce is how many registrations of one client are removed or withdrawn under
// one hold of the lock, which takes a third of a millisecond: a client may have
// hundreds of thousands, for which everything else would wait for a second.
const partAtOnce = 256

// inParts calls f with what a connection owns until it reports that there is no
// more, each time under the lock, and returns the sum of its counts.
func (l *locked) inParts(owner *registry.Owner, f func(*registry.Registry, *registry.Holdings) (n int, more bool)) (sum int) {
	h := with(l, func(r *registry.Registry) *registry.Holdings { return r.Holdings(owner) })
	for more := true; more; {
		l.do(func(r *registry.Registry) {
			var n int
			n, more = f(r, h)
			sum += n
		})
	}
	return sum
}
