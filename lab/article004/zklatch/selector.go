package zklatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// SelectorConfig configures a Selector.
type SelectorConfig struct {
	ID string
	// TakeLeadership runs while this selector leads, and gives up the leadership by
	// returning (takeLeadership in article 004). Its context ends with ErrSuspended
	// as soon as the leadership cannot be relied on, unless StateChanged decides; then
	// it must return. It must not call Close, which waits for its return.
	TakeLeadership func(ctx context.Context) error
	// StateChanged is called with each change of the connection while TakeLeadership
	// runs, and one call after the other (LeaderSelectorListener in article 004, which
	// extends ConnectionStateListener). If it returns ErrCancelLeadership, also
	// wrapped, TakeLeadership's context ends with that error; another error is logged.
	// A StateChanged that returns nil lets TakeLeadership run on while the connection
	// is suspended; its context still ends with ErrSuspended before the session can
	// have ended. Nil ends the context whenever CancelInDoubt would. It must not call
	// Close, which waits for its return.
	StateChanged func(ConnectionState) error
	// AutoRequeue makes the selector enter the queue again after each leadership.
	// Without it, each call of Requeue does so once, also after the Client's policy has
	// ended the wait for the leadership.
	AutoRequeue bool
}

// ErrInterrupted is the cause that ends TakeLeadership's context after Interrupt.
var ErrInterrupted = errors.New("leadership interrupted")

// Selector is a candidate that leads for a while, repeatedly (LeaderSelector in
// article 004): it acquires a mutex, calls TakeLeadership, and releases the mutex.
type Selector struct {
	cfg   SelectorConfig
	mutex *Mutex

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	done chan struct{} // closed when the loop has ended

	mu        sync.Mutex // guards the fields below
	started   bool
	queued    bool                    // in the queue, or about to enter it
	leading   bool                    // TakeLeadership runs
	interrupt context.CancelCauseFunc // ends its context
	requeue   chan struct{}           // capacity one; never closed
}

// Selector returns a candidate for the leadership at a path.
func (c *Client) Selector(path string, cfg SelectorConfig) *Selector {
	s := &Selector{cfg: cfg, mutex: c.Mutex(path, []byte(cfg.ID)), done: make(chan struct{}), requeue: make(chan struct{}, 1)}
	s.ctx, s.stop = context.WithCancel(c.ctx)
	return s
}

// Start enters the queue.
func (s *Selector) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started || s.ctx.Err() != nil {
		return ErrStarted
	}
	s.started, s.queued = true, true
	go func() { // Close joins it
		defer close(s.done)
		s.run()
	}()
	return nil
}

// Close ends TakeLeadership's context, waits for its return, and leaves the queue.
func (s *Selector) Close() {
	s.mu.Lock()
	started := s.started
	s.stop()
	s.mu.Unlock()
	if started {
		<-s.done
	}
}

// Requeue makes the selector enter the queue again. It returns false if the selector
// is in the queue already, or does not run.
func (s *Selector) Requeue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started || s.queued || s.ctx.Err() != nil {
		return false
	}
	s.queued = true
	s.requeue <- struct{}{} // never blocks: queued was false
	return true
}

// HasLeadership reports whether TakeLeadership runs and may act.
func (s *Selector) HasLeadership() bool {
	s.mu.Lock()
	leading := s.leading
	s.mu.Unlock()
	if !leading {
		return false
	}
	s.mutex.mu.Lock()
	session := s.mutex.place.session
	s.mutex.mu.Unlock()
	now, _ := s.mutex.queue.c.tree.Session()
	return s.mutex.queue.c.reliable(now, session)
}

// Interrupt ends the context of TakeLeadership, if it runs, with ErrInterrupted.
func (s *Selector) Interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.interrupt != nil {
		s.interrupt(ErrInterrupted)
	}
}

// Participants returns the candidates in order; the first leads.
func (s *Selector) Participants(ctx context.Context) ([]Participant, error) {
	return s.mutex.Participants(ctx)
}

// run leads once after the other (doWorkLoop in article 004).
func (s *Selector) run() {
	for s.ctx.Err() == nil {
		if err := s.turn(); err != nil && s.ctx.Err() == nil {
			if errors.Is(err, errNotAcquired) {
				s.mutex.queue.c.pauseAfter(s.ctx, err)
				if !errors.Is(err, ErrRetryRefused) {
					continue // TakeLeadership was not called: try again
				}
			}
			s.mutex.queue.c.log.Warn("a leadership has ended with an error", "path", s.mutex.queue.dir, "error", err)
		}
		if s.cfg.AutoRequeue {
			continue
		}
		s.mu.Lock()
		s.queued = false
		s.mu.Unlock()
		select {
		case <-s.requeue:
		case <-s.ctx.Done():
		}
	}
}

// errNotAcquired wraps errors from before TakeLeadership was called.
var errNotAcquired = errors.New("cannot acquire the leadership")

// turn acquires the mutex, leads and releases it (doWork in article 004).
func (s *Selector) turn() error {
	if err := s.mutex.Acquire(s.ctx); err != nil {
		return fmt.Errorf("%w: %w", errNotAcquired, err)
	}
	defer func() {
		// Also after Close. If a second is not enough, the deletion continues in the
		// background.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), time.Second)
		defer cancel()
		_ = s.mutex.Release(ctx) // it is held
	}()
	ctx, interrupt := context.WithCancelCause(s.ctx)
	defer interrupt(nil)
	ctx, cancel := s.held(ctx, interrupt)
	defer cancel()
	s.lead(true, interrupt)
	defer s.lead(false, nil)
	return s.cfg.TakeLeadership(ctx)
}

// held returns the context of a leadership, which StateChanged may end by interrupt.
func (s *Selector) held(parent context.Context, interrupt context.CancelCauseFunc) (ctx context.Context, cancel func()) {
	if s.cfg.StateChanged == nil {
		return s.mutex.Holding(parent)
	}
	c := s.mutex.queue.c
	ctx, end := s.mutex.holding(parent, c.continues)
	s.mutex.mu.Lock()
	session := s.mutex.place.session
	s.mutex.mu.Unlock()
	stop := c.listen(s.ctx, session, s.cfg.StateChanged, interrupt)
	return ctx, func() {
		stop()
		end()
	}
}

func (s *Selector) lead(leading bool, interrupt context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leading, s.interrupt = leading, interrupt
}
