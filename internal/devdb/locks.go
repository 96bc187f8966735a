package devdb

import (
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/dolthub/vitess/go/mysql"
)

// lockTable holds the named locks of GET_LOCK. The engine's own lock waits poll
// every 100 microseconds, which uses a core even in an idle cluster, advances a
// bubble's clock in tiny steps, and gives the lock to waiters in no order. Here
// a release passes the lock at once to the client that has waited longest.
type lockTable struct {
	mu    sync.Mutex // guards locks, and every namedLock and waiter; not held while waiting
	locks map[string]*namedLock
}

type namedLock struct {
	owner *client
	depth int // GET_LOCK calls of the owner minus its RELEASE_LOCK calls
	queue []*waiter
}

type waiter struct {
	client  *client
	name    string
	granted chan struct{} // closed by handOver
}

func newLockTable() *lockTable { return &lockTable{locks: make(map[string]*namedLock)} }

// acquire takes the lock if it is free or c has it, and reports whether it did.
func (t *lockTable) acquire(c *client, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.take(c, name)
}

func (t *lockTable) take(c *client, name string) bool {
	l := t.locks[name]
	switch {
	case l == nil:
		t.locks[name] = &namedLock{owner: c, depth: 1}
	case l.owner == c:
		l.depth++
	default:
		return false
	}
	return true
}

// enqueue takes the lock or joins its queue. It refuses a wait that could never
// end: a cycle of owners that each wait for the next one's lock.
func (t *lockTable) enqueue(c *client, name string) (*waiter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &waiter{client: c, name: name, granted: make(chan struct{})}
	if t.take(c, name) {
		close(w.granted)
		return w, nil
	}
	for owner := t.locks[name].owner; owner.waits != nil; owner = t.locks[owner.waits.name].owner {
		if t.locks[owner.waits.name].owner == c {
			return nil, mysql.NewSQLError(3058, "HY000", "Deadlock found when trying to get user-level lock; try rolling back transaction/releasing locks and restarting lock acquisition.")
		}
	}
	t.locks[name].queue = append(t.locks[name].queue, w)
	c.waits = w
	return w, nil
}

// abandon ends a wait, and reports whether the lock was granted before.
func (t *lockTable) abandon(w *waiter) (granted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if isClosed(w.granted) {
		return true
	}
	l := t.locks[w.name]
	l.queue = slices.DeleteFunc(l.queue, func(other *waiter) bool { return other == w })
	w.client.waits = nil
	return false
}

// release undoes one acquisition by c. If the lock is not c's, exists
// distinguishes RELEASE_LOCK's results 0 (another client has it) and NULL (it
// is free).
func (t *lockTable) release(c *client, name string) (mine, exists bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.locks[name]
	if l == nil || l.owner != c {
		return false, l != nil
	}
	if l.depth--; l.depth == 0 {
		t.handOver(name)
	}
	return true, true
}

// releaseAll releases every lock of c in the order of their names, and returns
// the number of its acquisitions.
func (t *lockTable) releaseAll(c *client) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	var mine []string
	acquired := 0
	for name, l := range t.locks {
		if l.owner == c {
			mine = append(mine, name)
			acquired += l.depth
		}
	}
	slices.Sort(mine)
	for _, name := range mine {
		t.handOver(name)
	}
	return acquired
}

// handOver makes the first waiter the owner, or removes the lock if there is
// none. It is called with mu held.
func (t *lockTable) handOver(name string) {
	l := t.locks[name]
	if len(l.queue) == 0 {
		delete(t.locks, name)
		return
	}
	next := l.queue[0]
	l.owner, l.depth, l.queue = next.client, 1, l.queue[1:]
	next.client.waits = nil
	close(next.granted)
}

// owner returns the id of the connection that has the lock, 0 if it is free.
func (t *lockTable) owner(name string) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.locks[name]; l != nil {
		return l.owner.id
	}
	return 0
}

// lockName applies MySQL's rule: 1 to 64 characters, not case-sensitive. NULL
// is an error (in MariaDB the result is NULL).
func lockName(arg any) (string, error) {
	name, ok := arg.(string)
	if raw, isBytes := arg.([]byte); isBytes {
		name, ok = string(raw), true
	}
	if n := utf8.RuneCountInString(name); !ok || n == 0 || n > 64 {
		if arg == nil {
			name = "NULL"
		}
		return "", mysql.NewSQLError(3057, "42000", "Incorrect user-level lock name '%s'.", name)
	}
	return strings.ToLower(name), nil
}
