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
