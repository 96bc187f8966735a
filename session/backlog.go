package session

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave/internal/contain"
	"conclave/internal/signal"
	"conclave/wire/admit"
)

// backlog holds what a connection has sent and what waits: its new registrations for
// room, or its subscriptions for their turn. The stream is read on meanwhile, so that
// pings, and what is urgent, do not wait behind it.
type backlog[T interface{ GetId() string }] struct {
	size    func(T) int // in bytes, about
	own     int         // what has so many bytes at most counts for the connection alone
	intake  *admit.Budget
	host    string         // for which anything larger counts in intake
	serving sync.WaitGroup // the goroutine that takes what waits

	mu      sync.Mutex // held while anything of the connection is taken or ended, so that nothing overtakes itself
	by      map[string]T
	order   []string // of by; an id that is not there was removed
	bytes   int      // that count for the connection
	runs    bool     // the goroutine has not ended
	emptied signal.Broadcast
}

// add adds entries, each in the place of one with the same id. It returns those for
// which there is no memory. mu is held.
func (b *backlog[T]) add(entries []T) (refused []T) {
	for _, x := range entries {
		b.remove(x.GetId())
		switch n := b.size(x); {
		case n <= b.own:
			b.bytes += n
		case !b.intake.Try(b.host, n):
			refused = append(refused, x)
			continue
		}
		if b.by == nil {
			b.by = map[string]T{}
		}
		if len(b.order) > 2*len(b.by)+64 {
			b.order = slices.DeleteFunc(b.order, func(id string) bool { _, waits := b.by[id]; return !waits })
		}
		b.by[x.GetId()], b.order = x, append(b.order, x.GetId())
	}
	return refused
}

// remove removes an entry, if it waits. mu is held.
func (b *backlog[T]) remove(id string) {
	x, waits := b.by[id]
	if !waits {
		return
	}
	delete(b.by, id)
	if n := b.size(x); n <= b.own {
		b.bytes -= n
	} else {
		b.intake.Release(b.host, n)
	}
}

// next removes and returns n entries at most, those that have waited longest, and
// none after the given number of bytes. mu is held.
func (b *backlog[T]) next(n, bytes int) (out []T) {
	for ; len(out) < n && bytes > 0 && len(b.order) > 0; b.order = b.order[1:] {
		if x, waits := b.by[b.order[0]]; waits {
			out, bytes = append(out, x), bytes-b.size(x)
			b.remove(b.order[0])
		}
	}
	return out
}

// serve starts the goroutine that takes what waits, unless it runs or nothing does.
// A panic of it is logged, and calls abort. mu is held.
func (b *backlog[T]) serve(log hclog.Logger, abort, take func()) {
	if b.runs || len(b.by) == 0 {
		return
	}
	b.runs = true
	b.serving.Go(func() {
		contain.Run(log, func(error) { abort(); b.forget() }, take)
	})
}

// more reports whether anything waits. If not, the goroutine that takes it is to end,
// and an idle connection keeps nothing. mu is held.
func (b *backlog[T]) more() bool {
	if b.runs = len(b.by) > 0; !b.runs {
		b.by, b.order = nil, nil
		b.emptied.Notify()
	}
	return b.runs
}

// forget removes everything, and ends the waits.
func (b *backlog[T]) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.by {
		b.remove(id)
	}
	b.more()
}

// wait waits while more bytes wait than count for the connection, until nothing does
// or ctx ends. It calls extend every second, because the client's pings are not read
// meanwhile.
func (b *backlog[T]) wait(ctx context.Context, extend func()) {
	var emptied <-chan struct{}
	b.mu.Lock()
	over := b.bytes > b.own
	if over {
		emptied = b.emptied.Next()
	}
	b.mu.Unlock()
	if !over {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-emptied:
			return
		case <-tick.C:
			extend()
		case <-ctx.Done():
			return
		}
	}
}
