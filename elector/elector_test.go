package elector_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
)

var other = conclave.NodeID{Name: "other", Incarnation: "1"}

// ledBy makes other the leader of a term.
func ledBy(number, beat uint64) *store {
	return &store{term: elector.Term{Number: number, Leader: other, Beat: beat, Lease: 3 * time.Second}}
}

func TestNew_DrawsTheIncarnation(t *testing.T) {
	cfg := elector.Config{ID: conclave.NodeID{Name: "a"}, Strategy: strategy{&store{}}}
	one, err := elector.New(cfg)
	require.NoError(t, err)
	two, err := elector.New(cfg)
	require.NoError(t, err)
	assert.NotEmpty(t, one.ID().Incarnation)
	assert.NotEqual(t, one.ID(), two.ID())
	cfg.ID.Incarnation = "1"
	three, err := elector.New(cfg)
	require.NoError(t, err)
	assert.Equal(t, cfg.ID, three.ID())
}

func TestNew_ErrorNamesFieldAndConstraint(t *testing.T) {
	good := elector.Config{ID: other, Strategy: strategy{&store{}}}
	require.NoError(t, good.Validate())
	for name, test := range map[string]struct {
		change func(*elector.Config)
		names  []string
	}{
		"no name":           {func(c *elector.Config) { c.ID.Name = "" }, []string{"ID"}},
		"no strategy":       {func(c *elector.Config) { c.Strategy = nil }, []string{"Strategy"}},
		"lease too short":   {func(c *elector.Config) { c.Lease = time.Millisecond }, []string{"Lease"}},
		"beat too long":     {func(c *elector.Config) { c.Lease, c.Beat = 3*time.Second, 2*time.Second }, []string{"Beat 2s", "Lease 3s"}},
		"beat negative":     {func(c *elector.Config) { c.Beat = -1 }, []string{"Beat", "Lease"}},
		"margin too wide":   {func(c *elector.Config) { c.Margin = 2 * time.Second }, []string{"Margin 2s", "Lease 3s"}},
		"polled too often":  {func(c *elector.Config) { c.Poll = time.Millisecond }, []string{"Poll 1ms", "Beat 1s"}},
		"polled too seldom": {func(c *elector.Config) { c.Poll = time.Minute }, []string{"Poll 1m0s", "Lease 3s"}},
		"read too often":    {func(c *elector.Config) { c.SafetyRead = time.Millisecond }, []string{"SafetyRead 1ms", "Beat 1s"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			test.change(&cfg)
			_, err := elector.New(cfg)
			for _, part := range test.names {
				assert.ErrorContains(t, err, part)
			}
		})
	}
}

func TestLead_ContextEndsWithCauseWhenDeposed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		causes := make(chan error, 1)
		beats := 0
		e, _ := run(t, s, "a", func(c *elector.Config) {
			c.Lead = func(ctx context.Context, term elector.Term) error {
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return nil
			}
			c.OnBeat = func(elector.Term) { beats++ }
		})
		time.Sleep(10 * time.Second)
		term, leading := e.Leading()
		require.True(t, leading)
		assert.Equal(t, uint64(1), term.Number)
		assert.InDelta(t, 10, beats, 1, "OnBeat once a beat, the win included")
		assert.InDelta(t, 10, s.played(), 1, "one round a beat")

		s.set(func(t *elector.Term) { t.Number, t.Leader = 2, other })
		assert.ErrorIs(t, <-causes, elector.ErrDeposed)
		_, leading = e.Leading()
		assert.False(t, leading)
	})
}

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

func TestRun_CancelledContextResignsNothingAndJoinsLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		returned := false
		e, crash := run(t, s, "a", func(c *elector.Config) {
			c.Lead = func(ctx context.Context, _ elector.Term) error {
				<-ctx.Done()
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

func TestFollower_PollsEachBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := ledBy(7, 0)
		e, _ := run(t, s, "a")
		for range 20 {
			time.Sleep(time.Second)
			s.set(func(t *elector.Term) { t.Beat++ })
		}
		assert.InDelta(t, 20, s.played(), 2)
		assert.Equal(t, other, e.Current().Leader)
		assert.Positive(t, e.Remaining())
	})
}

// A longer Poll costs less, but a follower that learns late of the last beat observes it
// for longer.
func TestFollower_PollsAtConfiguredInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := ledBy(7, 0)
		e, _ := run(t, s, "a", func(c *elector.Config) { c.Poll = 3 * time.Second })
		for range 60 {
			time.Sleep(time.Second)
			s.set(func(t *elector.Term) { t.Beat++ })
		}
		assert.InDelta(t, 60/3, s.played(), 2)
		began := time.Now() // the last beat
		for e.Current().Leader == other {
			time.Sleep(10 * time.Millisecond)
		}
		assert.Greater(t, time.Since(began), 3*time.Second)
		assert.Less(t, time.Since(began), 2*3*time.Second+100*time.Millisecond)
	})
}

func TestFollower_DoesNotPollWhileBeatsArePushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := ledBy(7, 0)
		e, _ := run(t, s, "a")
		synctest.Wait()
		push := func() {
			s.set(func(term *elector.Term) { term.Beat++; e.Observe(*term) })
		}
		for range 60 {
			time.Sleep(time.Second)
			push()
		}
		assert.InDelta(t, 60/10, s.played(), 1, "one SafetyRead each 10 s")
		before := s.played()

		// The pushes stop: after two missed beats the follower polls, after a lease it leads.
		began := time.Now()
		for e.Current().Leader == other {
			time.Sleep(10 * time.Millisecond)
		}
		assert.InDelta(t, 3.0, time.Since(began).Seconds(), 0.3)
		assert.GreaterOrEqual(t, s.played()-before, 2)
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

