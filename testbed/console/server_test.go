package console

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/console/journal"
)

// actor shows nothing, and notes what it was asked to do.
type actor struct {
	acts Acts
	mu   sync.Mutex // guards done
	done []Request
}

func (a *actor) Run(ctx context.Context, _ *Hub) error {
	<-ctx.Done()
	return nil
}

func (a *actor) Explain(context.Context, Request) (string, error)     { return "it would", nil }
func (a *actor) Why(context.Context, Request) ([]journal.Link, error) { return nil, nil }
func (a *actor) List(context.Context, Request) (Listing, error)       { return Listing{}, nil }
func (a *actor) Acts() Acts                                           { return a.acts }
func (a *actor) Act(_ context.Context, r Request) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done = append(a.done, r)
	return nil
}

func post(t *testing.T, c *http.Client, url, body string, header map[string]string) int {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	for k, v := range header {
		r.Header.Set(k, v)
	}
	res, err := c.Do(r)
	require.NoError(t, err)
	res.Body.Close()
	return res.StatusCode
}

func get(t *testing.T, c *http.Client, url string) int {
	t.Helper()
	res, err := c.Get(url)
	require.NoError(t, err)
	res.Body.Close()
	return res.StatusCode
}

func TestServer_OnlyTheHolderOfTheLinkActs(t *testing.T) {
	a := &actor{acts: Holder}
	s := NewServer(Config{Source: a})
	server := httptest.NewServer(s)
	defer server.Close()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	c := &http.Client{Jar: jar}
	const kill = `{"do":"kill","node":"meta-1"}`
	act := server.URL + "/v1/act"

	assert.Equal(t, http.StatusOK, get(t, c, server.URL+"/"), "watching needs nothing")
	assert.Equal(t, http.StatusForbidden, post(t, c, act, kill, nil))
	assert.Equal(t, http.StatusForbidden, post(t, c, server.URL+"/v1/explain", kill, nil))
	old := s.Link()
	link := s.Link()
	assert.Equal(t, http.StatusForbidden, get(t, c, server.URL+old), "a newer one makes it void")
	assert.Equal(t, http.StatusForbidden, get(t, c, server.URL+"/open/x"))
	assert.Equal(t, http.StatusOK, get(t, c, server.URL+link))
	assert.Equal(t, http.StatusForbidden, get(t, http.DefaultClient, server.URL+link), "it is good once")
	assert.Equal(t, http.StatusForbidden, post(t, http.DefaultClient, act, kill, nil))
	assert.Equal(t, http.StatusOK, post(t, c, act, kill, nil))
	assert.Len(t, a.done, 1)

	for name, header := range map[string]map[string]string{
		"another site": {"Sec-Fetch-Site": "cross-site"}, "another port of this host": {"Sec-Fetch-Site": "same-site"}, "an old browser": {"Origin": "http://evil.example"},
	} {
		assert.Equal(t, http.StatusForbidden, post(t, c, act, kill, header), name)
	}
	assert.Equal(t, http.StatusBadRequest, post(t, c, act, `{"do":"kill","sudo":true}`, nil))
	assert.Equal(t, http.StatusNotFound, get(t, c, act), "only a POST acts")
	assert.Len(t, a.done, 1)
}

// Whoever may watch may use the controls of a recording; a cluster that is only watched
// cannot be asked for anything.
func TestServer_SourceSaysWhoMayAct(t *testing.T) {
	for acts, want := range map[Acts]int{Nobody: http.StatusForbidden, Holder: http.StatusForbidden, Everyone: http.StatusOK} {
		server := httptest.NewServer(NewServer(Config{Source: &actor{acts: acts}}))
		for _, path := range []string{"/v1/explain", "/v1/act"} {
			assert.Equal(t, want, post(t, http.DefaultClient, server.URL+path, `{"do":"pause"}`, nil), "%d %s", acts, path)
		}
		server.Close()
	}
}

// The lists are for everyone who may watch, and for no one else: with values, addresses and
// the names of clients they say more than the rest of the page.
func TestServer_ListsAreForThoseWhoMayWatch(t *testing.T) {
	const list = `{"do":"services","value":"web"}`
	for _, acts := range []Acts{Nobody, Holder, Everyone} {
		server := httptest.NewServer(NewServer(Config{Source: &actor{acts: acts}}))
		assert.Equal(t, http.StatusOK, post(t, http.DefaultClient, server.URL+"/v1/list", list, nil), "%d", acts)
		assert.Equal(t, http.StatusForbidden, post(t, http.DefaultClient, server.URL+"/v1/list", list, map[string]string{"Sec-Fetch-Site": "cross-site"}))
		assert.Equal(t, http.StatusBadRequest, post(t, http.DefaultClient, server.URL+"/v1/list", `{"do":"services","sudo":true}`, nil))
		server.Close()
	}
	server := httptest.NewServer(NewServer(Config{Source: &actor{acts: Holder}, Watch: "secret"}))
	defer server.Close()
	assert.Equal(t, http.StatusUnauthorized, post(t, http.DefaultClient, server.URL+"/v1/list", list, nil))
	assert.Equal(t, http.StatusUnauthorized, post(t, http.DefaultClient, server.URL+"/v1/list", list, map[string]string{"Authorization": "Bearer other"}))
	assert.Equal(t, http.StatusOK, post(t, http.DefaultClient, server.URL+"/v1/list", list, map[string]string{"Authorization": "Bearer secret"}))
	assert.Equal(t, http.StatusForbidden, post(t, http.DefaultClient, server.URL+"/v1/act", list, map[string]string{"Authorization": "Bearer secret"}), "who may watch may not act")
}

