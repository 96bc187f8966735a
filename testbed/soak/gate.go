package soak

import (
	"context"
	"sync"
)

// gate controls the changes of the load: while it is closed no change begins,
// and close waits for those in progress.
type gate struct {
	mu     sync.Mutex // guards the rest
	active int
	opened chan struct{} // closed when changes may begin; a new one while the gate is closed
	idle   chan struct{} // closed when the last change ends while the gate is closed; nil: no close waits
}

func newGate() *gate {
	g := &gate{opened: make(chan struct{})}
	close(g.opened)
	return g
}

// enter begins a change; leave must follow. It returns false if ctx ended
// first.
func (g *gate) enter(ctx context.Context) bool {
	for {
		g.mu.Lock()
		opened := g.opened
		select {
		case <-opened:
			g.active++
			g.mu.Unlock()
			return true
		default:
		}
		g.mu.Unlock()
		select {
		case <-opened:
		case <-ctx.Done():
			return false
		}
	}
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.active--; g.active == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// close prevents new changes and waits until none is in progress. It returns
// how many still were when ctx ended.
func (g *gate) close(ctx context.Context) (left int) {
	g.mu.Lock()
	select {
	case <-g.opened:
		g.opened = make(chan struct{})
	default:
	}
	if g.active == 0 {
		g.mu.Unlock()
		return 0
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	idle := g.idle
	g.mu.Unlock()
	select {
	case <-idle:
		return 0
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.active
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
	default:
		close(g.opened)
	}
}
