package signal_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

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
