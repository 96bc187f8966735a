package devdb

import (
	"sort"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/dolthub/vitess/go/mysql"
)

// lockTable holds the named locks of GET_LOCK. The engine brings its own, but there a waiter polls every 100
// microseconds: it burns a core in a calm cluster, drags a bubble's clock along in tiny steps, and wakes in no order.
// Here a release hands the lock to the one who waited longest, in the same instant.
type lockTable struct {
	mu    sync.Mutex // guards the rest, and every namedLock and waiter; never held while waiting
	locks map[string]*namedLock
}

type namedLock struct {
	owner *client
	depth int // GET_LOCK by its owner again counts up, RELEASE_LOCK down
	queue []*waiter
}

type waiter struct {
	who     *client
	name    string
	granted chan struct{} // closed by the hand-over
}

func newLockTable() *lockTable { return &lockTable{locks: make(map[string]*namedLock)} }

// acquire takes a free lock, or one that c has.
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

// enqueue takes the lock or waits for it. It refuses a wait that could never end: a circle of owners, each waiting for the next one's lock.
func (t *lockTable) enqueue(c *client, name string) (*waiter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &waiter{who: c, name: name, granted: make(chan struct{})}
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

// abandon ends a wait, and says whether the lock came all the same.
func (t *lockTable) abandon(w *waiter) (granted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if isClosed(w.granted) {
		return true
	}
	l := t.locks[w.name]
	for i, other := range l.queue {
		if other == w {
			l.queue = append(l.queue[:i], l.queue[i+1:]...)
			break
		}
	}
	w.who.waits = nil
	return false
}

// release gives one hold back. exists tells RELEASE_LOCK's 0 (somebody else's) from its NULL (nobody's).
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

// releaseAll gives back every lock of c, in the order of their names, and counts the holds.
func (t *lockTable) releaseAll(c *client) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	var mine []string
	holds := 0
	for name, l := range t.locks {
		if l.owner == c {
			mine = append(mine, name)
			holds += l.depth
		}
	}
	sort.Strings(mine)
	for _, name := range mine {
		t.handOver(name)
	}
	return holds
}

// handOver is called with mu held. It makes the first waiter the owner, or forgets the lock.
func (t *lockTable) handOver(name string) {
	l := t.locks[name]
	if len(l.queue) == 0 {
		delete(t.locks, name)
		return
	}
	next := l.queue[0]
	l.owner, l.depth, l.queue = next.who, 1, l.queue[1:]
	next.who.waits = nil
	close(next.granted)
}

// owner says which connection has the lock, 0 for none.
func (t *lockTable) owner(name string) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.locks[name]; l != nil {
		return l.owner.id
	}
	return 0
}

// lockName is MySQL's rule: 1 to 64 characters, upper and lower case alike. NULL is an error (MariaDB answers NULL).
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
