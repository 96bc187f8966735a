package consul

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/mux"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "conclave/internal/bubble"
)

// slowCluster holds one value, and takes a second for each withdrawal.
type slowCluster struct {
	Cluster
	version int64
	value   string // "": withdrawn
}

func (c *slowCluster) Register(_ context.Context, _ Caller, _, _, value string, _ time.Duration) (int64, error) {
	c.version++
	c.value = value
	return c.version, nil
}

func (c *slowCluster) Renew(context.Context, Caller, string, string, int64) error { return nil }

func (c *slowCluster) Deregister(context.Context, Caller, string, string) error {
	c.value = ""
	time.Sleep(time.Second)
	return nil
}

func (c *slowCluster) Next(ctx context.Context, _ Caller, _ string, have List) (List, error) {
	if have.Version > 0 {
		<-ctx.Done()
		return have, ctx.Err()
	}
	return List{Version: 1}, nil
}

// An update that arrives while its service is deregistered does not bring it back, and one
// beside a maintenance does not end that.
func TestAgents_ActsOnOneServiceFollowOneAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, router := &slowCluster{}, mux.NewRouter()
		New(Config{Cluster: cluster, Lease: 10 * time.Second, Now: time.Now}).Add(router)
		put := func(path, body string) int {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, path, strings.NewReader(body))
			router.ServeHTTP(w, r)
			return w.Code
		}
		require.Equal(t, http.StatusOK, put("/v1/agent/service/register", `{"Name": "web", "Address": "10.0.0.1", "Port": 80, "Check": {"TTL": "9s"}}`))
		require.Equal(t, http.StatusOK, put("/v1/agent/service/maintenance/web?enable=true&reason=disk", ""))
		require.Equal(t, http.StatusOK, put("/v1/agent/check/pass/service:web", ""))
		require.Contains(t, cluster.value, "disk")
		require.Equal(t, http.StatusBadRequest, put("/v1/agent/service/register", `{"Name": "b", "Check": {"TTL": "9s", "CheckID": "service:web"}}`))

		ended := make(chan int, 1)
		go func() { ended <- put("/v1/agent/service/deregister/web", "") }()
		synctest.Wait()
		assert.Equal(t, http.StatusNotFound, put("/v1/agent/check/warn/service:web", ""))
		assert.Equal(t, http.StatusOK, <-ended)
		assert.Empty(t, cluster.value)
	})
}

func TestParseAll_ShowsEachInstanceOnce(t *testing.T) {
	all := parseAll("web", []string{
		`critical 10.0.0.1:80 {"id":"a","maintenance":"x"}`, `10.0.0.1:80 {"id":"a"}`, `10.0.0.1:80 {"id":"a","status":"warning"}`,
		`10.0.0.1:81 {"id":"a"}`, `10.0.0.2:80 {"id":"a"}`,
	})
	require.Len(t, all, 3)
	assert.Equal(t, []int{80, 81, 80}, []int{all[0].Port, all[1].Port, all[2].Port})
	assert.Equal(t, passing, all[0].health())
}
