package meta

import "sync"

// group joins goroutines that are started by requests, of which the last may
// come after the end has begun.
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

// close starts nothing any more and waits for what runs.
func (g *group) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.wg.Wait()
}

// bell wakes everybody who listens, however many, and does not count.
type bell struct {
	mu   sync.Mutex // guards rung
	rung chan struct{}
}

func newBell() *bell { return &bell{rung: make(chan struct{})} }

// listen returns what the next ring closes. Take it before looking at what the
// bell is rung for.
func (b *bell) listen() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rung
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.rung)
	b.rung = make(chan struct{})
}
