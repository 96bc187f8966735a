package meta_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/meta/metaclient"
	"conclave/wire"
)

// A configuration value is written under the term, reaches every node, outlives
// its leader, and ends when it is removed. (Article 002: provide data.)
func TestConfig_ReachesEveryNodeAndOutlivesItsLeader(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(1, 2)
		everywhere := func(id, value string, set bool) func() bool {
			return func() bool {
				for _, n := range c.nodes {
					if v, found := n.view.State().Config.Find(id); found != set || v.Value != value {
						return false
					}
				}
				return true
			}
		}
		first, err := c.admin.SetConfig(t.Context(), "limits", "10")
		require.NoError(t, err)
		assert.Equal(t, c.term(), first.Epoch.Term)
		c.eventually(time.Second, everywhere("limits", "10", true))
		again, err := c.admin.SetConfig(t.Context(), "limits", "10")
		require.NoError(t, err)
		assert.Equal(t, first, again, "what is set is not written again")

		term := c.term()
		c.kill(c.leader().id.Name)
		c.leaderAfter(term)
		values, err := c.admin.Config(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []wire.ConfigValue{first}, values)
		second, err := c.admin.SetConfig(t.Context(), "limits", "20")
		require.NoError(t, err)
		assert.True(t, first.Epoch.Less(second.Epoch))
		_, err = c.admin.SetConfig(t.Context(), "colour", "blue")
		require.NoError(t, err)
		c.eventually(time.Second, everywhere("limits", "20", true))
		late := c.startNode("session-3", "session")
		require.NoError(t, late.WaitRegistered(t.Context()))
		c.eventually(time.Second, everywhere("colour", "blue", true))

		require.NoError(t, c.admin.RemoveConfig(t.Context(), "limits"))
		c.eventually(time.Second, everywhere("limits", "", false))
		c.eventually(time.Second, everywhere("colour", "blue", true))
		assert.Equal(t, wire.CodeNotFound, wire.CodeOf(c.admin.RemoveConfig(t.Context(), "limits")))
		assert.True(t, c.has("config.set") && c.has("config.removed"))
	})
}

func TestConfig_RefusesWhatIsInvalidAndChangesNothing(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		c.startNodes(1, 1)
		large := strings.Repeat("v", 16<<10)
		for id, value := range map[string]string{"": "v", "a b": "v", "größe": "v", strings.Repeat("i", 129): "v"} {
			_, err := c.admin.SetConfig(t.Context(), id, value)
			assert.Contains(t, []wire.Code{wire.CodeBadRequest, wire.CodeNotFound}, wire.CodeOf(err), id)
		}
		_, err := c.admin.SetConfig(t.Context(), "large", large+"v")
		assert.Equal(t, wire.CodeTooLarge, wire.CodeOf(err))
		for i := range 63 {
			_, err := c.admin.SetConfig(t.Context(), fmt.Sprint("large-", i), large)
			require.NoError(t, err)
		}
		_, err = c.admin.SetConfig(t.Context(), "large-63", large)
		assert.Equal(t, wire.CodeTooLarge, wire.CodeOf(err), "all of them have a limit, too")
		var effect metaclient.Effect
		_, err = c.admin.SetConfig(t.Context(), "limits", "10", metaclient.DryRun(&effect))
		require.NoError(t, err)
		assert.Contains(t, effect.Effect, "clients that watch limits")
		values, err := c.admin.Config(t.Context())
		require.NoError(t, err)
		assert.Len(t, values, 63)
	})
}
