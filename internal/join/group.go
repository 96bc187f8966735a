// Package join waits for what others start.
package join

import "sync"

// Group joins goroutines and requests, the last of which may arrive after the end has
// begun. Its zero value is ready to use.
type Group struct {
	mu     sync.Mutex // guards closed, and that nothing is added after it
	closed bool
	wg     sync.WaitGroup
}

// Begin counts one in, until Done is called. It returns false after Close has begun.
func (g *Group) Begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.wg.Add(1)
	}
	return !g.closed
}

// Done ends what Begin counted in.
func (g *Group) Done() { g.wg.Done() }

// Go runs f in a goroutine, unless Close has begun.
func (g *Group) Go(f func()) {
	if g.Begin() {
		go func() {
			defer g.wg.Done()
			f()
		}()
	}
}

// Close makes Begin return false from now on, and waits for all that is counted in.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.wg.Wait()
}
