package zklatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"conclave/internal/sleep"
)

// ErrStarted is returned when a latch or a selector is started a second time, or
// after Close.
var ErrStarted = errors.New("already started or closed")

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
// the owner of its node with its session. If they are the same, it continues at its
// place; otherwise it starts again with a new node (reset in article 004).
type Latch struct {
	queue queue

	ctx  context.Context // ends with Close or abandon, or with the Client
	stop context.CancelFunc
	done chan struct{} // closed by run

	mu        sync.Mutex // guards the fields below
	started   bool
	leading   bool
	place     place
	queued    bool          // place is this session's, as far as is known
	changed   chan struct{} // closed and replaced when leading changes
	listeners []Listener
}

// The kind of a latch's nodes.
const latchKind = "-latch-"

// Latch returns a candidate named id for the leadership at a path.
func (c *Client) Latch(path, id string) *Latch {
	l := &Latch{
		queue:   queue{c: c, dir: path, kind: latchKind, kinds: []string{latchKind}, data: []byte(id), before: oneAtATime},
		changed: make(chan struct{}),
		done:    make(chan struct{}),
	}
	l.ctx, l.stop = context.WithCancel(c.ctx)
	return l
}

// Listen adds a listener. If the latch leads already, the listener is not notified of
// that.
func (l *Latch) Listen(listener Listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listeners = append(l.listeners, listener)
}

// Start enters the queue.
func (l *Latch) Start() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started || l.ctx.Err() != nil {
		return ErrStarted
	}
	l.started = true
	go func() { // Close joins it
		defer close(l.done)
		l.run()
	}()
	return nil
}

// Close leaves the queue, and so hands the leadership over. The node is deleted in the
// background if that fails at first.
func (l *Latch) Close(ctx context.Context, ending Ending) {
	led, p, queued := l.end()
	if queued {
		l.queue.leave(ctx, p)
	}
	if led && ending == Notifying {
		l.notify(false)
	}
}

// abandon ends the latch like a crash: its node stays until the session ends.
func (l *Latch) abandon() { l.end() }

