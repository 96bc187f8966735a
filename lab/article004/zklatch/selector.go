package zklatch

import (
	"context"
	"sync"
	"time"

	"conclave/internal/signal"
)

// SelectorConfig configures a Selector.
type SelectorConfig struct {
	ID string
	// TakeLeadership runs while this selector leads, and gives up the leadership by
	// returning (takeLeadership in article 004). Its context ends with ErrSuspended
	// as soon as the connection breaks or the leadership cannot be relied on for another
	// reason (LeaderSelectorListenerAdapter in article 004); then it must return. It must
	// not call Close, which waits for its return.
	TakeLeadership func(ctx context.Context) error
	// AutoRequeue makes the selector enter the queue again after each leadership.
	// Without it, each call of Requeue does so once.
	AutoRequeue bool
}

// Selector is a candidate that leads for a while, repeatedly (LeaderSelector in
// article 004): it acquires a mutex, calls TakeLeadership, and releases the mutex.
type Selector struct {
	cfg   SelectorConfig
	mutex *Mutex

	loop *loop

	requeue signal.Signal

	mu     sync.Mutex // guards the field below
	queued bool       // in the queue, or about to enter it
}

// Selector returns a candidate for the leadership at a path.
func (c *Client) Selector(path string, cfg SelectorConfig) *Selector {
	return &Selector{cfg: cfg, mutex: c.Mutex(path, []byte(cfg.ID)), loop: c.loop(), requeue: signal.New(), queued: true}
}

// Start enters the queue.
func (s *Selector) Start() error { return s.loop.start(s.run) }

// Close ends TakeLeadership's context, waits for its return, and leaves the queue.
func (s *Selector) Close() { s.loop.end() }

// Requeue makes the selector enter the queue again. It returns false if the selector
// is in the queue already, or does not run.
func (s *Selector) Requeue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queued || s.loop.ctx.Err() != nil {
		return false
	}
	s.queued = true
	s.requeue.Set()
	return true
}

// HasLeadership reports whether this selector leads, and TakeLeadership may act.
func (s *Selector) HasLeadership() bool { return s.mutex.Held() }

// run leads once after the other (doWorkLoop in article 004).
func (s *Selector) run() {
	for s.loop.ctx.Err() == nil {
		if err := s.turn(); err != nil {
			s.mutex.queue.c.pauseAfter(s.loop.ctx, err)
		}
		if s.cfg.AutoRequeue {
			continue
		}
		s.mu.Lock()
		s.queued = false
		s.mu.Unlock()
		select {
		case <-s.requeue.C():
		case <-s.loop.ctx.Done():
		}
	}
}

// turn acquires the mutex, leads and releases it (doWork in article 004).
func (s *Selector) turn() error {
	if err := s.mutex.Acquire(s.loop.ctx); err != nil {
		return err
	}
	defer func() {
		// Also after Close. If a second is not enough, the deletion continues in the
		// background.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.loop.ctx), time.Second)
		defer cancel()
		_ = s.mutex.Release(ctx) // it is held
	}()
	ctx, cancel := s.mutex.Holding(s.loop.ctx)
	defer cancel()
	return s.cfg.TakeLeadership(ctx)
}
