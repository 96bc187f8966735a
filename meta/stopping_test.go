package meta_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/meta/metaclient"
	"conclave/wire"
)

// stopRemaining returns for how long the announcement is still in force at any
// node.
func (c *cluster) stopRemaining() (most time.Duration) {
	for _, n := range c.nodes {
		left, _ := n.view.Stopping()
		most = max(most, left)
	}
	return most
}

// A stop of the whole cluster is recorded by the leader, reaches every node,
// outlives that leader, and ends: by itself, or when it is withdrawn. Writes of
// other switches keep it.
func TestStopping_IsRecordedAndEnds(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(2, 2)
		c.admin.AnnounceStop(t.Context(), nil, 20*time.Second, "me")
		info, err := c.admin.StopAnnounced(t.Context())
		require.NoError(t, err)
		assert.True(t, info.Stopping)
		c.eventually(time.Second, func() bool {
			for _, n := range c.nodes {
				if left, _ := n.view.Stopping(); left == 0 {
					return false
				}
			}
			return true
		})
		_, err = c.admin.SetSwitch(t.Context(), wire.SwitchPushWindow, "25")
		require.NoError(t, err)
		list, err := c.admin.Switches(t.Context())
		require.NoError(t, err)
		for _, s := range list {
			assert.NotEqual(t, wire.SwitchStopping, s.Key)
		}
		_, err = c.admin.SetSwitch(t.Context(), wire.SwitchStopping, "1000000")
		assert.Equal(t, wire.CodeNotFound, wire.CodeOf(err))

		term := c.term()
		c.kill(c.leader().id.Name)
		c.leaderAfter(term)
		assert.Positive(t, c.stopRemaining())
		time.Sleep(21 * time.Second)
		assert.Zero(t, c.stopRemaining(), "each node counts for itself, from the arrival of the record")
		c.eventually(21*time.Second, func() bool { return c.has("stop.ended") })
		late := c.startNode("session-3", "session") // it receives no announcement
		require.NoError(t, late.WaitRegistered(t.Context()))
		assert.Zero(t, c.stopRemaining())

		c.admin.AnnounceStop(t.Context(), nil, time.Minute, "me")
		c.eventually(time.Second, func() bool { return c.stopRemaining() > 50*time.Second })
		require.NoError(t, c.admin.TakeBackStop(t.Context()))
		c.eventually(time.Second, func() bool { return c.stopRemaining() == 0 })
		assert.Equal(t, "25", late.view.State().Switches.Get(wire.SwitchPushWindow, ""))
	})
}

// An announcement from before all processes ended is not in force in the
// cluster that is started after them on the same database.
func TestStopping_IsNotOfTheNextRun(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, c *cluster) {
		c.startNodes(1, 1)
		c.admin.AnnounceStop(t.Context(), nil, 5*time.Minute, "down")
		term := c.term()
		for _, name := range append([]string{"data-1", "session-1"}, c.metaNames()...) {
			c.kill(name)
		}
		for _, name := range c.metaNames() {
			c.startMeta(name)
		}
		c.leaderAfter(term)
		node := c.startNode("data-2", "data")
		require.NoError(t, node.WaitRegistered(t.Context()))
		c.eventually(10*time.Second, func() bool { return c.has("stop.ended") })
		c.eventually(time.Second, func() bool { left, _ := node.view.Stopping(); return left == 0 })
		info, err := c.admin.StopAnnounced(t.Context())
		require.NoError(t, err)
		assert.False(t, info.Stopping)
	})
}

func TestStopping_RefusesWrongBodies(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		for _, body := range []string{`{"forMs": 999}`, `{"forMs": 600001}`, `{"forMs": -1}`, `{"incarnation": "i1"}`, `{"for": "1m"}`, `[]`} {
			res, err := c.peers.HTTP().Post("http://"+c.leader().Address()+"/v1/stopping", "application/json", strings.NewReader(body))
			require.NoError(t, err)
			res.Body.Close()
			assert.Equal(t, http.StatusBadRequest, res.StatusCode, body)
		}
		info, err := c.admin.StopAnnounced(t.Context())
		require.NoError(t, err)
		assert.Equal(t, metaclient.StoppingInfo{}, info)
	})
}
