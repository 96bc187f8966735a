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
