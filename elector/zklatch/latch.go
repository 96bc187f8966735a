package zklatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrStarted: a latch or a selector is started once.
var ErrStarted = errors.New("it was started before")

// Listener is told of a Latch's transitions, in their order. It is called by the
// latch's own goroutine: while it runs, nothing else is noticed.
type Listener struct {
	IsLeader  func()
	NotLeader func()
}

// Ending is what a Latch that leads tells its listeners when it is closed.
type Ending int

// The endings.
const (
	Silent    Ending = iota // nothing
	Notifying               // that it leads no more
)

// Latch stands in a line for leadership, from Start to Close, and leads while it is
// the first. It is told at once when it may have lost that: when the connection breaks
// or when nothing was heard of the servers for too long. When the connection is back,
// it compares the owner of its node with its session: the same, and it goes on at the
// same place; another, or no node, and it begins anew.
type Latch struct {
	line line

	ctx  context.Context // ends with Close or abandon, or with the Client
	stop context.CancelFunc
	done chan struct{} // closed by run

	mu        sync.Mutex // guards what follows
	started   bool
	leading   bool
	place     place
	standing  bool          // place is ours, as far as is known
	resets    int           // times it began anew
	changed   chan struct{} // closed and replaced when leading changes
	listeners []Listener
}

// The kind of a latch's nodes.
const latchKind = "-latch-"

// Latch is a candidate named id for the leadership at a path.
func (c *Client) Latch(path, id string) *Latch {
	l := &Latch{
		line:    line{c: c, dir: path, kind: latchKind, kinds: []string{latchKind}, data: []byte(id), before: oneAtATime},
		changed: make(chan struct{}),
		done:    make(chan struct{}),
	}
	l.ctx, l.stop = context.WithCancel(c.ctx)
	return l
}

// Listen adds a listener. A latch that leads already tells it nothing of that.
func (l *Latch) Listen(listener Listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listeners = append(l.listeners, listener)
}

// Start enters the line.
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

// Close leaves the line, and with that hands the leadership over. The node's end
// always comes about.
func (l *Latch) Close(ctx context.Context, ending Ending) error {
	led, p, standing := l.end()
	if standing {
		l.line.leave(ctx, p)
	}
	if led && ending == Notifying {
		l.tell(false)
	}
	return nil
}

// abandon ends the latch as a crash does: its node stays until the session's end.
func (l *Latch) abandon() { l.end() }

// end stops the loop and says what was left.
func (l *Latch) end() (led bool, p place, standing bool) {
	l.mu.Lock()
	started := l.started
	l.stop()
	l.mu.Unlock()
	if started {
		<-l.done
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	led, p, standing = l.leading, l.place, l.standing
	l.leading, l.standing = false, false
	return led, p, standing
}

// HasLeadership says whether this latch leads, and may rely on it at this moment.
func (l *Latch) HasLeadership() bool {
	_, leads := l.leads()
	return leads
}

// leads also says by which place.
func (l *Latch) leads() (place, bool) {
	s, _ := l.line.c.tree.Session()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.place, l.leading && l.line.c.sure(s, l.place.session)
}

// Await waits until this latch leads; ErrClosed when it, or its Client, is closed.
func (l *Latch) Await(ctx context.Context) error {
	for {
		l.mu.Lock()
		leading, changed := l.leading, l.changed
		l.mu.Unlock()
		switch {
		case l.ctx.Err() != nil:
			return fmt.Errorf("await leadership at %s: %w", l.line.dir, ErrClosed)
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

// Participants are the candidates in their order; the first leads.
func (l *Latch) Participants(ctx context.Context) ([]Participant, error) {
	return l.line.participants(ctx)
}

// Resets is how often the latch had to begin anew with a new node.
func (l *Latch) Resets() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.resets
}

// lead notes whether it leads, and tells when that is new.
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
		l.tell(leading)
	}
}

func (l *Latch) tell(leading bool) {
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

// run is the loop: look, lead or watch who is before, wait for news.
func (l *Latch) run() {
	c := l.line.c
	var checked uint64 // the connection on which the place was found to be ours
	for l.ctx.Err() == nil {
		// 1. Doubt: without a connection, or an answer, nobody leads.
		s, changed := c.tree.Session()
		p, standing := l.standingAt()
		if standing && !c.sure(s, p.session) || s.Link != checked {
			l.lead(false)
		}
		if !s.Connected() {
			select {
			case <-changed:
			case <-l.ctx.Done():
			}
			continue
		}

		// 2. Stand in the line: at the place of before, if it is still this session's.
		if standing && (s.Link != checked || !c.sure(s, p.session)) {
			ours, err := l.compare(p)
			if err != nil {
				c.rest(l.ctx, err)
				continue
			}
			standing = ours
		}
		if !standing {
			var err error
			if p, err = l.line.enter(l.ctx); err != nil {
				c.rest(l.ctx, err)
				continue
			}
			l.stand(p)
		}
		now, changed := c.tree.Session()
		if now.ID != p.session || now.Link == 0 {
			continue
		}
		checked = now.Link

		// 3. First? Then lead, and watch the own node. Else watch who is before.
		mayGo, watch, err := l.line.step(l.ctx, p)
		if mayGo {
			_, _, watch, err = c.tree.GetW(l.ctx, p.path())
		}
		switch {
		case errors.Is(err, errPlaceLost), mayGo && errors.Is(err, ErrNoNode):
			l.lead(false)
			l.forget()
			continue
		case err != nil:
			c.rest(l.ctx, err)
			continue
		}
		l.lead(mayGo)
		if watch == nil {
			continue
		}
		l.await(watch, changed, mayGo)
	}
}

// await waits for news; a leader also for the moment from which on its last proof of
// life is too old.
func (l *Latch) await(watch <-chan Event, changed <-chan struct{}, leading bool) {
	c := l.line.c
	for {
		var doubt <-chan time.Time
		if leading {
			s, _ := c.tree.Session()
			timer := time.NewTimer(time.Until(c.trusted(s)))
			defer timer.Stop()
			doubt = timer.C
		}
		select {
		case <-watch:
			if !leading {
				c.woken.Add(1)
			}
			return
		case <-changed:
			return
		case <-l.ctx.Done():
			return
		case <-doubt:
			if s, _ := c.tree.Session(); time.Now().Before(c.trusted(s)) {
				continue // something was heard meanwhile
			}
			return
		}
	}
}

// compare asks whose the own node is.
func (l *Latch) compare(p place) (ours bool, err error) {
	_, stat, err := l.line.c.tree.Get(l.ctx, p.path())
	s, _ := l.line.c.tree.Session()
	switch {
	case err == nil && stat.Owner == s.ID:
		return true, nil
	case err == nil:
		// The last session's: it goes with it, sooner or later. Why should all wait?
		l.line.c.discard(p.path())
	case !errors.Is(err, ErrNoNode):
		return false, err
	}
	l.forget()
	return false, nil
}

func (l *Latch) standingAt() (place, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.place, l.standing
}

func (l *Latch) stand(p place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.place, l.standing = p, true
}

// forget drops the place: the next turn begins anew.
func (l *Latch) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.standing = false
	l.resets++
}

// rest is a pause after an error, if the next try would not wait for a connection.
func (c *Client) rest(ctx context.Context, err error) {
	if ctx.Err() != nil || errors.Is(err, ErrConnectionLost) || errors.Is(err, ErrSessionExpired) {
		return
	}
	c.log.Warn("will try again", "error", err)
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
