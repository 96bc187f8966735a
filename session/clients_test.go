package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A suspended session starts the leases of broken connections again, even if
// that happens often, but not for ever if their clients have had time to come
// back.
func TestLeases_AreNotRenewedForEver(t *testing.T) {
	const linger = 5 * time.Second
	suspensions := func(ran time.Duration) (n int) {
		c, now := newClients(15*time.Second), time.Unix(0, 0)
		conn := &connection{linger: linger}
		c.open[conn], c.empty = struct{}{}, make(chan struct{})
		c.release(conn, true, false, now)
		for ; n < 100; n++ {
			c.addRunTime(ran)
			now = now.Add(ran + 3*time.Second)
			c.renew(now)
			if over, _ := c.expired(now.Add(linger - 1)); len(over) > 0 {
				break
			}
		}
		return n
	}
	assert.Equal(t, 100, suspensions(100*time.Millisecond), "it has run for two leases only")
	assert.Equal(t, 3, suspensions(4*time.Second))
}
