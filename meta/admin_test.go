package meta_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each list of a meta has pages, also at a node that forwards to the leader.
func TestAdmin_ListsHavePages(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(3, 2)
		for _, name := range []string{"data-1", "data-2"} {
			require.NoError(t, c.admin.Forbid(t.Context(), name, "test", "me"))
		}
		for _, id := range []string{"c", "a", "b"} {
			_, err := c.admin.SetConfig(t.Context(), id, "v")
			require.NoError(t, err)
		}
		for range 2 {
			term := c.term()
			c.kill(c.leader().id.Name)
			c.leaderAfter(term)
			for _, name := range c.metaNames() {
				if c.metas[name] == nil {
					c.startMeta(name)
				}
			}
		}
		last := c.term()
		c.eventually(20*time.Second, func() bool { // a leader records its election after it has begun to lead
			all, err := c.admin.Elections(c.t.Context())
			return err == nil && len(all) > 0 && all[0].Term == last
		})
		get := func(m *metaNode, path string) (rows []any, next string, status int) {
			res, err := c.peers.HTTP().Get("http://" + m.Address() + path)
			require.NoError(t, err)
			defer res.Body.Close()
			var body any
			require.NoError(t, json.NewDecoder(res.Body).Decode(&body))
			switch b := body.(type) {
			case []any:
				rows = b
			case map[string]any:
				rows, _ = b["slots"].([]any)
			}
			next, _ = strings.CutSuffix(strings.TrimPrefix(res.Header.Get("Link"), "<"), `>; rel="next"`)
			return rows, next, res.StatusCode
		}
		for _, m := range []*metaNode{c.leader(), c.someFollower()} {
			for _, path := range []string{"/v1/elections", "/v1/slots", "/v1/nodes", "/v1/blacklist", "/v1/switches", "/v1/config"} {
				whole, next, status := get(m, path)
				require.Equal(t, http.StatusOK, status)
				assert.Empty(t, next)
				require.Greater(t, len(whole), 1, path)
				var rows []any
				pages := 0
				for next = path + "?limit=1"; next != ""; pages++ {
					var page []any
					page, next, status = get(m, next)
					require.Equal(t, http.StatusOK, status)
					rows = append(rows, page...)
				}
				assert.Len(t, rows, len(whole), path)
				assert.Equal(t, len(whole), pages, path)
				for _, bad := range []string{"?limit=0", "?limit=x", "?limit=10001"} {
					_, _, status = get(m, path+bad)
					assert.Equal(t, http.StatusBadRequest, status, path+bad)
				}
			}
			for _, path := range []string{"/v1/elections?after=x", "/v1/slots?after=-1"} {
				_, _, status := get(m, path)
				assert.Equal(t, http.StatusBadRequest, status, path)
			}
		}
	})
}
