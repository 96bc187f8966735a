package admit

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Budget is how much of something may be taken at a time. The turns of a nil Budget are
// given at once. All quantities are positive.
type Budget struct {
	all, each int
	lasts     time.Duration

	mu     sync.Mutex // guards the rest
	used   int
	by     map[string]int     // by key
	queues map[string][]*Turn // that wait, in order: one queue, or one of each key if all is no limit
}

// Turn is a part of a budget that is taken, or waited for. A nil Turn has been given
// nothing, and waits for nothing.
type Turn struct {
	budget *Budget
	key    string
	n      int
	given  chan struct{} // closed when it is taken

	// Guarded by budget.mu.
	limit *time.Timer // ends the turn
	left  bool
}

// New returns a budget of all, of which one key may take each; 0 is no limit.
func New(all, each int) *Budget {
	return &Budget{all: all, each: each, by: map[string]int{}, queues: map[string][]*Turn{}}
}

// NewTimed returns a budget whose turns end by themselves after a time.
func NewTimed(all int, lasts time.Duration) *Budget {
	b := New(all, 0)
	b.lasts = lasts
	return b
}

// Try takes n for a key, and reports whether the budget has so much, and no turn waits
// for it. Release gives them back.
func (b *Budget) Try(key string, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all > 0 && n > b.all || b.each > 0 && n > b.each || !fits(b.used, n, b.all) || !fits(b.by[key], n, b.each) || len(b.queues[b.lane(key)]) > 0 {
		return false
	}
	b.take(key, n)
	return true
}

// Release gives back what Try has taken.
func (b *Budget) Release(key string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.release(key, n)
}

// Join asks for n for a key, and does not wait. Turns are given in the order in which
// they were asked for, except that one whose key has used up its share delays only that
// key. One that is larger than a limit is given alone. Call Leave after it.
func (b *Budget) Join(key string, n int) *Turn {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := &Turn{budget: b, key: key, n: n, given: make(chan struct{})}
	lane := b.lane(key)
	b.queues[lane] = append(b.queues[lane], t)
	b.give(key)
	return t
}

// lane returns the name of the queue in which turns of a key wait. Without a limit of
// all, one key delays no other, and no goroutine looks at its queue.
func (b *Budget) lane(key string) string {
	if b.all > 0 {
		return ""
	}
	return key
}

// Wait is Join, and waits until the turn is given or ctx ends.
func (b *Budget) Wait(ctx context.Context, key string, n int) (*Turn, error) {
	t := b.Join(key, n)
	if !t.Waits() {
		return t, nil
	}
	select {
	case <-t.given:
		return t, nil
	case <-ctx.Done():
		t.Leave()
		return nil, ctx.Err()
	}
}

// Given returns a channel that is closed when the turn is given. The turn must not be
// nil.
func (t *Turn) Given() <-chan struct{} { return t.given }

// Waits reports whether the turn is not given yet.
func (t *Turn) Waits() bool {
	if t == nil {
		return false
	}
	select {
	case <-t.given:
		return false
	default:
		return true
	}
}

// Leave ends the turn, or the wait for it. It may be called again.
func (t *Turn) Leave() {
	if t == nil {
		return
	}
	b := t.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.left {
		return
	}
	t.left = true
	if t.limit != nil {
		t.limit.Stop()
	}
	if !t.Waits() {
		b.release(t.key, t.n)
		return
	}
	lane := b.lane(t.key)
	at := slices.Index(b.queues[lane], t)
	b.queues[lane] = slices.Delete(b.queues[lane], at, at+1)
	b.give(t.key)
}

// take takes n for a key. mu is held.
func (b *Budget) take(key string, n int) {
	b.used += n
	b.by[key] += n
}

// release gives n back, and gives the turns that wait for them. mu is held.
func (b *Budget) release(key string, n int) {
	b.used -= n
	if b.by[key] -= n; b.by[key] == 0 {
		delete(b.by, key)
	}
	b.give(key)
}

// give gives the turns that fit after something of a key has changed. mu is held.
func (b *Budget) give(key string) {
	lane := b.lane(key)
	queue, full := b.queues[lane], map[string]bool{}
	for i := 0; i < len(queue); {
		t := queue[i]
		switch {
		case b.all > 0 && (full[t.key] || !fits(b.by[t.key], t.n, b.each)):
			full[t.key] = true // only this key waits
			i++
		case !fits(b.used, t.n, b.all) || !fits(b.by[t.key], t.n, b.each):
			i = len(queue)
		default:
			if i == 0 { // the usual case: nothing moves
				queue[0], queue = nil, queue[1:]
			} else {
				queue = slices.Delete(queue, i, i+1)
			}
			b.take(t.key, t.n)
			if b.lasts > 0 {
				t.limit = time.AfterFunc(b.lasts, t.Leave)
			}
			close(t.given)
		}
	}
	if b.queues[lane] = queue; len(queue) == 0 {
		delete(b.queues, lane)
	}
}

// fits reports whether n more are within a limit, or are alone.
func fits(used, n, limit int) bool { return limit == 0 || used == 0 || used+n <= limit }

// Empty reports whether nothing is taken and nothing waits.
func (b *Budget) Empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.by) == 0 && len(b.queues) == 0
}
