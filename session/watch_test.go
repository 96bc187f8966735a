package session_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/wire"
)

// watcher collects what a watch of a configuration value shows.
type watcher struct {
	*client.Watch
	seen []string
}

func (c *cluster) watcher(x *client.Client, id string) *watcher {
	w, err := x.Watch(id)
	require.NoError(c.t, err)
	return &watcher{Watch: w}
}

// saw returns a condition: these values were shown, in this order.
func (w *watcher) saw(values ...string) func() bool {
	return func() bool {
		for len(w.C()) > 0 {
			if v, open := <-w.C(); open {
				w.seen = append(w.seen, fmt.Sprintf("%s %t", v.Value, v.Set))
			}
		}
		return slices.Equal(w.seen, values)
	}
}

// What an operator sets reaches the clients that watch it, at each session, and
// those that come later; a client that moves to another session sees it once.
// (Article 002: provide data.)
func TestWatch_ValuesReachTheClients(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		x := c.client("b", "session-2")
		a, b, other := c.watcher(c.client("a", "session-1"), "limits"), c.watcher(x, "limits"), c.watcher(x, "other")
		for _, w := range []*watcher{a, b, other} {
			c.eventually("there is none", w.saw(" false"))
		}
		c.meta.setConfig(wire.ConfigValue{ID: "limits", Value: "10"})
		c.eventually("it is set", a.saw(" false", "10 true"))
		c.eventually("it is set", b.saw(" false", "10 true"))
		c.meta.setConfig(wire.ConfigValue{ID: "limits", Value: "20"}, wire.ConfigValue{ID: "unwatched", Value: "1"})
		c.eventually("it is changed", a.saw(" false", "10 true", "20 true"))
		late := c.watcher(c.client("c", "session-1"), "limits")
		c.eventually("a later client has it", late.saw("20 true"))
		c.unplug("a")
		time.Sleep(5 * time.Second)
		assert.True(t, a.saw(" false", "10 true", "20 true")(), "the same value at a new connection is no change")

		c.eventually("b has it, too", b.saw(" false", "10 true", "20 true"))
		b.Close()
		c.meta.setConfig()
		c.eventually("it is removed", late.saw("20 true", " false"))
		c.eventually("it is removed", a.saw(" false", "10 true", "20 true", " false"))
		time.Sleep(time.Second)
		assert.True(t, other.saw(" false")())
		assert.Len(t, b.seen, 3, "it watches no more")
	})
}
