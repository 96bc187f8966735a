package elector_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave"
	"conclave/elector"
)

func TestWake_LeaderReadsStoreAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		e, _ := run(t, s, "a")
		time.Sleep(1500 * time.Millisecond)
		s.set(func(t *elector.Term) { t.Number, t.Leader = 2, other })
		e.Wake() // a fenced write matched nothing
		synctest.Wait()
		_, leading := e.Leading()
		assert.False(t, leading, "deposed before its next beat")
	})
}

// queuing is a strategy whose candidates wait in a queue for the leader of term 7.
type queuing struct{ strategy }

func (queuing) WaitingFor() uint64 { return 7 }

func TestResigned_CandidateInAQueueLeavesTheTermToThoseBeforeIt(t *testing.T) {
	for name, delay := range map[string]time.Duration{"no queue": 0, "queue": 30 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := ledBy(7, 0)
				e, _ := run(t, s, "a", func(c *elector.Config) {
					if delay > 0 {
						c.Strategy = queuing{strategy{s}}
					}
				})
				time.Sleep(1500 * time.Millisecond)
				before := s.played()
				s.set(func(t *elector.Term) { t.Leader = conclave.NodeID{} })
				e.Resigned(7)
				if delay > 0 {
					time.Sleep(delay - time.Millisecond)
					synctest.Wait()
					assert.Equal(t, before, s.played(), "the others compete first")
					time.Sleep(time.Millisecond)
				}
				synctest.Wait()
				assert.Equal(t, before+1, s.played())
				_, leads := e.Leading()
				assert.True(t, leads, "none of them has won")

				e.Resigned(7)
				time.Sleep(100 * time.Millisecond)
				assert.Equal(t, before+1, s.played(), "a later term is known")
			})
		})
	}
}

func TestResigned_RepeatedAndOlderOnesChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := ledBy(7, 0)
		e, _ := run(t, s, "a", func(c *elector.Config) { c.Strategy = queuing{strategy{s}} })
		time.Sleep(1500 * time.Millisecond)
		before := s.played()
		s.set(func(t *elector.Term) { t.Leader = conclave.NodeID{} })
		e.Resigned(7)
		time.Sleep(20 * time.Millisecond)
		e.Resigned(6) // of a peer that was slow
		e.Resigned(7) // of another peer
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, before+1, s.played())
	})
}

func TestObserve_OlderReadDoesNotReplacePushedBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := ledBy(7, 3)
		s.block = make(chan struct{})
		e, _ := run(t, s, "a")
		synctest.Wait() // a read is in progress
		e.Observe(elector.Term{Number: 8, Leader: other, Beat: 2, Lease: 3 * time.Second})
		e.Observe(elector.Term{Number: 8, Leader: other, Beat: 1})
		close(s.block) // the answer is older than the pushed beats
		synctest.Wait()
		assert.Equal(t, uint64(8), e.Current().Number)
		assert.Equal(t, uint64(2), e.Current().Beat)
		assert.Equal(t, uint64(8), e.Highest())
	})
}

func TestSuspect_PollsEachQuarterBeatUntilSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := ledBy(7, 0)
		e, _ := run(t, s, "a")
		time.Sleep(1500 * time.Millisecond)
		before := s.played()
		e.Suspect()
		synctest.Wait()
		assert.Equal(t, before+1, s.played(), "one read at once")
		time.Sleep(1100 * time.Millisecond)
		assert.InDelta(t, before+1+4, s.played(), 1, "then one each quarter beat")
		for range 2 { // the leader is alive: only the stream broke
			s.set(func(t *elector.Term) { t.Beat++ })
			time.Sleep(300 * time.Millisecond)
		}
		before = s.played()
		for range 5 {
			s.set(func(t *elector.Term) { t.Beat++ })
			time.Sleep(time.Second)
		}
		assert.InDelta(t, before+5, s.played(), 1, "once settled, one each beat")
	})
}

func TestSuspect_LeaseIsNotExtended(t *testing.T) {
	for _, since := range []time.Duration{0, 110 * time.Millisecond, 220 * time.Millisecond, 390 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			s := ledBy(7, 0)
			e, _ := run(t, s, "a")
			synctest.Wait()
			s.set(func(term *elector.Term) { term.Beat++; e.Observe(*term) }) // the last beat
			began := time.Now()
			time.Sleep(since)
			e.Suspect()
			for e.Current().Leader == other {
				time.Sleep(time.Millisecond)
			}
			late := time.Since(began) - 3*time.Second
			assert.LessOrEqual(t, late, 30*time.Millisecond, "a follower that reads each quarter beat must not miss the end of the lease")
			assert.GreaterOrEqual(t, late, time.Duration(0))
		})
	}
}

func TestConfirmLeading_PromisedTermIsNotLedWhenWinArrivesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{block: make(chan struct{})}
		e, _ := run(t, s, "a", func(c *elector.Config) {
			c.Lead = func(ctx context.Context, term elector.Term) error {
				assert.Greater(t, term.Number, uint64(1), "the promised term is led")
				<-ctx.Done()
				return nil
			}
		})
		synctest.Wait() // the round that wins term 1 is in progress
		assert.False(t, e.ConfirmLeading(1, "lock"), "term 1 is not led yet")
		close(s.block)
		synctest.Wait()
		term, leading := e.Leading()
		assert.True(t, leading)
		assert.Equal(t, uint64(2), term.Number, "the node won the next term")
	})
}

func TestConfirmLeading_RenewalAfterPromiseIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		e, _ := run(t, s, "a")
		synctest.Wait()
		s.mu.Lock()
		s.block = make(chan struct{})
		s.mu.Unlock()
		time.Sleep(1500 * time.Millisecond) // the renewal of term 1 is in progress
		assert.True(t, e.ConfirmLeading(1, "lock"))
		assert.False(t, e.ConfirmLeading(2, "lock"), "the promise covers term 2 and all lower terms")
		close(s.block)
		synctest.Wait()
		for range 100 {
			time.Sleep(20 * time.Millisecond)
			if term, leading := e.Leading(); leading {
				assert.Equal(t, uint64(3), term.Number)
			}
		}
	})
}
