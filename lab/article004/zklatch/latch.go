package zklatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
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

	ctx  context.Context // ends with Close, or with the Client
	stop context.CancelFunc
	done chan struct{} // closed by run

	place place // run's; the zero value is none, as far as is known

	mu        sync.Mutex // guards the fields below
	started   bool
	leading   int64         // the session of the node by which it leads; 0: it does not
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
	l.mu.Lock()
	started := l.started
	l.stop()
	l.mu.Unlock()
	if started {
		<-l.done
	}
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
		l.mu.Lock()
		leading, changed := l.leading != 0, l.changed
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

// lead records the session by whose node the latch leads, or 0, and notifies the listeners
// of a change (setLeadership in Curator).
func (l *Latch) lead(session int64) {
	l.mu.Lock()
	news := (l.leading != 0) != (session != 0)
	l.leading = session
	if news {
		close(l.changed)
		l.changed = make(chan struct{})
	}
	l.mu.Unlock()
	if news {
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

// run is the loop: read the queue, lead or watch the node before, wait for an event
// (checkLeadership in article 004).
func (l *Latch) run() {
	c := l.queue.c
	var checked uint64 // the connection on which the place was found to be this session's
	for l.ctx.Err() == nil {
		// 1. Without a connection, or a recent answer, the latch does not lead.
		s, changed := c.Session()
		doubted := s.Link != checked || !s.reliable(l.place.session)
		if doubted {
			l.lead(0)
		}
		if !s.Connected() {
			select {
			case <-changed:
			case <-l.ctx.Done():
			}
			continue
		}

		// 2. Take a place in the queue: the old one, if it is still this session's.
		err := error(nil)
		if l.place.name != "" && doubted {
			err = l.compare()
		}
		if err == nil && l.place.name == "" {
			l.place, err = l.queue.enter(l.ctx)
		}
		if err != nil {
			c.pauseAfter(l.ctx, err)
			continue
		}
		now, changed := c.Session()
		if now.ID != l.place.session || now.Link == 0 {
			continue
		}
		checked = now.Link

		// 3. If it is the first, lead and watch the own node; otherwise watch the
		// node before.
		mayGo, events, err := l.queue.step(l.ctx, l.place)
		if mayGo {
			_, _, events, err = c.GetW(l.ctx, l.place.path())
		}
		switch {
		case errors.Is(err, ErrPlaceLost), mayGo && errors.Is(err, ErrNoNode):
			l.lead(0)
			l.place = place{}
			continue
		case err != nil:
			c.pauseAfter(l.ctx, err)
			continue
		case mayGo:
			l.lead(l.place.session)
		default:
			l.lead(0)
		}
		if events != nil {
			l.await(events, changed, mayGo)
		}
	}
}

// await waits for an event, or for a change of the session; a leader also until its last
// confirmation is too old.
func (l *Latch) await(events <-chan zk.Event, changed <-chan struct{}, leading bool) {
	for {
		var doubt <-chan time.Time
		if leading {
			s, _ := l.queue.c.Session()
			timer := time.NewTimer(time.Until(s.trustedUntil()))
			defer timer.Stop()
			doubt = timer.C
		}
		select {
		case <-events:
			if !leading {
				l.queue.c.woken.Add(1)
			}
			return
		case <-changed:
			return
		case <-l.ctx.Done():
			return
		case <-doubt:
			if s, _ := l.queue.c.Session(); time.Now().Before(s.trustedUntil()) {
				continue // it was confirmed meanwhile
			}
			return
		}
	}
}

// compare drops the place if its node does not belong to the present session.
func (l *Latch) compare() error {
	_, stat, err := l.queue.c.Get(l.ctx, l.place.path())
	s, _ := l.queue.c.Session()
	switch {
	case err == nil && stat.EphemeralOwner == s.ID:
		return nil
	case err == nil:
		// It belongs to the last session and will end with it; do not make the others
		// wait.
		l.queue.c.discard(l.place.dir, l.place.id)
	case !errors.Is(err, ErrNoNode):
		return err
	}
	l.place = place{}
	return nil
}
