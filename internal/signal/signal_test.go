package signal_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	_ "conclave/internal/bubble"
	"conclave/internal/signal"
)

func taken(s signal.Signal) bool {
	select {
	case <-s.C():
		return true
	default:
		return false
	}
}

func TestSignal_StaysSetUntilTaken(t *testing.T) {
	s := signal.New()
	assert.False(t, taken(s), "a new signal is not set")
	for range 3 {
		s.Set() // would block if it waited for a receiver
	}
	assert.True(t, taken(s))
	assert.False(t, taken(s), "three settings are taken as one")
	s.Set()
	assert.True(t, taken(s))
}

func TestBroadcast_WakesAllWhoWait(t *testing.T) {
	var b signal.Broadcast
	b.Notify() // no goroutine waits
	first, second := b.Next(), b.Next()
	select {
	case <-first:
		t.Error("an earlier notification is not remembered")
	default:
	}
	b.Notify()
	<-first
	<-second
	select {
	case <-b.Next():
		t.Error("a notification counts once")
	default:
	}
}

// All that wait are woken at the same moment, an interval after the last one, also if
// none has waited for some intervals, or by a tick that a long round has missed.
func TestTicks_WakeAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ticks := signal.NewTicks(time.Second, rand.New(rand.NewPCG(1, 2)))
		<-ticks.Next()
		first := time.Now()
		woken := make(chan time.Duration, 6)
		for range 2 {
			go func() {
				for range 3 {
					<-ticks.Next()
					woken <- time.Since(first)
				}
			}()
			time.Sleep(300 * time.Millisecond)
		}
		for n := range 6 {
			assert.Equal(t, time.Duration(n/2+1)*time.Second, <-woken)
		}
		time.Sleep(5*time.Second + 300*time.Millisecond)
		due := ticks.Next()
		time.Sleep(2 * time.Second) // a long round
		<-due
		assert.Equal(t, 10*time.Second+300*time.Millisecond, time.Since(first), "the tick was not missed")
		<-ticks.Next()
		assert.Equal(t, 11*time.Second, time.Since(first))
	})
}

// Nodes that start together do not tick together.
func TestTicks_HaveAnOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, offsets := time.Now(), map[time.Duration]bool{}
		for seed := range uint64(3) {
			<-signal.NewTicks(time.Second, rand.New(rand.NewPCG(seed, 0))).Next()
			offsets[time.Since(began)%time.Second] = true
		}
		assert.Len(t, offsets, 3)
		assert.Less(t, time.Since(began), 3*time.Second, "the first tick is within an interval")
	})
}
