package elector_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave"
	"conclave/elector"
)

func TestLeading_EndsOnTimeWhenStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		began := time.Now()
		ended := make(chan time.Duration, 1)
		e, _ := run(t, s, "a", func(c *elector.Config) {
			c.Lead = func(ctx context.Context, _ elector.Term) error {
				<-ctx.Done()
				ended <- time.Since(began)
				return nil
			}
		})
		synctest.Wait()
		s.mu.Lock()
		s.block = make(chan struct{}) // from now on no round is answered
		s.mu.Unlock()
		time.Sleep(2900 * time.Millisecond)
		_, leading := e.Leading()
		assert.True(t, leading)
		assert.Equal(t, 3*time.Second-60*time.Millisecond, <-ended, "lease less margin after the win was sent")
		_, leading = e.Leading()
		assert.False(t, leading)
		assert.LessOrEqual(t, e.Remaining(), time.Duration(0))
	})
}

// closing is a strategy that notes when it is closed.
type closing struct {
	strategy
	closed *time.Time
}

func (c closing) Close() error {
	*c.closed = time.Now()
	return nil
}

func TestRun_CancelledContextHandsOverWhenLeadHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		var cause error
		var woken, closed time.Time
		e, crash := run(t, s, "a", func(c *elector.Config) {
			c.HandOver = 0 // the default
			c.Strategy = closing{strategy{s}, &closed}
			c.Lead = func(ctx context.Context, _ elector.Term) error {
				<-ctx.Done()
				cause = context.Cause(ctx)
				time.Sleep(5 * time.Second) // longer than the lease
				s.set(func(term *elector.Term) { assert.Positive(t, term.Beat, "it was renewed") })
				return ctx.Err()
			}
			c.WakePeers = func(context.Context, elector.Term) { woken = time.Now() }
		})
		synctest.Wait()
		began := time.Now()
		require.NoError(t, crash())
		assert.Equal(t, 5*time.Second, time.Since(began))
		assert.ErrorIs(t, cause, elector.ErrResigned)
		assert.Zero(t, s.term.Leader, "handed over")
		assert.Equal(t, time.Now(), woken)
		assert.Equal(t, time.Now(), closed)
		assert.Zero(t, e.Stats().LeadFailed, "it returned what its context says")
		require.NoError(t, e.Shutdown(t.Context()))
	})
}

// After the deadline the term is not renewed any more, but no connection is closed, and
// so no witness freed, before Lead has returned.
func TestRun_HandOverHasADeadline(t *testing.T) {
	for what, test := range map[string]struct{ lead, blocked, run time.Duration }{
		"Lead takes too long":   {lead: 40 * time.Second, run: 40 * time.Second},
		"the store hangs":       {blocked: time.Hour, run: 10 * time.Second},
		"the store comes back":  {blocked: 5 * time.Second, run: 10 * time.Second},
		"both take a long time": {lead: 20 * time.Second, blocked: time.Hour, run: 20 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{}
				var returned, closed time.Time
				_, crash := run(t, s, "a", func(c *elector.Config) {
					c.HandOver = 10 * time.Second
					c.Strategy = closing{strategy{s}, &closed}
					c.Lead = func(ctx context.Context, _ elector.Term) error {
						<-ctx.Done()
						time.Sleep(test.lead)
						returned = time.Now()
						return nil
					}
				})
				time.Sleep(2500 * time.Millisecond)
				if test.blocked > 0 {
					block := make(chan struct{})
					s.mu.Lock()
					s.block, s.broken = block, true
					s.mu.Unlock()
					time.AfterFunc(test.blocked, func() { close(block) })
				}
				began := time.Now()
				err := crash()
				require.ErrorIs(t, err, context.Canceled)
				assert.LessOrEqual(t, time.Since(began), test.run)
				assert.False(t, closed.Before(returned))
				assert.Equal(t, "a", s.term.Leader.Name, "%v", err)
				assert.False(t, s.rounds[len(s.rounds)-1].After(began.Add(10*time.Second)))
				time.Sleep(time.Hour)
			})
		})
	}
}

// renewing is a strategy that notes when a renewal is cancelled.
type renewing struct {
	strategy
	cancelled *time.Time
}

func (r renewing) Round(ctx context.Context, me elector.Candidate, last elector.Term) (elector.Term, error) {
	term, err := r.strategy.Round(ctx, me, last)
	if ctx.Err() != nil && me.Holding != 0 {
		*r.cancelled = time.Now()
	}
	return term, err
}

// A statement that waits for its answer when Run gives up keeps the witness until Lead has
// returned, because to cancel it closes its connection.
func TestRun_WitnessIsKeptUntilLeadHasReturned(t *testing.T) {
	for _, handOver := range []time.Duration{elector.NoHandOver, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := &store{}
			var returned, cancelled time.Time
			_, crash := run(t, s, "a", func(c *elector.Config) {
				c.HandOver, c.Lease = handOver, time.Minute
				c.Strategy = renewing{strategy{s}, &cancelled}
				c.Lead = func(ctx context.Context, _ elector.Term) error {
					<-ctx.Done()
					time.Sleep(10 * time.Second)
					returned = time.Now()
					return nil
				}
			})
			time.Sleep(time.Second)
			s.hang(nil)
			time.Sleep(20 * time.Second) // a renewal is sent, and not answered
			require.Error(t, crash())
			assert.Equal(t, returned, cancelled)
			assert.Equal(t, returned, time.Now(), "Run does not wait for the statement after that")
		})
	}
}

