package consul

import (
	"context"
	"fmt"
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
	"conclave/internal/sleep"
	"conclave/wire/admit"
	"conclave/wire/list"
	"conclave/wire/serve"
)

// slowCluster holds one value, and takes a second for each withdrawal.
type slowCluster struct {
	Cluster
	value  string   // "": withdrawn
	left   []string // services that were withdrawn
	others []string // that others have registered
	away   bool     // the data nodes are: each change waits for them
	reads  int
}

// Put answers by a time, as a session does.
func (c *slowCluster) Put(ctx context.Context, _ serve.Caller, service, _, value string, ttl time.Duration) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.value = value
	if ttl == 0 {
		c.value, c.left = "", append(c.left, service)
		time.Sleep(time.Second)
	}
	if c.away {
		_ = sleep.For(ctx, 1500*time.Millisecond)
	}
	return nil
}

// Services has the instance of one service, and takes a second to return it.
func (c *slowCluster) Services(_ context.Context, take func(string, []string) error) error {
	value := c.value
	c.reads++
	time.Sleep(time.Second)
	return take("web", []string{value})
}

func (c *slowCluster) Next(context.Context, serve.Caller, string, List, time.Duration) (List, error) {
	return List{Version: 1, List: list.New(c.others, nil, 0)}, nil
}

func newServer(cluster Cluster) *Server {
	return New(Config{Cluster: cluster, ReadWait: 5 * time.Second, Now: time.Now, Sending: func(http.ResponseWriter, *http.Request, int) (*admit.Turn, error) { return nil, nil }, Answering: func(answer func(http.ResponseWriter, *http.Request) error) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := answer(w, r); err != nil {
				serve.WriteError(w, err)
			}
		})
	}})
}

// putting returns a function that sends a PUT request from an address to a server.
func putting(t *testing.T, s *Server) func(from, path, body string) int {
	router := mux.NewRouter()
	s.Add(router)
	return func(from, path, body string) int {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, path, strings.NewReader(body))
		r.RemoteAddr = from
		router.ServeHTTP(w, r)
		return w.Code
	}
}

// impatient sends a PUT request whose client waits for a second.
func impatient(t *testing.T, s *Server, path, body string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	router, w := mux.NewRouter(), httptest.NewRecorder()
	s.Add(router)
	r := httptest.NewRequestWithContext(ctx, http.MethodPut, path, strings.NewReader(body))
	r.RemoteAddr = "10.0.0.1:1"
	router.ServeHTTP(w, r)
}

const registerPath = "/v1/agent/service/register"

// An update that arrives while its service is deregistered does not bring it back, and one
// beside a maintenance does not end that.
func TestAgents_ActsOnOneServiceFollowOneAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := &slowCluster{}
		send := putting(t, newServer(cluster))
		put := func(path, body string) int { return send("10.0.0.1:1", path, body) }
		require.Equal(t, http.StatusOK, put(registerPath, `{"Name": "web", "Address": "10.0.0.1", "Port": 80, "Check": {"TTL": "9s"}}`))
		require.Equal(t, http.StatusOK, put("/v1/agent/service/maintenance/web?enable=true&reason=disk", ""))
		require.Equal(t, http.StatusOK, put("/v1/agent/check/pass/service:web", ""))
		require.Contains(t, cluster.value, "disk")
		require.Equal(t, http.StatusBadRequest, put(registerPath, `{"Name": "b", "Check": {"TTL": "9s", "CheckID": "service:web"}}`))

		ended := make(chan int, 1)
		go func() { ended <- put("/v1/agent/service/deregister/web", "") }()
		synctest.Wait()
		assert.Equal(t, http.StatusNotFound, put("/v1/agent/check/warn/service:web", ""))
		assert.Equal(t, http.StatusOK, <-ended)
		assert.Empty(t, cluster.value)
	})
}

// An update that the session has taken is kept, also if it was not answered, because its
// client did not wait for the data nodes.
func TestAgents_UnansweredUpdateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := &slowCluster{}
		s := newServer(cluster)
		put := putting(t, s)
		require.Equal(t, http.StatusOK, put("10.0.0.1:1", registerPath, `{"Name": "web", "Port": 80, "Check": {"TTL": "1m"}}`))
		cluster.away = true
		impatient(t, s, "/v1/agent/check/pass/service:web", "")
		kept := s.agents.find(serve.Caller{Address: "10.0.0.1:1"}, "service", "web")
		assert.Equal(t, passing, kept.Status)
		assert.Greater(t, time.Until(kept.until), 58*time.Second)
	})
}

// A service that the session has withdrawn is not registered again by its next update,
// though the client did not wait for the data nodes.
func TestAgents_UnansweredDeregistrationIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := &slowCluster{}
		s := newServer(cluster)
		put := putting(t, s)
		require.Equal(t, http.StatusOK, put("10.0.0.1:1", registerPath, `{"Name": "web", "Port": 80, "Check": {"TTL": "1m"}}`))
		cluster.away = true
		impatient(t, s, "/v1/agent/service/deregister/web", "")
		cluster.away = false
		assert.Equal(t, http.StatusNotFound, put("10.0.0.1:1", "/v1/agent/check/pass/service:web", ""))
		assert.Empty(t, cluster.value)
	})
}

// A service that gets another name is not kept under the old one, though its client did not
// wait for the data nodes.
func TestAgents_UnansweredMoveLeavesTheOldName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := &slowCluster{}
		s := newServer(cluster)
		require.Equal(t, http.StatusOK, putting(t, s)("10.0.0.1:1", registerPath, `{"ID": "1", "Name": "web", "Port": 80, "Check": {"TTL": "1m"}}`))
		cluster.away = true
		impatient(t, s, registerPath, `{"ID": "1", "Name": "shop", "Port": 80, "Check": {"TTL": "1m"}}`)
		assert.Equal(t, []string{"web"}, cluster.left)
	})
}

