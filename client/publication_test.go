package client

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Who waits until data has a version is not woken when a session accepts it: with
// many updates in progress that would be every second wake-up.
func TestProgress_EachKindWakesItsOwn(t *testing.T) {
	c, err := New(Config{Sessions: []string{"a:1"}})
	require.NoError(t, err)
	p, err := c.Publish(t.Context(), "a", []string{"v"})
	require.NoError(t, err)
	wait := func() (accepted, stored chan struct{}) {
		p.accepted.changed, p.stored.changed = make(chan struct{}), make(chan struct{})
		return p.accepted.changed, p.stored.changed
	}
	closed := func(c chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}

	accepted, stored := wait()
	p.acknowledge(1, 0, nil)
	assert.True(t, closed(accepted))
	assert.False(t, closed(stored))

	p.acknowledge(1, 0, nil) // again: no news
	accepted, stored = wait()
	p.acknowledge(0, 1, nil)
	assert.False(t, closed(accepted), "it was accepted before")
	assert.True(t, closed(stored))

	accepted, stored = wait()
	p.acknowledge(0, 0, errors.New("refused"))
	assert.True(t, closed(accepted) && closed(stored), "a refusal wakes both")
}