// The end of Run's context ends the right to act at once, and the chance to win, also
// while a round waits for its answer.
func TestRun_CancelledContextDoesNotWaitForARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		var ended time.Time
		e, crash := run(t, s, "a", func(c *elector.Config) {
			c.HandOver = 0 // the default
			c.Lead = func(ctx context.Context, _ elector.Term) error {
				<-ctx.Done()
				ended = time.Now()
				return nil
			}
		})
		time.Sleep(500 * time.Millisecond)
		answer := make(chan struct{})
		s.hang(answer)
		time.Sleep(time.Second)
		time.AfterFunc(time.Second, func() { close(answer) })
		began := time.Now()
		require.NoError(t, crash())
		assert.Equal(t, began, ended)
		assert.Equal(t, time.Second, time.Since(began))
		assert.Zero(t, s.term.Leader, "handed over")
		assert.EqualValues(t, 1, e.Stats().Won)
	})
	for _, after := range []time.Duration{time.Second, 4 * time.Second} { // in time, and too late to lead
		synctest.Test(t, func(t *testing.T) {
			answer := make(chan struct{})
			s := &store{block: answer}
			e, crash := run(t, s, "a", func(c *elector.Config) { c.HandOver = 0 })
			synctest.Wait()
			time.AfterFunc(after, func() { close(answer) })
			require.NoError(t, crash())
			assert.Zero(t, e.Stats().Won)
			assert.EqualValues(t, 1, s.term.Number)
			assert.Zero(t, s.term.Leader, "what it won is given up")
		})
	}
}

// A hand-over that failed is Run's error, also if Lead returned before the round in progress
// did, or trust ended meanwhile.
func TestRun_FailedHandOverIsAnError(t *testing.T) {
	for i := range 40 {
		synctest.Test(t, func(t *testing.T) {
			s := &store{}
			_, crash := run(t, s, "a", func(c *elector.Config) {
				c.HandOver = 0
				c.Lead = func(ctx context.Context, _ elector.Term) error { <-ctx.Done(); return nil }
			})
			time.Sleep(500 * time.Millisecond)
			answer := make(chan struct{})
			s.hang(answer)
			time.Sleep(time.Second) // a renewal is sent
			time.AfterFunc(time.Duration(1+i%2*4)*time.Second, func() {
				s.setBroken(true)
				close(answer)
			})
			require.ErrorIs(t, crash(), context.Canceled)
			assert.Equal(t, "a", s.term.Leader.Name)
		})
	}
}

// A panic of OnBeat leaves Run, before Lead is called and afterwards.
func TestRun_PanicOfOnBeatIsNotHeldUp(t *testing.T) {
	for beat := range uint64(2) {
		synctest.Test(t, func(t *testing.T) {
			e, err := elector.New(elector.Config{ID: conclave.NodeID{Name: "a", Incarnation: "1"}, Strategy: strategy{&store{}}, OnBeat: func(term elector.Term) {
				if term.Beat == beat {
					panic("a defect")
				}
			}})
			require.NoError(t, err)
			assert.PanicsWithValue(t, "a defect", func() { _ = e.Run(t.Context()) })
		})
	}
}

// A leader of a term that is outranked keeps its witness and gives the row up to no node
// while Lead winds down within the lease.
func TestSeen_NoRoundWhileLeadWindsDownWithinTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		linger := make(chan struct{})
		e, _ := run(t, s, "a", func(c *elector.Config) {
			c.Lead = func(ctx context.Context, _ elector.Term) error {
				<-ctx.Done()
				<-linger
				return nil
			}
		})
		synctest.Wait()
		e.Seen(7)
		time.Sleep(3 * time.Second) // the lease
		synctest.Wait()
		assert.Equal(t, 1, s.played())
		time.Sleep(2 * time.Second)
		assert.Greater(t, s.played(), 1, "then it observes")
		close(linger)
		synctest.Wait()
		assert.EqualValues(t, 8, e.Current().Number)
	})
}

func TestRun_CancelledContextResignsNothingAndJoinsLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		returned := false
		e, crash := run(t, s, "a", func(c *elector.Config) {
			c.Lead = func(ctx context.Context, _ elector.Term) error {
				<-ctx.Done()
				assert.ErrorIs(t, context.Cause(ctx), elector.ErrCrashed)
				time.Sleep(time.Second) // slow to stop
				returned = true
				return nil
			}
			c.WakePeers = func(context.Context, elector.Term) { t.Error("WakePeers was called") }
		})
		synctest.Wait()
		assert.ErrorIs(t, crash(), context.Canceled)
		assert.True(t, returned)
		assert.Equal(t, "a", s.term.Leader.Name, "nothing was resigned")
		_, leading := e.Leading()
		assert.False(t, leading)
		assert.ErrorIs(t, e.Resign(t.Context()), elector.ErrStopped)
		assert.Error(t, e.Run(t.Context()), "Run may be called once")
	})
}

