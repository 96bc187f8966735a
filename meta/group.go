package meta

import "sync"

// group joins goroutines that are started by requests, the last of which may
// arrive after the end has begun.
type group struct {
	mu     sync.Mutex // guards closed, and that nothing is added after it
	closed bool
	wg     sync.WaitGroup
}

// Go runs f, unless the group is closed.
func (g *group) Go(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.wg.Go(f)
	}
}

// close makes Go do nothing from now on and waits for the running functions.
func (g *group) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.wg.Wait()
}

// broadcast wakes any number of goroutines. Several notifications count as one.
type broadcast struct {
	mu       sync.Mutex // guards notified
	notified chan struct{}
}

func newBroadcast() *broadcast { return &broadcast{notified: make(chan struct{})} }

// next returns a channel that the next notify closes. Call it before looking at
// what may have changed.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.notified
}

func (b *broadcast) notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.notified)
	b.notified = make(chan struct{})
}
