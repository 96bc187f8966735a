package live

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave/testbed/check"
)

func TestMeter_CountsTheFirstPushOfEachValueToEachSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeter()
		m.second(time.Now(), 0)
		m.note(check.Op{Kind: check.OpPublish, Values: []string{"client-1/1#1"}})
		time.Sleep(5 * time.Millisecond)
		m.note(check.Op{Kind: check.OpPush, Client: "client-2", Values: []string{"client-1/1#1"}})
		m.note(check.Op{Kind: check.OpPush, Client: "client-2", Values: []string{"client-1/1#1", "other"}}) // again: it is no news
		time.Sleep(15 * time.Millisecond)
		m.note(check.Op{Kind: check.OpPush, Client: "client-3", Values: []string{"client-1/1#1"}})
		time.Sleep(980 * time.Millisecond)
		m.second(time.Now(), 2)
		updates, pushes, points := m.show()
		assert.InDelta(t, 1, updates, 0.01)
		assert.InDelta(t, 3, pushes, 0.01)
		last := points["946684801"] // bubbles begin in the year 2000
		assert.InDelta(t, 5, last.P50, 0.001)
		assert.InDelta(t, 20, last.P99, 0.001)
		assert.Equal(t, 2, last.Missing)
	})
}

func TestMeter_ForgetsOldSecondsAndValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeter()
		for range pointsKept + 10 {
			m.note(check.Op{Kind: check.OpPublish, Values: []string{time.Now().String()}})
			time.Sleep(time.Second)
			m.second(time.Now(), 0)
		}
		_, _, points := m.show()
		assert.Len(t, points, pointsKept)
		assert.LessOrEqual(t, len(m.began), int(2*valueKept/time.Second)+1)
	})
}
