package zklatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// SelectorConfig says what a Selector does.
type SelectorConfig struct {
	ID string
	// TakeLeadership runs while this selector leads, and gives the leadership up by
	// returning. Its context ends, with ErrSuspended, as soon as the lead cannot be
	// relied on; then it must return.
	TakeLeadership func(ctx context.Context) error
	// AutoRequeue stands again after each leadership; else Requeue does, once.
	AutoRequeue bool
}

// ErrInterrupted ends TakeLeadership's context after Interrupt.
var ErrInterrupted = errors.New("leadership interrupted")

// Selector leads by turns: it acquires a mutex, takes the leadership, and releases.
type Selector struct {
	cfg   SelectorConfig
	mutex *Mutex

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	done chan struct{} // closed when the loop has ended

	mu        sync.Mutex // guards what follows
	started   bool
	queued    bool                    // stands, or is to stand, in the line
	leading   bool                    // TakeLeadership runs
	interrupt context.CancelCauseFunc // ends its context
	requeue   chan struct{}           // cap 1, never closed
}

// Selector is a candidate for the leadership at a path.
func (c *Client) Selector(path string, cfg SelectorConfig) *Selector {
	s := &Selector{cfg: cfg, mutex: c.Mutex(path, []byte(cfg.ID)), done: make(chan struct{}), requeue: make(chan struct{}, 1)}
	s.ctx, s.stop = context.WithCancel(c.ctx)
	return s
}

// Start enters the line.
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

// Close ends TakeLeadership's context, waits for its return, and leaves the line.
func (s *Selector) Close() {
	s.mu.Lock()
	started := s.started
	s.mu.Unlock()
	s.stop()
	if started {
		<-s.done
	}
}

// Requeue stands again, if this selector does not stand already. It reports whether
// it did.
func (s *Selector) Requeue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started || s.queued || s.ctx.Err() != nil {
		return false
	}
	s.queued = true
	s.requeue <- struct{}{} // empty: queued was false
	return true
}

// HasLeadership says whether TakeLeadership runs, and may act.
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
	now, _ := s.mutex.line.c.tree.Session()
	return s.mutex.line.c.sure(now, session)
}

// Interrupt ends the context of TakeLeadership, if it runs, with ErrInterrupted.
func (s *Selector) Interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.interrupt != nil {
		s.interrupt(ErrInterrupted)
	}
}

// Participants are the candidates in their order; the first leads.
func (s *Selector) Participants(ctx context.Context) ([]Participant, error) {
	return s.mutex.Participants(ctx)
}

// run takes one turn after the other.
func (s *Selector) run() {
	for s.ctx.Err() == nil {
		if err := s.play(); err != nil && s.ctx.Err() == nil {
			if errors.Is(err, errStood) {
				s.mutex.line.c.rest(s.ctx, err)
				continue // it never led: it stands again
			}
			s.mutex.line.c.log.Warn("a leadership has ended with an error", "path", s.mutex.line.dir, "error", err)
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

// errStood wraps what went wrong before TakeLeadership was called.
var errStood = errors.New("cannot stand for leadership")

// play is one turn.
func (s *Selector) play() error {
	if err := s.mutex.Acquire(s.ctx); err != nil {
		return fmt.Errorf("%w: %w", errStood, err)
	}
	defer func() {
		// Whatever ends the turn, Close too: what a second is not enough for goes on in
		// the background.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), time.Second)
		defer cancel()
		_ = s.mutex.Release(ctx) // it is held
	}()
	ctx, interrupt := context.WithCancelCause(s.ctx)
	defer interrupt(nil)
	ctx, cancel := s.mutex.Holding(ctx)
	defer cancel()
	s.lead(true, interrupt)
	defer s.lead(false, nil)
	return s.cfg.TakeLeadership(ctx)
}

func (s *Selector) lead(leading bool, interrupt context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leading, s.interrupt = leading, interrupt
}
