package load

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "conclave/internal/bubble"
	"conclave/internal/sleep"
	"conclave/testbed"
)

func TestOpenLoop_FiresEachOperationWhenItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		at := map[int]time.Duration{}
		missed := openLoop(t.Context(), 5000, 2*time.Second, 3, func(i int, due time.Time) {
			mu.Lock()
			defer mu.Unlock()
			if _, again := at[i]; again || !due.Equal(start.Add(dueAfter(i, 5000))) {
				t.Errorf("operation %d, due after %s: again %t", i, due.Sub(start), again)
			}
			at[i] = time.Since(due)
		})
		assert.Zero(t, missed)
		require.Len(t, at, 10_000)
		for i, late := range at {
			if late < 0 || late > openTick {
				t.Errorf("operation %d was fired %s after it was due", i, late)
			}
		}
	})
}

// One sender, due each millisecond, that takes ten: the latency of each operation
// includes that the earlier ones were slow.
func TestOpenLoop_LatencyCountsFromTheDueTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		latency := NewDist()
		missed := openLoop(t.Context(), 1000, time.Second, 1, func(_ int, due time.Time) {
			time.Sleep(10 * time.Millisecond)
			latency.Add(time.Since(due))
		})
		v := latency.Values()
		assert.InDelta(t, 100, v.N, 2)
		assert.InDelta(t, 1000-v.N, missed, 0, "what its late sender has not sent is not forgotten")
		assert.InDelta(t, 10, v.Min, 1)
		assert.InDelta(t, 460, v.P50, 20, "the service time is 10 ms")
		assert.InDelta(t, 910, v.Max, 20)
	})
}

func TestOpenLoop_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		start := time.Now()
		missed := openLoop(ctx, 100, time.Hour, 2, func(int, time.Time) {})
		assert.Equal(t, 500*time.Millisecond, time.Since(start))
		assert.InDelta(t, 360_000-50, missed, 2)
	})
}

// slow is a registration whose updates are stored 50 ms after the call of Stored.
type slow struct {
	testbed.Publication
	refuses bool
}

func (s slow) Update([]string) error {
	if s.refuses {
		return errors.New("full")
	}
	return nil
}
func (slow) Stored(ctx context.Context) error { return sleep.For(ctx, 50*time.Millisecond) }

func TestLane_CountsMergedUpdatesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers sync.WaitGroup
		of := newOffered()
		l := &lane{registration: slow{}}
		for range 3 {
			l.fire(t.Context(), of, time.Now(), "v", &answers)
			time.Sleep(20 * time.Millisecond)
		}
		assert.EqualValues(t, 2, of.Open.Load(), "the first is stored after 50 ms")
		answers.Wait()
		v := of.Latency.Values()
		assert.Equal(t, 3, v.N)
		assert.EqualValues(t, 2, of.Answers.Load(), "the second answer is for two updates")
		assert.InDelta(t, 80, v.Max, 0.1, "20 ms to 100 ms: it waited for the first")
		assert.Zero(t, of.Open.Load())

		l.registration = slow{refuses: true}
		l.fire(t.Context(), of, time.Now(), "v", &answers)
		assert.EqualValues(t, 1, of.Refused.Load())
		assert.EqualValues(t, 3, of.Sent.Load())
	})
}

func TestLanes_CapacityIsTheRateOfTheClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := make([]testbed.Publication, 100)
		for i := range made {
			made[i] = slow{}
		}
		rate, err := NewLanes(made).Capacity(t.Context(), 2*time.Second)
		require.NoError(t, err)
		assert.InDelta(t, 2000, rate, 60, "100 loops of 50 ms")
		made[7] = slow{refuses: true}
		_, err = NewLanes(made).Capacity(t.Context(), time.Second)
		assert.ErrorContains(t, err, "full")
	})
}

func TestLanes_RecoveryIsWhenTheRateIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := make([]testbed.Publication, 100)
		for i := range made {
			made[i] = slow{}
		}
		lanes := NewLanes(made)
		of, missed := lanes.Offer(t.Context(), 100, 5*time.Second)
		assert.Zero(t, missed)
		assert.InDelta(t, 100, of.Rate(), 3)
		took, err := lanes.Recovery(t.Context(), 100, of.Rate())
		require.NoError(t, err)
		assert.Zero(t, took)
		began := time.Now()
		_, err = lanes.Recovery(t.Context(), 100, 200)
		assert.ErrorIs(t, err, errNotRecovered)
		assert.InDelta(t, recoveryLimit, time.Since(began), float64(3*time.Second))
		lanes.Wait()
	})
}