// A link that a second person needs, or that something has fetched before its reader.
func TestServer_UsedLinkIsFollowedByAnother(t *testing.T) {
	var next []string
	s := NewServer(Config{Source: &actor{acts: Holder}, Opened: func(_, link string) { next = append(next, link) }})
	opens := func(path string) int {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil))
		return w.Code
	}
	first := s.Link()
	assert.Equal(t, http.StatusForbidden, opens("/open/x"))
	assert.Empty(t, next, "nothing was used")
	assert.Equal(t, http.StatusSeeOther, opens(first))
	require.Len(t, next, 1)
	assert.Equal(t, http.StatusForbidden, opens(first))
	assert.Equal(t, http.StatusSeeOther, opens(next[0]))
	assert.Len(t, next, 2)
}

func TestServer_CookiesAreStrict(t *testing.T) {
	s := NewServer(Config{Source: &actor{acts: Holder}, Watch: "w"})
	for _, path := range []string{s.Link(), "/?token=w"} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil))
		require.Len(t, w.Result().Cookies(), 1, path)
		cookie := w.Result().Cookies()[0]
		assert.True(t, cookie.HttpOnly)
		assert.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
		assert.Equal(t, "/", w.Header().Get("Location"), "the key does not stay in the address")
	}
}

func TestServer_WatchingElsewhereNeedsTheToken(t *testing.T) {
	s := NewServer(Config{Watch: "w"})
	ask := func(path string, header map[string]string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "http://10.0.0.1:9700"+path, nil)
		for k, v := range header {
			r.Header.Set(k, v)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	for _, path := range []string{"/", "/main.js", "/v1/stream", "/?token=x"} {
		assert.Equal(t, http.StatusUnauthorized, ask(path, nil).Code, path)
	}
	assert.Equal(t, http.StatusSeeOther, ask("/?token=w", nil).Code)
	assert.Equal(t, http.StatusOK, ask("/", map[string]string{"Authorization": "Bearer w"}).Code)
	r := httptest.NewRequest(http.MethodGet, "http://evil.example/", nil)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	assert.Equal(t, http.StatusForbidden, w.Code, "a name that was made to resolve to this address")
}

func TestServer_PolicyForbidsInlineCode(t *testing.T) {
	s := NewServer(Config{})
	for _, path := range []string{"/", "/main.js", "/base.css", "/nothing"} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
		policy := w.Header().Get("Content-Security-Policy")
		assert.Contains(t, policy, "default-src 'none'", path)
		assert.NotContains(t, policy, "unsafe", path)
		assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	}
	page, err := files.ReadFile("page/index.html")
	require.NoError(t, err)
	assert.NotRegexp(t, `style="| on[a-z]+="|<style|https?://`, string(page))
}

// Fifty viewers see every change; one that stops reading is dropped.
func TestStream_FiftyViewersMissNothing(t *testing.T) {
	hub := NewHub()
	hub.Show(state(1, nil))
	server := httptest.NewUnstartedServer(NewServer(Config{Hub: hub}))
	server.Start()
	defer server.Close()
	const viewers, last = 50, 2000

	conn, err := net.Dial("tcp", server.Listener.Addr().String()) // it never reads
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
	_, err = conn.Write([]byte("GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	require.NoError(t, err)

	var all sync.WaitGroup
	counts := make([]atomic.Int64, viewers)
	for i := range viewers {
		res, err := http.Get(server.URL + "/v1/stream")
		require.NoError(t, err)
		all.Go(func() {
			defer res.Body.Close()
			lines := bufio.NewScanner(res.Body)
			lines.Buffer(nil, 1<<20)
			for lines.Scan() {
				if n := counts[i].Add(int64(strings.Count(lines.Text(), `"kind":"test"`))); n == last {
					return
				}
			}
		})
	}
	watching := func() int {
		hub.mu.Lock()
		defer hub.mu.Unlock()
		return len(hub.viewers)
	}
	require.Eventually(t, func() bool { return watching() == viewers+1 }, 10*time.Second, time.Millisecond)
	padding := strings.Repeat("x", 4000)
	for i := range int64(last) {
		hub.Show(state(uint64(i+2), nil), Event{Kind: "test", Text: padding})
		for viewer := range counts { // whoever reads keeps up
			require.Eventually(t, func() bool { return counts[viewer].Load() > i-viewerQueue/2 }, 30*time.Second, time.Millisecond)
		}
	}
	all.Wait()
	require.Eventually(t, func() bool { return watching() == 0 }, 10*time.Second, time.Millisecond, "the one that does not read was dropped")
}
