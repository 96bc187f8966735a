package session_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
)

// A session is killed, perhaps with all copies: the SDK's clients register again at
// the other one, and no subscriber misses anything.
func TestReplay_AfterASessionIsKilled(t *testing.T) {
	for _, copiesLost := range []bool{false, true} {
		t.Run(fmt.Sprint("copies lost ", copiesLost), func(t *testing.T) {
			bubble(t, 2, 2, func(t *testing.T, c *cluster) {
				const clients, each = 4, 50
				var pubs []*client.Publication
				var values []string
				var changed *client.Publication
				for i := range clients {
					x := c.client(fmt.Sprint("writer-", i), "session-1")
					for n := range each {
						values = append(values, fmt.Sprint(i, "/", n, strings.Repeat(".", 1000)))
						pubs = append(pubs, c.publish(x, "svc", values[len(values)-1]))
					}
				}
				sub := c.watch(c.client("reader", "session-2"), "svc")
				c.eventually("all are seen", sub.shows(values...))
				changed = pubs[7]
				for _, p := range pubs {
					require.NoError(t, p.Stored(c.ctx))
				}

				if copiesLost {
					kill(c, c.datas["data-1"])
					kill(c, c.datas["data-2"])
				}
				kill(c, c.sessions["session-1"])
				values[7] = "changed" + values[7]
				require.NoError(t, changed.Update([]string{values[7]}))
				if copiesLost {
					c.startData("data-1")
					c.startData("data-2")
				}
				for _, p := range pubs {
					require.NoError(t, p.Stored(c.ctx))
				}
				c.eventually("all are seen", sub.shows(values...))
				time.Sleep(time.Minute) // the lost session's copies have gone
				assert.True(t, sub.shows(values...)())
				neverBelow(t, sub, len(values))
			})
		})
	}
}