// A request whose client has left begins no second reading of all services.
func TestCatalog_ReadsNothingMoreForAClientThatHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := &slowCluster{value: "10.0.0.1:80"}
		all := newServer(cluster).catalog
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, err := all.read(t.Context(), 0)
			assert.NoError(t, err)
		}()
		time.Sleep(500 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := all.read(ctx, 0)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		<-read
		assert.Equal(t, 1, cluster.reads)
	})
}

// A reading of all services that has begun before a request is not its answer: its client
// may have registered since.
func TestCatalog_HasWhatWasRegisteredBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := &slowCluster{value: "10.0.0.1:80"}
		all := newServer(cluster).catalog
		early := make(chan *snapshot, 1)
		go func() {
			now, err := all.read(t.Context(), 0)
			assert.NoError(t, err)
			early <- now
		}()
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		cluster.value = "10.0.0.1:81"
		late, err := all.read(t.Context(), 0)
		require.NoError(t, err)
		assert.Equal(t, 81, late.instances[0].Port)
		assert.Equal(t, 80, (<-early).instances[0].Port)
	})
}

// What has lapsed is kept for programs that are late, but not of any number of agents.
func TestAgents_LapsedServicesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(&slowCluster{})
		put := putting(t, s)
		more := strings.Repeat("x", 50_000)
		const many = 1000
		for i := range many {
			body := fmt.Sprintf(`{"Name": "web", "Port": 80, "Meta": {"more": %q}, "Check": {"TTL": "1s"}}`, more)
			require.Equal(t, http.StatusOK, put(fmt.Sprintf("10.0.%d.%d:1", i/256, i%256), registerPath, body))
		}
		time.Sleep(5 * time.Second)
		put("10.1.0.1:1", "/v1/agent/check/pass/service:none", "") // any request
		kept, bytes := 0, 0
		s.agents.mu.Lock()
		defer s.agents.mu.Unlock()
		for _, all := range s.agents.of {
			for _, e := range all {
				kept, bytes = kept+1, bytes+len(e.Meta["more"])
			}
		}
		assert.Less(t, bytes, 40<<20)
		assert.Greater(t, kept, many/10)
	})
}

// Each of thousands that register under one name looks whether it was there before; what
// the others have is not parsed for that.
func TestAgents_RegistrationParsesNoOthers(t *testing.T) {
	cluster := &slowCluster{others: []string{`10.0.0.1:80 {"id":"web","tags":["v1"],"meta":{"zone":"a"}}`}}
	for i := range 10_000 {
		cluster.others = append(cluster.others, fmt.Sprintf(`10.1.%d.%d:80 {"id":"web","tags":["v1"],"meta":{"zone":"a"}}`, i/256, i%256))
	}
	s := newServer(cluster)
	put := putting(t, s)
	from := 0
	assert.Less(t, testing.AllocsPerRun(10, func() {
		from++ // another agent
		require.Equal(t, http.StatusOK, put(fmt.Sprintf("10.2.0.%d:1", from), registerPath, `{"Name": "web", "Address": "10.0.0.1", "Port": 80, "Check": {"TTL": "9s"}}`))
	}), 1000.0)
	in, _ := Parse("web", cluster.value)
	assert.Equal(t, passing, in.Status, "as it was")
}

// Behind a proxy an agent has thousands of services; an update of one looks at no other.
func TestAgents_UpdateLooksAtNoOthers(t *testing.T) {
	put := putting(t, newServer(&slowCluster{}))
	for i := range 2000 {
		body := fmt.Sprintf(`{"ID": "web-%d", "Name": "web", "Port": 80, "Check": {"TTL": "9s"}}`, i)
		require.Equal(t, http.StatusOK, put("10.0.0.1:1", registerPath, body))
	}
	assert.Less(t, testing.AllocsPerRun(10, func() {
		require.Equal(t, http.StatusOK, put("10.0.0.1:1", "/v1/agent/check/pass/service:web-77", ""))
	}), 500.0)
}

// What is remembered of lists is bounded, however long their names are and however many
// publishers they have, and a list that changes all the time costs no other one its place.
func TestLists_RememberedBytesAreCounted(t *testing.T) {
	l := New(Config{}).lists
	l.remember("first", List{1, list.New(nil, nil, 0)}, false)
	large := list.New([]string{strings.Repeat("x", 1<<20)}, nil, 0)
	for i := range 100 {
		l.remember("large", List{int64(i + 1), large}, false)
	}
	assert.NotNil(t, l.known["first"].List)
	many := list.New(nil, make([]uint32, 1000), 1)
	for i := range 40_000 {
		l.remember(fmt.Sprintf("%0200d", i), List{1, many}, false)
		require.LessOrEqual(t, len(l.known)*(200+many.Bytes()), knownMost)
	}
}

func TestParseAll_ShowsEachInstanceOnce(t *testing.T) {
	all := parseAll("web", []string{
		`critical 10.0.0.1:80 {"id":"a","maintenance":"x"}`, `10.0.0.1:80 {"id":"a"}`, `10.0.0.1:80 {"id":"a","status":"warning"}`,
		`10.0.0.1:81 {"id":"a"}`, `10.0.0.2:80 {"id":"a"}`,
	}, query{})
	require.Len(t, all, 3)
	assert.Equal(t, []int{80, 81, 80}, []int{all[0].Port, all[1].Port, all[2].Port})
	assert.Equal(t, passing, all[0].health())
}
