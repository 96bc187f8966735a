package data

import (
	"context"
	"sync"

	"conclave/internal/signal"
)

// tasks are the calls that the state loop has in progress. Each returns its
// result as a function, which the loop calls.
type tasks struct {
	wake    signal.Signal   // set when the loop has something to do
	ctx     context.Context // of the loop; the calls end with it
	running sync.WaitGroup

	mu    sync.Mutex // guards inbox
	inbox []func()
}

// run runs a call beside the loop.
func (t *tasks) run(call func(ctx context.Context)) { t.running.Go(func() { call(t.ctx) }) }

// post queues a result for the loop.
func (t *tasks) post(f func()) {
	t.mu.Lock()
	t.inbox = append(t.inbox, f)
	t.mu.Unlock()
	t.wake.Set()
}

// results returns what was posted since the last call.
func (t *tasks) results() []func() {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.inbox
	t.inbox = nil
	return all
}
