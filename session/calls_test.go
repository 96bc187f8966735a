package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestRotateServesEverySlotInTurn(t *testing.T) {
	assert.Equal(t, []int{5, 9, 1, 3}, rotate([]int{1, 3, 5, 9}, 3))
	assert.Equal(t, []int{5, 9, 1, 3}, rotate([]int{1, 3, 5, 9}, 4))
	assert.Equal(t, []int{1, 3, 5, 9}, rotate([]int{1, 3, 5, 9}, 9))
	assert.Equal(t, []int{1, 3, 5, 9}, rotate([]int{1, 3, 5, 9}, -1))
	assert.Empty(t, rotate(nil, 3))
}

func TestBackoff_DoublesAndEndsWithTheRoutes(t *testing.T) {
	p := newBackoff(func() float64 { return 0 })
	now := time.Now()
	var waits []time.Duration
	for range 8 {
		p.failed(1, now)
		waits = append(waits, p.until(1, now).Sub(now))
	}
	ms := time.Millisecond
	assert.Equal(t, []time.Duration{1 * ms, 2 * ms, 4 * ms, 8 * ms, 16 * ms, 32 * ms, 50 * ms, 50 * ms}, waits)
	assert.True(t, p.until(2, now).IsZero())
	p.reset(1)
	assert.True(t, p.until(1, now).IsZero(), "a new table ends all pauses")
	p.failed(1, now)
	p.succeeded(1)
	p.failed(1, now)
	assert.Equal(t, ms, p.until(1, now).Sub(now))
}
