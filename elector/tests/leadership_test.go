package elector_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector"
)

// recording is a strategy whose wins name the previous leader and whose record takes
// a while.
type recording struct{ strategy }

func (s recording) Round(ctx context.Context, me elector.Candidate, last elector.Term) (elector.Term, error) {
	t, err := s.strategy.Round(ctx, me, last)
	t.Previous = other
	return t, err
}

func (s recording) Record(_ context.Context, won elector.Term) (elector.Term, error) {
	time.Sleep(100 * time.Millisecond)
	return won, nil
}

func TestLead_DoesNotWaitForTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		var leads time.Time
		began := time.Now()
		_, _ = run(t, s, "a", func(c *elector.Config) {
			c.Strategy = recording{strategy{s}}
			c.Lead = func(ctx context.Context, _ elector.Term) error {
				leads = time.Now()
				<-ctx.Done()
				return nil
			}
		})
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, began, leads)
	})
}

// unrecorded is a strategy whose record fails, and which names no previous leader.
type unrecorded struct {
	strategy
	records *[]time.Time
}

func (s unrecorded) Record(_ context.Context, won elector.Term) (elector.Term, error) {
	*s.records = append(*s.records, time.Now())
	return won, errBroken
}

func TestRecord_FailureIsRepeatedAfterTheFirstRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		var records []time.Time
		_, crash := run(t, s, "a", func(c *elector.Config) { c.Strategy = unrecorded{strategy{s}, &records} })
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		require.ErrorIs(t, crash(), context.Canceled)
		require.Len(t, s.rounds, 2)
		require.Len(t, records, 2)
		assert.Equal(t, s.rounds, records, "once with the win, and once with the renewal")
	})
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

// failing starts a lone node whose Lead returns err at once, and returns when it was
// called, and how Run ended, within half a minute.
func failing(t *testing.T, s *store, err error, options ...func(*elector.Config)) (calls []time.Duration, e *elector.Elector, ended error) {
	began := time.Now()
	e, crash := run(t, s, "a", append(options, func(c *elector.Config) {
		c.Lead = func(context.Context, elector.Term) error {
			calls = append(calls, time.Since(began))
			return err
		}
	})...)
	time.Sleep(30 * time.Second)
	ended = crash()
	return calls, e, ended
}

func TestLead_FailureIsCountedAndBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, e, _ := failing(t, &store{}, errBroken)
		assert.Len(t, calls, 5, "each two leases")
		assert.EqualValues(t, 5, e.Stats().LeadFailed)
	})
	synctest.Test(t, func(t *testing.T) {
		calls, e, _ := failing(t, &store{}, errBroken, func(c *elector.Config) { c.Backoff = 12 * time.Second })
		assert.Len(t, calls, 3)
		assert.EqualValues(t, 3, e.Stats().LeadFailed)
	})
}

// Two nodes at which a task always fails hand it to each other, but not without a pause.
func TestLead_FailureOfAllNodesBacksOff(t *testing.T) {
	for _, err := range []error{errBroken, fmt.Errorf("write: %w", elector.ErrDeposed), context.Canceled} {
		synctest.Test(t, func(t *testing.T) {
			s := &store{}
			var calls atomic.Int32
			for _, name := range []string{"a", "b"} {
				run(t, s, name, func(c *elector.Config) {
					c.Lead = func(context.Context, elector.Term) error { calls.Add(1); return err }
				})
			}
			time.Sleep(30 * time.Second)
			assert.InDelta(t, 10, calls.Load(), 2, "each node once in two leases, for %v", err)
		})
	}
}

// An error by which a task reports that its term has ended does not stop Run. While this
// node knows nothing of that, it backs off: the task may be wrong, as with a fence of
// another lock.
func TestLead_ErrorOfALostTermStopsNothing(t *testing.T) {
	for what, test := range map[string]struct {
		err           error
		calls, failed int
	}{
		"deposed":   {fmt.Errorf("write: %w", elector.ErrDeposed), 3, 3},
		"cancelled": {context.Canceled, 3, 3},
		"none":      {nil, 5, 0},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls, e, ended := failing(t, &store{}, test.err, func(c *elector.Config) { c.StopOnError, c.Backoff = true, 12*time.Second })
				assert.Len(t, calls, test.calls)
				assert.EqualValues(t, test.failed, e.Stats().LeadFailed)
				assert.ErrorIs(t, ended, context.Canceled)
			})
		})
	}
}

func TestRun_ReturnsErrorOfLeadIfAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		calls, e, ended := failing(t, s, errBroken, func(c *elector.Config) { c.StopOnError = true })
		assert.Len(t, calls, 1)
		require.ErrorIs(t, ended, errBroken)
		assert.ErrorContains(t, ended, "term 1")
		assert.Zero(t, s.term.Leader, "handed over")
		require.NoError(t, e.Shutdown(t.Context()))
	})
}
