package zklatch

import (
	"context"
	"sync"
	"time"
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

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	done chan struct{} // closed when the loop has ended

	requeue chan struct{} // capacity one; never closed

	mu      sync.Mutex // guards the fields below
	started bool
	queued  bool // in the queue, or about to enter it
	leading bool // TakeLeadership runs
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
	return leading && s.mutex.Held()
}

// Participants returns the candidates in order; the first leads.
func (s *Selector) Participants(ctx context.Context) ([]Participant, error) {
	return s.mutex.Participants(ctx)
}

// run leads once after the other (doWorkLoop in article 004).
func (s *Selector) run() {
	for s.ctx.Err() == nil {
		if err := s.turn(); err != nil {
			s.mutex.queue.c.pauseAfter(s.ctx, err)
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

// turn acquires the mutex, leads and releases it (doWork in article 004).
func (s *Selector) turn() error {
	if err := s.mutex.Acquire(s.ctx); err != nil {
		return err
	}
	defer func() {
		// Also after Close. If a second is not enough, the deletion continues in the
		// background.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), time.Second)
		defer cancel()
		_ = s.mutex.Release(ctx) // it is held
	}()
	ctx, cancel := s.mutex.Holding(s.ctx)
	defer cancel()
	s.lead(true)
	defer s.lead(false)
	return s.cfg.TakeLeadership(ctx)
}

func (s *Selector) lead(leading bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leading = leading
}
