package session_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
)

// names returns the names of all services that begin with a prefix, read in pages.
func (x curl) names(session, prefix string, limit int, between func()) (names []string) {
	for path := fmt.Sprintf("/v1/services?prefix=%s&limit=%d", url.QueryEscape(prefix), limit); path != ""; between() {
		a := x.do(http.MethodGet, session, path, "")
		require.Equal(x.c.t, http.StatusOK, a.status, "%v", a.doc)
		rows := a.doc["services"].([]any)
		require.LessOrEqual(x.c.t, len(rows), limit)
		for _, row := range rows {
			names = append(names, row.(map[string]any)["dataId"].(string))
		}
		path, _ = a.doc["next"].(string)
		assert.Equal(x.c.t, path != "", a.header.Get("Link") != "")
	}
	return names
}

// All pages together have each service that is there all the time, once, in order, while
// others come and go, and slots move.
func TestServices_PagesAreComplete(t *testing.T) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		writer, web := c.client("writer"), c.web()
		var want []string
		var all []*client.Publication
		for i := range 60 {
			want = append(want, fmt.Sprintf("a/%03d ü", i))
			all = append(all, c.publish(writer, want[i], "x"))
		}
		for _, p := range all {
			require.NoError(t, p.Stored(c.ctx))
		}
		other := c.published(writer, "b", "x")
		nothing := func() {}
		assert.Equal(t, want, web.names("session-1", "a/", 7, nothing))
		assert.Len(t, web.names("session-1", "", 1000, nothing), 61)
		assert.Empty(t, web.names("session-1", "none", 10, nothing))
		round := 0
		names := web.names("session-1", "a/", 5, func() {
			c.published(writer, fmt.Sprintf("a/%03d-%d", round*5, round), "x")
			require.NoError(t, other.Withdraw())
			if round++; round == 3 {
				kill(c, c.datas["data-3"])
				time.Sleep(time.Second)
			}
		})
		var kept []string
		for _, n := range names {
			if strings.HasSuffix(n, "ü") {
				kept = append(kept, n)
			}
		}
		assert.Equal(t, want, kept)
		assert.IsIncreasing(t, names)
		for _, bad := range []string{"limit=0", "limit=1001", "limit=x", "after=" + strings.Repeat("x", 5000)} {
			assert.Equal(t, http.StatusBadRequest, web.do(http.MethodGet, "session-1", "/v1/services?"+bad, "").status, bad)
		}
		kill(c, c.datas["data-1"])
		kill(c, c.datas["data-2"])
		assert.Equal(t, http.StatusServiceUnavailable, web.do(http.MethodGet, "session-1", "/v1/services", "").status)
		start, took := time.Now(), make(chan time.Duration, 6) // catalogEach are merged at a time for one address
		for range 6 {
			go func() {
				a, err := web.try(http.MethodGet, "session-1", "/v1/services", "")
				assert.NoError(t, err)
				assert.Equal(t, http.StatusServiceUnavailable, a.status)
				assert.Equal(t, "1", a.header.Get("Retry-After"))
				took <- time.Since(start)
			}()
		}
		beside := curl{c: c, host: "other"}.do(http.MethodGet, "session-1", "/v1/services", "")
		assert.Contains(t, beside.doc["detail"], "not complete", "it has a place, and waits")
		atOnce := 0
		for range 6 {
			if <-took < time.Second {
				atOnce++
			}
		}
		assert.Equal(t, 4, atOnce)
	})
}
