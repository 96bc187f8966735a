package live

import (
	"context"
	"net/http"
	"sync"
	"time"

	"conclave/internal/sleep"
	"conclave/wire"
)

// follower follows the events of all nodes.
type follower struct {
	http     *http.Client // without a limit for the whole request
	tokenFor func(address string) string
	each     func(wire.Event) // called from several goroutines

	mu    sync.Mutex // guards nodes
	nodes map[string]bool
	all   sync.WaitGroup
}

// node follows the node at an address, until ctx ends, if it does not yet.
func (f *follower) node(ctx context.Context, address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if address == "" || f.nodes[address] {
		return
	}
	f.nodes[address] = true
	f.all.Go(func() { f.run(ctx, address) })
}

// run connects again whenever the connection breaks. Another incarnation begins
// with the first event again, and an id that it does not have yet leads to none.
func (f *follower) run(ctx context.Context, address string) {
	last, life := uint64(0), ""
	for ctx.Err() == nil {
		if now := probe(ctx, f.http, address).Incarnation; now != "" && now != life {
			life, last = now, 0
		}
		_ = wire.ReadEvents(ctx, f.http, address, f.tokenFor(address), last, true, func(e wire.Event) error { // after any error it is opened again
			last = e.ID
			f.each(e)
			return nil
		})
		if sleep.For(ctx, 200*time.Millisecond) != nil {
			return
		}
	}
}
