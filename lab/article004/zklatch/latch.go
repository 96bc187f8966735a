package zklatch

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"conclave/internal/signal"
)

// Listener receives a Latch's transitions, in order (isLeader and notLeader in article
// 004). The latch's own goroutine calls it, and detects nothing else meanwhile. It must
// not call Close, which waits for its return; it may start a goroutine that does.
type Listener struct {
	IsLeader  func()
	NotLeader func()
}

// Ending is whether a leading Latch notifies its listeners when it is closed
// (CloseMode in article 004).
type Ending int

// The endings.
const (
	Silent    Ending = iota // it does not
	Notifying               // it calls NotLeader
)

// Latch is a candidate for leadership (LeaderLatch in article 004). From Start to
// Close it has a place in a queue, and it leads while it is the first. It stops
// leading as soon as it may have lost its place: when the connection breaks, or when
// the session was not confirmed for too long. When it is connected again, it compares
// the session of its node with its own. If they are the same, it continues at its
// place; otherwise it starts again with a new node (reset in article 004).
type Latch struct {
	queue queue
	loop  *loop
	place place // the loop's; the zero value is none, as far as is known

	mu        sync.Mutex // guards the fields below
	leading   int64      // the session of the node by which it leads; 0: it does not
	changed   signal.Broadcast
	listeners []Listener
}

// The kind of a latch's nodes.
const latchKind = "-latch-"

// Latch returns a candidate named id for the leadership at a path.
func (c *Client) Latch(path, id string) *Latch {
	return &Latch{
		queue: queue{c: c, dir: path, kind: latchKind, data: []byte(id), before: oneAtATime},
		loop:  c.loop(),
	}
}

// Listen adds a listener. If the latch leads already, the listener is not notified of
// that.
func (l *Latch) Listen(listener Listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listeners = append(l.listeners, listener)
}

// Start enters the queue.
func (l *Latch) Start() error { return l.loop.start(l.run) }

// Close leaves the queue, and so hands the leadership over. The node is deleted in the
// background if that fails at first.
func (l *Latch) Close(ctx context.Context, ending Ending) {
	l.loop.end()
	l.mu.Lock()
	led := l.leading != 0
	l.leading = 0
	l.mu.Unlock()
	if l.place.name != "" {
		l.queue.leave(ctx, l.place)
		l.place = place{}
	}
	if led && ending == Notifying {
		l.notify(false)
	}
}

// HasLeadership reports whether this latch leads, and can rely on it now
// (hasLeadership in article 004).
func (l *Latch) HasLeadership() bool {
	s, _ := l.queue.c.Session()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leading != 0 && s.reliable(l.leading)
}

// Await waits until this latch leads. It returns ErrClosed if the latch or its Client
// is closed.
func (l *Latch) Await(ctx context.Context) error {
	for {
		changed := l.changed.Next()
		l.mu.Lock()
		leading := l.leading != 0
		l.mu.Unlock()
		switch {
		case l.loop.ctx.Err() != nil:
			return fmt.Errorf("await leadership at %s: %w", l.queue.dir, ErrClosed)
		case leading:
			return nil
		}
		select {
		case <-changed:
		case <-l.loop.ctx.Done():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lead records the session by whose node the latch leads, or 0, and notifies the listeners
// of a change (setLeadership in Curator).
func (l *Latch) lead(session int64) {
	l.mu.Lock()
	news := (l.leading != 0) != (session != 0)
	l.leading = session
	l.mu.Unlock()
	if news {
		l.changed.Notify()
		l.notify(session != 0)
	}
}

func (l *Latch) notify(leading bool) {
	l.mu.Lock()
	listeners := l.listeners[:len(l.listeners):len(l.listeners)]
	l.mu.Unlock()
	for _, listener := range listeners {
		switch {
		case leading && listener.IsLeader != nil:
			listener.IsLeader()
		case !leading && listener.NotLeader != nil:
			listener.NotLeader()
		}
	}
}

// run takes a place in the queue, waits until it is the first, and leads until that is
// in doubt; then it begins again, at the same place if it has not lost it
// (checkLeadership in article 004).
func (l *Latch) run() {
	ctx := l.loop.ctx
	for ctx.Err() == nil {
		l.lead(0)
		err := error(nil)
		if l.place.name == "" {
			l.place, err = l.queue.enter(ctx)
		}
		if err == nil {
			err = l.queue.wait(ctx, l.place)
		}
		if err == nil {
			err = l.leadWhileFirst(ctx)
		}
		switch {
		case errors.Is(err, ErrPlaceLost):
			if l.place.name != "" { // a node of the last session makes the others wait until it ends
				l.queue.c.discard(l.place.dir, l.place.id)
			}
			l.place = place{}
		case err != nil:
			l.queue.c.pauseAfter(ctx, err)
		}
	}
}

// leadWhileFirst leads until the place is lost, or the session is in doubt.
func (l *Latch) leadWhileFirst(ctx context.Context) error {
	for {
		began, _ := l.queue.c.Session()
		_, _, events, err := l.queue.c.GetW(ctx, l.place.path()) // it may be deleted by hand
		switch {
		case errors.Is(err, ErrNoNode):
			return ErrPlaceLost
		case err != nil:
			return err
		}
		if s, _ := l.queue.c.Session(); !s.reliable(l.place.session) {
			return nil
		}
		l.lead(l.place.session)
		if !l.queue.c.whileReliable(ctx, began, l.place.session, events) {
			return nil
		}
	}
}
