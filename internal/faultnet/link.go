package faultnet

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"conclave/internal/signal"
)

// fault is the state of one direction.
type fault struct {
	cut           bool
	delay, jitter time.Duration
	rate          int // bytes per second; 0: no limit
	lose          bool
}

// link is one direction between two hosts.
type link struct {
	mu      sync.Mutex // guards the fields below
	fault   fault
	changed signal.Broadcast // notified when fault changes
}

func (l *link) change(f func(*fault)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.fault)
	l.changed.Notify()
}

func (l *link) now() (fault, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault, l.changed.Next()
}

// passable waits until the link is not cut, or returns the error of ctx.
func (l *link) passable(ctx context.Context) error {
	for {
		f, changed := l.now()
		if !f.cut {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// due returns when bytes that were sent at the given time arrive.
func (l *link) due(sent time.Time, bytes int) time.Time {
	f, _ := l.now()
	d := f.delay
	if f.jitter > 0 {
		d += rand.N(f.jitter)
	}
	if f.rate > 0 {
		d += time.Duration(bytes) * time.Second / time.Duration(f.rate)
	}
	return sent.Add(d)
}

// loses reports whether the next chunk is to be lost, and resets that fault.
func (l *link) loses() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := l.fault.lose
	l.fault.lose = false
	return lost
}