func TestResign_HandsOverWhenLeadHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		woken := make(chan elector.Term, 1)
		e, _ := run(t, s, "a", func(c *elector.Config) {
			c.Lead = func(ctx context.Context, _ elector.Term) error {
				<-ctx.Done()
				time.Sleep(5 * time.Second) // longer than a lease: the term is renewed meanwhile
				return nil
			}
			c.WakePeers = func(_ context.Context, term elector.Term) { woken <- term }
		})
		synctest.Wait()
		began := time.Now()
		go func() {
			time.Sleep(time.Second)
			_, leading := e.Leading()
			assert.False(t, leading, "the node may not act from the resignation on")
			s.mu.Lock()
			defer s.mu.Unlock()
			assert.Equal(t, "a", s.term.Leader.Name, "the term is held until Lead has returned")
		}()
		require.NoError(t, e.Resign(t.Context()))
		assert.Equal(t, 5*time.Second, time.Since(began))
		assert.Equal(t, uint64(1), (<-woken).Number)
	})
}

func TestQuit_LeaderHandsOverWithoutRenewingFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		var returned int
		e, _ := run(t, s, "a", func(c *elector.Config) {
			c.Lead = func(ctx context.Context, _ elector.Term) error {
				<-ctx.Done()
				time.Sleep(10 * time.Millisecond)
				returned = s.played()
				return nil
			}
		})
		time.Sleep(500 * time.Millisecond)
		before := s.played()
		require.NoError(t, e.Quit(t.Context()))
		assert.Equal(t, before, returned, "no round before the hand-over: the others would wait for its statement")
		synctest.Wait()
		assert.Greater(t, s.played(), before, "a round as an observer after the hand-over")
	})
}

func TestLeading_StoreErrorsDeposeNoLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		e, _ := run(t, s, "a")
		synctest.Wait()
		s.setBroken(true)
		time.Sleep(2 * time.Second)
		_, leading := e.Leading()
		assert.True(t, leading, "errors depose no leader")
		s.setBroken(false)
		time.Sleep(3 * time.Second)
		term, leading := e.Leading()
		assert.True(t, leading)
		assert.Equal(t, uint64(1), term.Number)
		assert.NotZero(t, e.Stats().Failed)
	})
}

func TestChanges_AreQueuedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := ledBy(7, 0)
		e, start := prepare(t, s, "a")
		changes := e.Changes(t.Context())
		crash := start()
		synctest.Wait()
		s.set(func(t *elector.Term) { t.Leader = conclave.NodeID{} })
		time.Sleep(2 * time.Second)
		require.NoError(t, e.Resign(t.Context()))
		synctest.Wait()
		s.set(func(t *elector.Term) { t.Number, t.Leader, t.Lease = 9, other, 3*time.Second })
		time.Sleep(3 * time.Second)
		crash()

		var got []string
		for change := range changes { // read after everything has happened
			line := change.Term.String()
			if change.Leading {
				line += ", leading"
			}
			got = append(got, line+" "+change.Why)
		}
		assert.Equal(t, []string{
			"term 7 of other@1 ",
			"term 8 of a@1, leading ",
			"term 8 of a@1 resigned",
			"term 8, no leader ",
			"term 9 of other@1 ",
		}, got)
	})
}

func TestChanges_EndWithContextAfterQueuedOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, start := prepare(t, ledBy(7, 0), "a")
		ctx, cancel := context.WithCancel(t.Context())
		changes := e.Changes(ctx)
		start()
		synctest.Wait()
		cancel()
		count := 0
		for range changes {
			count++
		}
		assert.Equal(t, 1, count, "the queued change comes before the end")
	})
}

func TestState_FollowsTheDiagram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		linger := make(chan struct{})
		e, start := prepare(t, s, "a", func(c *elector.Config) {
			c.Observer = true
			c.Lead = func(ctx context.Context, _ elector.Term) error {
				<-ctx.Done()
				<-linger
				return nil
			}
		})
		start()
		state := func() elector.State {
			synctest.Wait()
			return e.State()
		}
		assert.Equal(t, elector.Observing, state())
		require.NoError(t, e.JoinElection(t.Context()))
		assert.Equal(t, elector.Leading, state(), "the free lock is won at once")

		s.set(func(t *elector.Term) { t.Number, t.Leader, t.Lease = 2, other, 3*time.Second })
		e.Wake()
		assert.Equal(t, elector.WindingDown, state(), "deposed, and Lead has not returned")
		linger <- struct{}{}
		assert.Equal(t, elector.Following, state())

		s.set(func(t *elector.Term) { t.Leader = conclave.NodeID{} })
		e.Wake()
		require.Equal(t, elector.Leading, state())
		resigned := make(chan error, 1)
		go func() { resigned <- e.Resign(t.Context()) }()
		assert.Equal(t, elector.Resigning, state())
		time.Sleep(10 * time.Second)
		assert.Equal(t, elector.Resigning, state(), "renewed until Lead has returned")
		close(linger)
		require.NoError(t, <-resigned)
		assert.Equal(t, elector.Observing, state(), "abstains")
		time.Sleep(7 * time.Second)
		assert.Equal(t, elector.Leading, state(), "two leases later it competes again")
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
