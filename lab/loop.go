package lab

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// peer is a rule of another project, in its own words.
type peer interface {
	// turn is one turn of its loop; it says how long to sleep then.
	turn(ctx context.Context) time.Duration
	// release is what it does when it is told to stop.
	release(ctx context.Context)
}

// notified is a peer that listens to who resigns.
type notified interface {
	heard() time.Duration // how long it waits then, before its next turn
}

// looping is a candidate that is a peer's loop.
type looping struct {
	s    *stand
	peer peer
	wake chan struct{} // somebody has resigned; cap 1, never closed
	once sync.Once
	stop chan struct{} // closed by Stop
	done chan struct{} // closed by Run
}

func (s *stand) loop(p peer) candidate {
	return &looping{s: s, peer: p, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
}

// Run turns until ctx ends, or Stop is called.
func (l *looping) Run(ctx context.Context) error {
	defer close(l.done)
	// Nobody starts at the same moment in real life.
	timer := time.NewTimer(rand.N(l.s.Times.Check))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.stop:
			return nil
		case <-timer.C:
		case <-l.wake:
			if n, listens := l.peer.(notified); listens {
				timer.Reset(n.heard())
			}
			continue
		}
		l.s.turns.Add(1)
		timer.Reset(l.peer.turn(ctx))
	}
}

// Stop ends the loop after its present turn, and does what the rule does then.
func (l *looping) Stop(ctx context.Context) error {
	l.once.Do(func() { close(l.stop) })
	<-l.done
	l.peer.release(ctx)
	return nil
}

func (l *looping) Leading() (uint64, bool) { return l.s.belief.holds() }
func (l *looping) Wake()                   { nudge(l.wake) }

func (l *looping) Cost() (statements, turns uint64) { return l.s.db.Statements(), l.s.turns.Load() }

// seconds is a lease for those who count in whole ones: never none.
func seconds(d time.Duration) int64 { return max(1, int64(d/time.Second)) }