// Lead's work must have ended before another node leads, so its deadline is known also
// while Lead winds down after a resignation and the term is still renewed.
func TestTrustedUntil_IsSetUntilLeadHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		linger := make(chan struct{})
		e, _ := run(t, s, "a", func(c *elector.Config) {
			c.Lead = func(ctx context.Context, _ elector.Term) error {
				<-ctx.Done()
				<-linger
				return nil
			}
		})
		began := time.Now()
		synctest.Wait()
		trust := 3*time.Second - 60*time.Millisecond
		assert.Equal(t, began.Add(trust), e.TrustedUntil())
		time.Sleep(1500 * time.Millisecond)
		assert.True(t, e.TrustedUntil().After(began.Add(trust)), "renewed")

		resigned := make(chan error, 1)
		go func() { resigned <- e.Resign(t.Context()) }()
		time.Sleep(10 * time.Second)
		_, leading := e.Leading()
		assert.False(t, leading)
		assert.Greater(t, time.Until(e.TrustedUntil()), time.Second, "the term is still renewed")
		s.set(func(t *elector.Term) { t.Number, t.Leader = 9, other })
		time.Sleep(5 * time.Second)
		assert.Less(t, time.Until(e.TrustedUntil()), time.Duration(0), "once deposed, trust ends with the last renewal")
		close(linger)
		require.Error(t, <-resigned, "the term was lost before it could be handed over")
		assert.Zero(t, e.TrustedUntil())
	})
}

// A node that joins again while it shuts down would lead a term that nobody hands over.
func TestShutdown_IsNotUndoneByJoinElection(t *testing.T) {
	for _, at := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond} {
		for range 50 { // at the same time: either may come first
			synctest.Test(t, func(t *testing.T) {
				s := &store{}
				e, _ := prepare(t, s, "a", func(c *elector.Config) {
					c.Lead = func(ctx context.Context, _ elector.Term) error {
						<-ctx.Done()
						time.Sleep(5 * time.Millisecond)
						return nil
					}
				})
				var all sync.WaitGroup
				defer all.Wait()
				all.Go(func() { _ = e.Run(context.Background()) })
				time.Sleep(4 * time.Second)
				all.Go(func() {
					time.Sleep(at)
					_ = e.JoinElection(context.Background())
				})
				assert.NoError(t, e.Shutdown(t.Context()))
				assert.Zero(t, s.term.Leader, "joins after %v", at)
			})
		}
	}
}

// Whatever is called before, in whatever order or at the same moment: after Shutdown
// the node takes no part, what it led is handed over, no goroutine is left (which the
// bubble checks), and a later Run returns at once.
func TestShutdown_EndsTheElectorInEveryOrderOfCalls(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type call struct {
			what string
			at   time.Duration
		}
		calls := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) call {
			return call{
				rapid.SampledFrom([]string{"Run", "Run", "Run for a second", "Shutdown", "Resign", "Quit", "JoinElection"}).Draw(t, "call"),
				rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 4 * time.Second}).Draw(t, "at"),
			}
		}), 0, 6).Draw(rt, "calls")
		synctest.Test(t, func(t *testing.T) {
			s := &store{}
			e, _ := prepare(t, s, "a", func(c *elector.Config) {
				c.HandOver = 0 // the default
				c.Lead = func(ctx context.Context, _ elector.Term) error { <-ctx.Done(); return nil }
			})
			var made sync.WaitGroup
			for _, x := range calls {
				made.Go(func() {
					time.Sleep(x.at)
					switch x.what {
					case "Run":
						_ = e.Run(context.Background())
					case "Run for a second":
						ctx, cancel := context.WithTimeout(context.Background(), time.Second)
						defer cancel()
						_ = e.Run(ctx)
					case "Shutdown":
						assert.NoError(t, e.Shutdown(context.Background()))
					case "Resign":
						_ = e.Resign(context.Background())
					case "Quit":
						_ = e.Quit(context.Background())
					case "JoinElection":
						_ = e.JoinElection(context.Background())
					}
				})
			}
			time.Sleep(4 * time.Second)
			require.NoError(t, e.Shutdown(t.Context()))
			synctest.Wait()
			rounds, began := s.played(), time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_ = e.Run(ctx)
			assert.Zero(t, time.Since(began), "Run after Shutdown")
			assert.ErrorIs(t, e.Resign(ctx), elector.ErrStopped)
			time.Sleep(time.Minute)
			assert.Equal(t, rounds, s.played())
			_, leading := e.Leading()
			assert.False(t, leading)
			assert.Zero(t, s.term.Leader, "it was handed over")
			made.Wait()
		})
		if t.Failed() {
			rt.Fatalf("%v", calls)
		}
	})
}