// end stops the loop and returns what it has left.
func (l *Latch) end() (led bool, p place, queued bool) {
	l.mu.Lock()
	started := l.started
	l.stop()
	l.mu.Unlock()
	if started {
		<-l.done
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	led, p, queued = l.leading, l.place, l.queued
	l.leading, l.queued = false, false
	return led, p, queued
}

// HasLeadership reports whether this latch leads, and can rely on it now
// (hasLeadership in article 004).
func (l *Latch) HasLeadership() bool {
	_, leads := l.leads()
	return leads
}

// leads is HasLeadership, with the place by which the latch leads.
func (l *Latch) leads() (place, bool) {
	s, _ := l.queue.c.tree.Session()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.place, l.leading && l.queue.c.reliable(s, l.place.session)
}

// Await waits until this latch leads. It returns ErrClosed if the latch or its Client
// is closed.
func (l *Latch) Await(ctx context.Context) error {
	for {
		l.mu.Lock()
		leading, changed := l.leading, l.changed
		l.mu.Unlock()
		switch {
		case l.ctx.Err() != nil:
			return fmt.Errorf("await leadership at %s: %w", l.queue.dir, ErrClosed)
		case leading:
			return nil
		}
		select {
		case <-changed:
		case <-l.ctx.Done():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Participants returns the candidates in order; the first leads.
func (l *Latch) Participants(ctx context.Context) ([]Participant, error) {
	return l.queue.participants(ctx)
}

// lead records whether the latch leads, and notifies the listeners of a change
// (setLeadership in Curator).
func (l *Latch) lead(leading bool) {
	l.mu.Lock()
	news := l.leading != leading
	if news {
		l.leading = leading
		close(l.changed)
		l.changed = make(chan struct{})
	}
	l.mu.Unlock()
	if news {
		l.notify(leading)
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

// run is the loop: read the queue, lead or watch the node before, wait for an event
// (checkLeadership in article 004).
func (l *Latch) run() {
	c := l.queue.c
	var w watch        // on the node before the place, or on the place itself
	var checked uint64 // the connection on which the place was found to be this session's
	for l.ctx.Err() == nil {
		// 1. Without a connection, or a recent answer, the latch does not lead.
		s, changed := c.tree.Session()
		p, queued := l.queuedAt()
		if queued && !c.reliable(s, p.session) || s.Link != checked {
			l.lead(false)
		}
		if !s.Connected() {
			select {
			case <-changed:
			case <-l.ctx.Done():
			}
			continue
		}

		// 2. Take a place in the queue: the old one, if it is still this session's.
		if queued && (s.Link != checked || !c.reliable(s, p.session)) {
			ours, err := l.compare(p)
			if err != nil {
				c.pauseAfter(l.ctx, err)
				continue
			}
			queued = ours
		}
		if !queued {
			var err error
			if p, err = l.queue.enter(l.ctx); err != nil {
				c.pauseAfter(l.ctx, err)
				continue
			}
			l.stand(p)
		}
		now, changed := c.tree.Session()
		if now.ID != p.session || now.Link == 0 {
			continue
		}
		checked = now.Link

		// 3. If it is the first, lead and watch the own node; otherwise watch the
		// node before.
		mayGo, events, err := l.queue.step(l.ctx, p, &w)
		if mayGo {
			_, events, err = c.read(l.ctx, p.path(), &w)
		}
		switch {
		case errors.Is(err, ErrPlaceLost), mayGo && errors.Is(err, ErrNoNode):
			l.lead(false)
			l.forget()
			continue
		case err != nil:
			c.pauseAfter(l.ctx, err)
			continue
		}
		l.lead(mayGo)
		if events != nil {
			l.await(&w, events, changed, mayGo)
		}
	}
}

// await waits for the event of w, or for a change of the session; a leader also until its
// last confirmation is too old.
func (l *Latch) await(w *watch, events <-chan Event, changed <-chan struct{}, leading bool) {
	c := l.queue.c
	for {
		var doubt <-chan time.Time
		if leading {
			s, _ := c.tree.Session()
			timer := time.NewTimer(time.Until(c.trustedUntil(s)))
			defer timer.Stop()
			doubt = timer.C
		}
		select {
		case <-events:
			w.fired(events)
			if !leading {
				c.woken.Add(1)
			}
			return
		case <-changed:
			return
		case <-l.ctx.Done():
			return
		case <-doubt:
			if s, _ := c.tree.Session(); time.Now().Before(c.trustedUntil(s)) {
				continue // it was confirmed meanwhile
			}
			return
		}
	}
}

// compare reports whether the own node belongs to the present session.
func (l *Latch) compare(p place) (ours bool, err error) {
	_, stat, err := l.queue.c.tree.Get(l.ctx, p.path())
	s, _ := l.queue.c.tree.Session()
	switch {
	case err == nil && stat.Owner == s.ID:
		return true, nil
	case err == nil:
		// It belongs to the last session and will end with it; do not make the others
		// wait.
		l.queue.c.discard(p.dir, p.id)
	case !errors.Is(err, ErrNoNode):
		return false, err
	}
	l.forget()
	return false, nil
}

func (l *Latch) queuedAt() (place, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.place, l.queued
}

func (l *Latch) stand(p place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.place, l.queued = p, true
}

// forget drops the place, so that the loop takes a new one.
func (l *Latch) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queued = false
}

// pauseAfter pauses after an error, unless the next try waits for a connection anyway.
func (c *Client) pauseAfter(ctx context.Context, err error) {
	if ctx.Err() != nil || lost(err) {
		return
	}
	c.log.Warn("will try again", "error", err)
	_ = sleep.For(ctx, 100*time.Millisecond)
}
