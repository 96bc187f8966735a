package session_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/client"
	"conclave/internal/trace"
	"conclave/session"
	"conclave/wire"
	"conclave/wire/serve"
	wirev1 "conclave/wire/v1"
)

// answer is what a session has answered to a request.
type answer struct {
	status int
	header http.Header
	doc    map[string]any
}

func (a answer) version() int64 { return int64(a.doc["version"].(float64)) }

func (a answer) values() (out []string) {
	for _, v := range a.doc["values"].([]any) {
		out = append(out, v.(string))
	}
	return out
}

// curl is a program without the SDK, on a host of its own.
type curl struct {
	c     *cluster
	host  string
	token string
}

// request sends a request, and returns its answer; the body of a stream is left open.
func (x curl) request(ctx context.Context, method, session, path, body string) (*http.Response, error) {
	transport := &http.Transport{DialContext: x.c.host(x.host).DialContext, DisableKeepAlives: true}
	address := session
	if s := x.c.sessions[session]; s != nil {
		address = s.server.Address()
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, strings.NewReader(body))
	require.NoError(x.c.t, err)
	wire.SetToken(req.Header, x.token)
	return (&http.Client{Transport: transport}).Do(req)
}

func (x curl) try(method, session, path, body string) (a answer, err error) {
	res, err := x.request(x.c.ctx, method, session, path, body)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	a = answer{status: res.StatusCode, header: res.Header}
	text, err := io.ReadAll(res.Body)
	require.NoError(x.c.t, err)
	x.conforms(res, body, text)
	if len(text) > 0 {
		require.NoError(x.c.t, json.Unmarshal(text, &a.doc), "%s", text)
	}
	return a, nil
}

// openAPI is the document that sessions serve.
var openAPI = sync.OnceValues(func() (routers.Router, error) {
	doc, err := openapi3.NewLoader().LoadFromFile("openapi.json")
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, err
	}
	return gorillamux.NewRouter(doc)
})

// conforms checks an answer against the document, and that a request that was carried out
// is one of the document.
func (x curl) conforms(res *http.Response, sent string, text []byte) {
	router, err := openAPI()
	require.NoError(x.c.t, err)
	req := res.Request.Clone(x.c.ctx)
	req.Body = io.NopCloser(strings.NewReader(sent))
	if sent != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	route, params, err := router.FindRoute(req)
	if err != nil {
		assert.GreaterOrEqual(x.c.t, res.StatusCode, 400, "%s %s: %v", req.Method, req.URL, err)
		return
	}
	in := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}}
	if res.StatusCode < 300 {
		assert.NoError(x.c.t, openapi3filter.ValidateRequest(x.c.ctx, in))
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: res.StatusCode, Header: res.Header, Options: &openapi3filter.Options{IncludeResponseStatus: true}}
	assert.NoError(x.c.t, openapi3filter.ValidateResponse(x.c.ctx, out.SetBodyBytes(text)), "%s %s: %s", req.Method, req.URL, text)
}

// Every request of the table is in the document, and no other one; a session serves it
// without a token.
func TestOpenAPI_HasEveryPath(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromFile("openapi.json")
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))
	var all []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			all = append(all, method+" "+path)
		}
	}
	slices.Sort(all)
	assert.Equal(t, slices.Sorted(slices.Values(append(serve.Paths("/v1/services"), serve.Paths("/v1/openapi.json")...))), all)
	bubble(t, 0, 0, func(t *testing.T, c *cluster) {
		c.startWith(newTokenFile(t), "session-1")
		a := c.web().do(http.MethodGet, "session-1", "/v1/openapi.json", "")
		assert.Equal(t, http.StatusOK, a.status)
		assert.Equal(t, "3.1.0", a.doc["openapi"])
	})
}

func (x curl) do(method, session, path, body string) answer {
	a, err := x.try(method, session, path, body)
	require.NoError(x.c.t, err)
	return a
}

// put registers a value, and requires that data has it.
func (x curl) put(session, service, id, value string) answer {
	a := x.do(http.MethodPut, session, registrationPath(service, id), fmt.Sprintf(`{"values":[%q]}`, value))
	require.Equal(x.c.t, http.StatusOK, a.status, "%v", a.doc)
	require.Equal(x.c.t, true, a.doc["stored"])
	return a
}

func registrationPath(service, id string) string {
	return "/v1/services/" + url.PathEscape(service) + "/registrations/" + url.PathEscape(id)
}

// web is a program on the host web.
func (c *cluster) web() curl { return curl{c: c, host: "web"} }

func TestServices_RegisterRenewWithdraw(t *testing.T) {
	bubble(t, 2, 1, func(t *testing.T, c *cluster) {
		sub, web := c.watch(c.client("reader"), "svc"), c.web()
		c.eventually("the list is empty", sub.shows())
		a := web.put("session-1", "svc", "web-1", "10.0.0.1:80")
		assert.Equal(t, map[string]any{
			"dataId": "svc", "instance": "DEFAULT_INSTANCE_ID", "group": "DEFAULT_GROUP", "id": "web-1", "version": a.doc["version"], "stored": true,
			"ttlMs": 10000.0, "renewAfterMs": 3334.0, "session": "session-1", "sessions": []any{"session-1:9603"},
		}, a.doc)
		c.eventually("it is seen", sub.shows("10.0.0.1:80"))
		for range 6 { // renewal keeps it, and makes no version
			time.Sleep(5 * time.Second)
			b := web.do(http.MethodPost, "session-1", registrationPath("svc", "web-1")+fmt.Sprintf("/renew?version=%d", a.version()), "")
			require.Equal(t, http.StatusOK, b.status, "%v", b.doc)
			assert.Equal(t, a.version(), b.version())
		}
		for range 6 { // a PUT of the same version renews as well
			time.Sleep(5 * time.Second)
			b := web.do(http.MethodPut, "session-1", registrationPath("svc", "web-1"), fmt.Sprintf(`{"values":["10.0.0.1:80"],"version":%d}`, a.version()))
			require.Equal(t, http.StatusOK, b.status, "%v", b.doc)
			assert.Equal(t, a.version(), b.version())
		}
		b := web.put("session-1", "svc", "web-1", "10.0.0.1:81")
		assert.Greater(t, b.version(), a.version())
		c.eventually("the change is seen", sub.shows("10.0.0.1:81"))
		d := web.do(http.MethodDelete, "session-1", registrationPath("svc", "web-1"), "")
		require.Equal(t, http.StatusOK, d.status, "%v", d.doc)
		assert.Equal(t, true, d.doc["stored"])
		c.eventually("it is gone", sub.shows())
		again := web.do(http.MethodDelete, "session-1", registrationPath("svc", "web-1")+fmt.Sprintf("?version=%d", d.version()-1), "")
		assert.Equal(t, http.StatusOK, again.status)
		assert.Equal(t, d.version(), again.version())
		assert.Equal(t, http.StatusNotFound, web.do(http.MethodPost, "session-1", registrationPath("svc", "web-1")+fmt.Sprintf("/renew?version=%d", b.version()), "").status)
		assert.Len(t, sub.all(), 4, "empty, two values, and empty: renewals were not pushed")
		time.Sleep(time.Minute)
		assert.Empty(t, c.list("session-1:9603", "/v1/publishers"), "the tombstone is forgotten")
	})
}

func TestServices_EndOfTTLRemoves(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		sub, web := c.watch(c.client("reader"), "svc"), c.web()
		c.eventually("the list is empty", sub.shows())
		start := time.Now()
		a := web.do(http.MethodPut, "session-1", registrationPath("svc", "web-1"), `{"values":["a"],"ttlMs":2000}`)
		require.Equal(t, http.StatusOK, a.status, "%v", a.doc)
		web.put("session-1", "svc", "web-2", "b")
		c.eventually("the first one is gone", sub.shows("b"))
		assert.InDelta(t, 2, time.Since(start).Seconds(), 0.1)
		late := web.do(http.MethodPost, "session-1", registrationPath("svc", "web-1")+fmt.Sprintf("/renew?version=%d", a.version()), "")
		assert.Equal(t, http.StatusNotFound, late.status)
		assert.Equal(t, "not_found", late.doc["code"])
		c.eventually("all are gone", sub.shows())
		assert.InDelta(t, 10, time.Since(start).Seconds(), 0.1, "the default")
		web.put("session-1", "svc", "web-1", "a")
		c.eventually("it is back", sub.shows("a"))
	})
}

// A session dies. The client registers at another one within the grace of the data
// nodes, and no subscriber notices.
func TestServices_DeathOfSessionIsNotSeen(t *testing.T) {
	for name, version := range map[string]bool{"with the version": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, 2, func(t *testing.T, c *cluster) {
				sub, web := c.watch(c.client("reader", "session-2"), "svc"), c.web()
				a := web.put("session-1", "svc", "web-1", "a")
				c.eventually("it is seen", sub.shows("a"))
				seen := len(sub.all())
				kill(c, c.sessions["session-1"])
				time.Sleep(4 * time.Second)
				body := `{"values":["a"]}`
				if version {
					body = fmt.Sprintf(`{"values":["a"],"version":%d}`, a.version())
				}
				b := web.do(http.MethodPut, "session-2", registrationPath("svc", "web-1"), body)
				require.Equal(t, http.StatusOK, b.status, "%v", b.doc)
				assert.Equal(t, version, b.version() == a.version())
				for range 20 {
					time.Sleep(3 * time.Second)
					r := web.do(http.MethodPost, "session-2", registrationPath("svc", "web-1")+fmt.Sprintf("/renew?version=%d", b.version()), "")
					require.Equal(t, http.StatusOK, r.status, "%v", r.doc)
				}
				assert.Len(t, sub.all(), seen, "%v", sub.all())
			})
		})
	}
}

// A withdrawal or a change at another session hides the copy of the first one.
func TestServices_OtherSessionHidesOlderCopies(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		sub, web := c.watch(c.client("reader", "session-1"), "svc"), c.web()
		web.put("session-1", "svc", "web-1", "old")
		a := web.put("session-1", "svc", "web-2", "old-2")
		c.eventually("they are seen", sub.shows("old", "old-2"))
		time.Sleep(time.Millisecond) // between two sessions, the clock orders what has no version
		web.put("session-2", "svc", "web-1", "new")
		c.eventually("the new one is seen", sub.shows("new", "old-2"))
		d := web.do(http.MethodDelete, "session-2", registrationPath("svc", "web-2")+fmt.Sprintf("?version=%d", a.version()), "")
		require.Equal(t, http.StatusOK, d.status)
		assert.Equal(t, a.version()+1, d.version())
		c.eventually("the other is gone", sub.shows("new"))
		d = web.do(http.MethodDelete, "session-2", registrationPath("svc", "web-1"), "")
		require.Equal(t, http.StatusOK, d.status)
		c.eventually("both are gone", sub.shows())
		time.Sleep(time.Millisecond)
		web.put("session-1", "svc", "web-1", "newer")
		c.eventually("it is back", sub.shows("newer"))
		time.Sleep(time.Millisecond)
		d = web.do(http.MethodDelete, "session-2", registrationPath("svc", "web-1"), "") // which has the older tombstone
		require.Equal(t, http.StatusOK, d.status)
		c.eventually("all is gone", sub.shows())
		seen := len(sub.all())
		time.Sleep(time.Minute)
		assert.Len(t, sub.all(), seen)
	})
}

// Whatever the clocks of two sessions are, a registration that is answered as stored is
// seen: a version that another one hides is refused, or chosen again.
func TestServices_StoredIsNeverHidden(t *testing.T) {
	path := registrationPath("svc", "web-1")
	renewed := func(a answer) string { return path + fmt.Sprintf("/renew?version=%d", a.version()) }
	behind := func(f func(t *testing.T, c *cluster, web curl, sub *history)) func(*testing.T) {
		return func(t *testing.T) {
			bubble(t, 2, 0, func(t *testing.T, c *cluster) {
				for _, name := range []string{"session-1", "session-2"} {
					c.startSession(name, func(config *session.Config) {
						if name == "session-2" {
							config.Now = func() time.Time { return time.Now().Add(-20 * time.Second) }
						}
					})
				}
				c.settle()
				f(t, c, c.web(), c.watch(c.client("reader", "session-1"), "svc"))
			})
		}
	}
	staysSeen := func(t *testing.T, c *cluster, web curl, sub *history, a answer) {
		t.Helper()
		require.Equal(t, http.StatusOK, a.status, "%v", a.doc)
		for range 20 {
			require.True(t, sub.shows("new")(), "%v", sub.last())
			time.Sleep(3 * time.Second)
			b := web.do(http.MethodPost, "session-2", renewed(a), "")
			require.Equal(t, http.StatusOK, b.status, "%v", b.doc)
			require.Equal(t, true, b.doc["stored"])
		}
	}
	t.Run("put at both", behind(func(t *testing.T, c *cluster, web curl, sub *history) {
		a := web.put("session-1", "svc", "web-1", "old")
		b := web.put("session-2", "svc", "web-1", "new")
		assert.Greater(t, b.version(), a.version())
		c.eventually("it is seen", sub.shows("new"))
		staysSeen(t, c, web, sub, b)
	}))
	t.Run("withdrawn at one, put at the other", behind(func(t *testing.T, c *cluster, web curl, sub *history) {
		web.put("session-2", "svc", "web-1", "new")
		web.do(http.MethodDelete, "session-1", path, "")
		c.eventually("it is gone", sub.shows())
		b := web.put("session-2", "svc", "web-1", "new")
		c.eventually("it is seen", sub.shows("new"))
		staysSeen(t, c, web, sub, b)
	}))
	t.Run("withdrawn at the one behind", behind(func(t *testing.T, c *cluster, web curl, sub *history) {
		web.put("session-1", "svc", "web-1", "old")
		d := web.do(http.MethodDelete, "session-2", path, "")
		require.Equal(t, true, d.doc["stored"])
		c.eventually("it is gone", sub.shows())
	}))
	t.Run("a late put at the other", behind(func(t *testing.T, c *cluster, web curl, sub *history) {
		b := web.put("session-2", "svc", "web-1", "new")
		late := web.put("session-1", "svc", "web-1", "late")
		for range 7 { // in the end, only a tombstone is left of it
			time.Sleep(3 * time.Second)
			x := web.do(http.MethodPut, "session-2", path, fmt.Sprintf(`{"values":["new"],"version":%d}`, b.version()))
			require.Equal(t, http.StatusConflict, x.status, "%v", x.doc)
			assert.Equal(t, late.version(), x.version())
			assert.Contains(t, x.doc["detail"], fmt.Sprint(late.version()+1))
			x = web.do(http.MethodPost, "session-2", renewed(b), "")
			require.Equal(t, http.StatusConflict, x.status, "%v", x.doc)
			assert.Equal(t, late.version(), x.version())
		}
		b = web.do(http.MethodPut, "session-2", path, fmt.Sprintf(`{"values":["new"],"version":%d}`, late.version()+1))
		c.eventually("it is seen", sub.shows("new"))
		staysSeen(t, c, web, sub, b)
	}))
	t.Run("a low version at both", behind(func(t *testing.T, c *cluster, web curl, sub *history) {
		a := web.put("session-1", "svc", "web-1", "old")
		for _, at := range []string{"session-1", "session-2"} {
			x := web.do(http.MethodPut, at, path, fmt.Sprintf(`{"values":["new"],"version":%d}`, a.version()-1))
			require.Equal(t, http.StatusConflict, x.status, "%v", x.doc)
			assert.Equal(t, a.version(), x.version())
			x = web.do(http.MethodDelete, at, path+fmt.Sprintf("?version=%d", a.version()-2), "")
			require.Equal(t, http.StatusConflict, x.status, "%v", x.doc)
		}
		c.eventually("it stays", sub.shows("old"))
		b := web.do(http.MethodPut, "session-2", path, fmt.Sprintf(`{"values":["new"],"version":%d}`, a.version()+1))
		c.eventually("it is seen", sub.shows("new"))
		staysSeen(t, c, web, sub, b)
	}))
}

// The same values without a version are the same registration.
func TestServices_SameValuesAreRenewed(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		sub, web := c.watch(c.client("reader"), "svc"), c.web()
		a := web.put("session-1", "svc", "web-1", "a")
		for range 5 {
			time.Sleep(8 * time.Second)
			assert.Equal(t, a.version(), web.put("session-1", "svc", "web-1", "a").version())
		}
		assert.True(t, sub.shows("a")())
	})
}

// A request that waited in the buffers of a session while its client has withdrawn the
// registration at another one restores nothing.
func TestServices_LateRequestsRestoreNothing(t *testing.T) {
	bubble(t, 1, 2, func(t *testing.T, c *cluster) {
		sub, web := c.watch(c.client("reader", "session-2"), "svc"), c.web()
		a := web.put("session-1", "svc", "web-1", "a")
		b := web.put("session-2", "svc", "web-1", "b")
		d := web.do(http.MethodDelete, "session-2", registrationPath("svc", "web-1")+fmt.Sprintf("?version=%d", b.version()), "")
		require.Equal(t, http.StatusOK, d.status)
		c.eventually("it is gone", sub.shows())
		seen := len(sub.all())
		for _, late := range []int64{a.version(), b.version()} {
			x := web.do(http.MethodPut, "session-1", registrationPath("svc", "web-1"), fmt.Sprintf(`{"values":["late"],"version":%d}`, late))
			assert.Contains(t, []int{http.StatusOK, http.StatusConflict}, x.status, "%v", x.doc)
			web.do(http.MethodPost, "session-1", registrationPath("svc", "web-1")+fmt.Sprintf("/renew?version=%d", late), "")
			time.Sleep(time.Second)
		}
		x := web.do(http.MethodDelete, "session-2", registrationPath("svc", "web-1")+fmt.Sprintf("?version=%d", a.version()), "")
		assert.Equal(t, http.StatusOK, x.status, "it is withdrawn already")
		time.Sleep(time.Minute)
		assert.Len(t, sub.all(), seen, "%v", sub.all())
	})
}

// Many clients fall silent at once, which may be a fault of the session's network: they
// have one more lease to come back, and the pushes are guarded.
func TestServices_MassSilenceIsGuarded(t *testing.T) {
	bubble(t, 2, 1, func(t *testing.T, c *cluster) {
		sub := c.watch(c.client("reader"), "svc")
		var all []answer
		for i := range 8 {
			all = append(all, curl{c: c, host: fmt.Sprint("host-", i)}.put("session-1", "svc", fmt.Sprint("web-", i), fmt.Sprint("v", i)))
		}
		c.eventually("they are seen", func() bool { return len(sub.last()) == 8 })
		time.Sleep(15 * time.Second)
		for i, a := range all { // they come back with what they have
			x := curl{c: c, host: fmt.Sprint("host-", i)}
			b := x.do(http.MethodPut, "session-1", registrationPath("svc", fmt.Sprint("web-", i)), fmt.Sprintf(`{"values":["v%d"],"version":%d}`, i, a.version()))
			require.Equal(t, http.StatusOK, b.status, "%v", b.doc)
		}
		time.Sleep(5 * time.Second)
		full := false
		for _, d := range sub.all() {
			full = full || len(d.Values) == 8
			assert.True(t, !full || len(d.Values) == 8, "%v", sub.all())
		}
		time.Sleep(30 * time.Second)
		c.eventually("in the end they are removed", sub.shows())
	})
}

func TestServices_DrainingSessionNamesOthers(t *testing.T) {
	bubble(t, 1, 2, func(t *testing.T, c *cluster) {
		sub, web := c.watch(c.client("reader", "session-2"), "svc"), c.web()
		a := web.put("session-1", "svc", "web-1", "a")
		c.eventually("it is seen", sub.shows("a"))
		seen := len(sub.all())
		stopped := make(chan error)
		go func() { stopped <- c.sessions["session-1"].server.Shutdown(c.ctx) }()
		require.NoError(t, <-stopped)
		b := web.do(http.MethodPut, "session-2", registrationPath("svc", "web-1"), fmt.Sprintf(`{"values":["a"],"version":%d}`, a.version()))
		require.Equal(t, http.StatusOK, b.status, "%v", b.doc)
		for range 10 {
			time.Sleep(3 * time.Second)
			web.do(http.MethodPost, "session-2", registrationPath("svc", "web-1")+fmt.Sprintf("/renew?version=%d", b.version()), "")
		}
		assert.Len(t, sub.all(), seen, "%v", sub.all())
	})
}

func TestServices_NamesAreEscaped(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		web := c.web()
		for i, name := range []string{"a/b", "a b+c", "events", "x/registrations/y", "täst", "100%", "a?b&c", "a/events", ";,:@"} {
			id := fmt.Sprintf("%s/%d", name, i)
			a := web.put("session-1", name, id, name)
			assert.Equal(t, name, a.doc["dataId"])
			assert.Equal(t, id, a.doc["id"])
			b := web.do(http.MethodGet, "session-1", "/v1/services/"+url.PathEscape(name), "")
			require.Equal(t, http.StatusOK, b.status, "%v", b.doc)
			assert.Equal(t, []string{name}, b.values())
		}
		assert.Equal(t, http.StatusNotFound, web.do(http.MethodGet, "session-1", "/v1/services/a/b", "").status)
		web.do(http.MethodPut, "session-1", registrationPath("g", "1")+"?group=other&instance=tenant", `{"values":["x"]}`)
		assert.Empty(t, web.do(http.MethodGet, "session-1", "/v1/services/g", "").values())
		assert.Equal(t, []string{"x"}, web.do(http.MethodGet, "session-1", "/v1/services/g?group=other&instance=tenant", "").values())
	})
}

func TestServices_BadInputSaysWhatToDo(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		web := c.web()
		a := web.put("session-1", "svc", "web-1", "a")
		path := registrationPath("svc", "web-1")
		for _, x := range []struct {
			method, path, body, code string
			status                   int
		}{
			{"PUT", path, ``, "bad_request", 400},
			{"PUT", path, `{}`, "bad_request", 400},
			{"PUT", path, `[]`, "bad_request", 400},
			{"PUT", path, `{"values":["a"]} {}`, "bad_request", 400},
			{"PUT", path, `{"values":"a"}`, "bad_request", 400},
			{"PUT", path, `{"value":["a"]}`, "bad_request", 400},
			{"PUT", path, `{"values":["a"],"ttlMs":999}`, "bad_request", 400},
			{"PUT", path, `{"values":["a"],"ttlMs":10001}`, "bad_request", 400},
			{"PUT", path, `{"values":["a"],"ttlMs":-1}`, "bad_request", 400},
			{"PUT", path, `{"values":["a"],"ttlMs":9223372036854775807}`, "bad_request", 400},
			{"PUT", path, `{"values":["a"],"version":-1}`, "bad_request", 400},
			{"PUT", path, `{"values":["a"],"version":9007199254740991}`, "bad_request", 400},
			{"PUT", path, `{"values":["a"],"version":4503599627370496}`, "bad_request", 400},
			{"PUT", path, `{"values":["a"],"version":1}`, "conflict", 409},
			{"PUT", path, fmt.Sprintf(`{"values":["b"],"version":%d}`, a.version()), "conflict", 409},
			{"PUT", path, `{"values":["` + strings.Repeat("x", conclave.MaxValue+1) + `"]}`, "too_large", 413},
			{"PUT", path, `{"values":[` + strings.Repeat(`"",`, 600_000) + `""]}`, "too_large", 413},
			{"PUT", path, strings.Repeat("x", conclave.MaxRequest+1), "too_large", 413},
			{"PUT", registrationPath("svc", strings.Repeat("x", 129)), `{"values":["a"]}`, "bad_request", 400},
			{"PUT", registrationPath("a=b", "1"), `{"values":["a"]}`, "bad_request", 400},
			{"PUT", registrationPath("svc", "a\x00"), `{"values":["a"]}`, "bad_request", 400},
			{"PUT", "/v1/services/%FF/registrations/1", `{"values":["a"]}`, "bad_request", 400},
			{"POST", path, ``, "bad_request", 405},
			{"POST", path + "/renew", ``, "bad_request", 400},
			{"POST", path + "/renew?version=x", ``, "bad_request", 400},
			{"POST", path + "/renew?version=1", ``, "not_found", 404},
			{"POST", registrationPath("svc", "none") + "/renew?version=1", ``, "not_found", 404},
			{"DELETE", path + "?version=0", ``, "bad_request", 400},
			{"DELETE", path + "?version=1", ``, "conflict", 409},
			{"GET", "/v1/services/svc?after=1", ``, "bad_request", 400},
			{"GET", "/v1/services/svc?waitMs=0", ``, "bad_request", 400},
			{"GET", "/v1/services/svc?after=1-0000000000000001-1&waitMs=x", ``, "bad_request", 400},
			{"GET", "/v1/services/a%00", ``, "bad_request", 400},
			{"GET", "/v1/services/svc?group=a%3Db", ``, "bad_request", 400},
		} {
			b := web.do(x.method, "session-1", x.path, x.body)
			what := fmt.Sprintf("%s %.80s %.80s: %v", x.method, x.path, x.body, b.doc)
			assert.Equal(t, x.status, b.status, what)
			assert.Equal(t, x.code, b.doc["code"], what)
			assert.Equal(t, "application/problem+json", b.header.Get("Content-Type"), what)
			for _, member := range []string{"type", "title", "detail", "remedy"} {
				assert.NotEmpty(t, b.doc[member], what)
			}
			assert.EqualValues(t, x.status, b.doc["status"], what)
		}
		assert.Equal(t, []string{"a"}, web.do(http.MethodGet, "session-1", "/v1/services/svc", "").values())
	})
}

// A registration belongs to the name of its token, and ids of others are not in its way.
func TestServices_RegistrationBelongsToItsToken(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, c *cluster) {
		c.startWith(newTokenFile(t), "session-1", "session-2")
		shop, bank, page := c.web(), c.web(), c.web()
		shop.token, bank.token, page.token = "p-token", "b-token", "r-token"
		a := shop.put("session-1", "svc", "web-1", "shop")
		time.Sleep(time.Millisecond) // on two sessions, a clock shows which request was later
		bank.put("session-1", "svc", "web-1", "bank")
		time.Sleep(time.Millisecond)
		bank.do(http.MethodDelete, "session-2", registrationPath("svc", "web-1"), "")
		assert.Equal(t, http.StatusNotFound, bank.do(http.MethodPost, "session-1", registrationPath("svc", "web-1")+fmt.Sprintf("/renew?version=%d", a.version()), "").status)
		path := registrationPath("svc", "web-1")
		assert.Equal(t, http.StatusForbidden, page.do(http.MethodPut, "session-1", path, `{"values":["a"]}`).status)
		assert.Equal(t, http.StatusForbidden, page.do(http.MethodDelete, "session-1", path, "").status)
		assert.Equal(t, http.StatusForbidden, page.do(http.MethodPost, "session-1", path+"/renew?version=1", "").status)
		assert.Equal(t, http.StatusUnauthorized, c.web().do(http.MethodPut, "session-1", path, `{"values":["a"]}`).status)
		assert.Equal(t, http.StatusUnauthorized, c.web().do(http.MethodGet, "session-1", "/v1/services/svc", "").status)
		assert.Equal(t, []string{"shop"}, page.do(http.MethodGet, "session-2", "/v1/services/svc", "").values())

		// The SDK's protocol does not reach it, also with the id, at a session that does
		// not know to whom it belongs.
		_, list := c.getWith("n-token", "session-1", "/v1/publishers?dataId=svc")
		r := c.rawWith("b-token", "bank", "session-2").hello("bank")
		defer r.end()
		for _, p := range list {
			m := r.answer(&wirev1.Publisher{Id: p["id"].(string), DataInfoId: svc, Version: conclave.MaxVersion, Withdrawn: true})
			require.Len(t, m.GetRefused(), 1)
			assert.Equal(t, string(wire.CodeForbidden), m.GetRefused()[0].GetCode())
		}
		assert.Equal(t, []string{"shop"}, page.do(http.MethodGet, "session-2", "/v1/services/svc", "").values())
	})
}

// While data is away, the answer reports that it does not have the registration.
func TestServices_StoredMeansDataHasIt(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		web := c.web()
		web.put("session-1", "svc", "web-1", "a")
		c.net.Pause("data-1")
		a := web.do(http.MethodPut, "session-1", registrationPath("svc", "web-2"), `{"values":["b"]}`)
		assert.Equal(t, http.StatusAccepted, a.status)
		assert.Equal(t, false, a.doc["stored"])
		b := web.do(http.MethodGet, "session-1", "/v1/services/other", "")
		assert.Equal(t, http.StatusServiceUnavailable, b.status)
		assert.NotEmpty(t, b.doc["sessions"])
		assert.Equal(t, "1", b.header.Get("Retry-After"))
		c.net.Resume("data-1")
		c.eventually("data has it", func() bool {
			return web.do(http.MethodPost, "session-1", registrationPath("svc", "web-2")+fmt.Sprintf("/renew?version=%d", a.version()), "").doc["stored"] == true
		})
	})
}

// One address may hold as much by requests as by connections.
func TestServices_LimitsOfAnAddress(t *testing.T) {
	bubble(t, 1, 0, func(t *testing.T, c *cluster) {
		c.startSession("session-1", func(config *session.Config) { config.MaxAddressBytes = 20_000 })
		c.settle()
		web, n := c.web(), 0
		for ; n < 100; n++ {
			a := web.do(http.MethodPut, "session-1", registrationPath("svc", fmt.Sprint("web-", n)), `{"values":["x"]}`)
			if a.status == http.StatusTooManyRequests {
				assert.Equal(t, "limit_reached", a.doc["code"])
				break
			}
			require.Equal(t, http.StatusOK, a.status)
		}
		assert.Greater(t, n, 5)
		assert.Less(t, n, 20)
		curl{c: c, host: "other"}.put("session-1", "svc", "web-1", "x")
		time.Sleep(15 * time.Second)
		web.put("session-1", "svc", "web-1", "x") // there is room again
	})
}

// stream reads server-sent events.
type stream struct {
	t      *testing.T
	events chan event
	end    func()
}

type event struct{ id, kind, data string }

func (x curl) stream(t *testing.T, session, path, lastID string) *stream {
	ctx, cancel := context.WithCancel(x.c.ctx)
	transport := &http.Transport{DialContext: x.c.host(x.host).DialContext, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+x.c.sessions[session].server.Address()+path, nil)
	require.NoError(t, err)
	req.Header.Set("Last-Event-ID", lastID)
	res, err := (&http.Client{Transport: transport}).Do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	s := &stream{t: t, events: make(chan event, 100)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(s.events)
		defer res.Body.Close()
		var e event
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "id":
				e.id = value
			case "event":
				e.kind = value
			case "data":
				e.data = value
			case "":
				if e.data != "" {
					s.events <- e
				}
				e = event{}
			}
		}
	}()
	s.end = func() { cancel(); <-done }
	return s
}

// next returns the values of the next event, and its id.
func (s *stream) next() (values []string, id string) {
	select {
	case e, open := <-s.events:
		require.True(s.t, open, "the stream has ended")
		require.Equal(s.t, "version", e.kind, "%v", e)
		var doc struct {
			Values []string
			Cursor string
		}
		require.NoError(s.t, json.Unmarshal([]byte(e.data), &doc))
		assert.Equal(s.t, e.id, doc.Cursor)
		return doc.Values, e.id
	case <-time.After(10 * time.Second):
		require.Fail(s.t, "no event")
		return nil, ""
	}
}

func (s *stream) none(d time.Duration) {
	select {
	case e, open := <-s.events:
		require.Fail(s.t, "an event", "%v %v", e, open)
	case <-time.After(d):
	}
}

// A stream has each version, and goes on after the last event that was read, also at
// another session.
func TestServices_StreamResumes(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		writer := c.client("writer", "session-1")
		pub := c.published(writer, "svc", "a")
		s := c.web().stream(t, "session-1", "/v1/services/svc/events", "")
		values, _ := s.next()
		assert.Equal(t, []string{"a"}, values)
		require.NoError(t, pub.Update([]string{"b"}))
		values, id := s.next()
		assert.Equal(t, []string{"b"}, values)
		s.none(time.Minute)
		s.end()

		same := c.web().stream(t, "session-2", "/v1/services/svc/events", id)
		same.none(time.Minute)
		same.end()
		require.NoError(t, pub.Update([]string{"c"}))
		require.NoError(t, pub.Stored(c.ctx))
		next := c.web().stream(t, "session-2", "/v1/services/svc/events", id)
		values, _ = next.next()
		assert.Equal(t, []string{"c"}, values)
		next.end()
		c.eventually("nothing is left at the sessions", func() bool {
			return len(c.list("session-1:9603", "/v1/subscribers"))+len(c.list("session-2:9603", "/v1/subscribers")) == 0
		})
	})
}

// A program that asks for the next version, again and again, at one session and the
// other, sees the last of each burst, at once.
func TestServices_LongPollMissesNothing(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		pub := c.published(c.client("writer", "session-1"), "svc", "v0")
		web := c.web()
		a := web.do(http.MethodGet, "session-2", "/v1/services/svc", "")
		require.Equal(t, []string{"v0"}, a.values())
		start := time.Now()
		none := web.do(http.MethodGet, "session-1", "/v1/services/svc?waitMs=20000&after="+a.doc["cursor"].(string), "")
		assert.Equal(t, http.StatusNoContent, none.status)
		assert.InDelta(t, 20, time.Since(start).Seconds(), 0.1)
		for i := 1; i <= 40; i++ {
			want, before := fmt.Sprint("v", i), i%3 == 0
			if before { // it changed while no request waited
				require.NoError(t, pub.Update([]string{want}))
				require.NoError(t, pub.Stored(c.ctx))
			}
			answers := make(chan answer, 1)
			go func() {
				b, err := web.try(http.MethodGet, fmt.Sprintf("session-%d", 1+i%2), "/v1/services/svc?waitMs=60000&after="+a.doc["cursor"].(string), "")
				assert.NoError(t, err)
				answers <- b
			}()
			if !before {
				time.Sleep(time.Duration(i%5) * 5 * time.Second)
				synctest.Wait()
				require.Empty(t, answers)
				require.NoError(t, pub.Update([]string{want}))
			}
			changed := time.Now()
			b := <-answers
			require.Equal(t, http.StatusOK, b.status, "%v", b.doc)
			assert.Less(t, time.Since(changed), 100*time.Millisecond)
			assert.Equal(t, []string{want}, b.values())
			assert.Greater(t, b.version(), a.version())
			a = b
		}
	})
}

// The data nodes are lost together with their copies. A program that has the list is
// not shown less before its publishers are back.
func TestServices_LongPollIsGuarded(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		web := c.web()
		c.published(c.client("writer"), "svc", "a")
		c.published(c.client("writer-2"), "svc", "b")
		a := web.do(http.MethodGet, "session-1", "/v1/services/svc", "")
		require.Len(t, a.values(), 2)
		kill(c, c.datas["data-1"])
		time.Sleep(time.Second)
		answers := make(chan answer, 1)
		go func() {
			b, err := web.try(http.MethodGet, "session-1", "/v1/services/svc?waitMs=30000&after="+a.doc["cursor"].(string), "")
			assert.NoError(t, err)
			answers <- b
		}()
		c.startData("data-2")
		b := <-answers
		if b.status == http.StatusOK {
			assert.Len(t, b.values(), 2)
		} else {
			assert.Equal(t, http.StatusNoContent, b.status)
		}
	})
}

// A request that waits ends when its token is revoked.
func TestServices_WaitsEndWithTheirToken(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, c *cluster) {
		f := newTokenFile(t)
		c.startWith(f, "session-1")
		page := c.web()
		page.token = "r-token"
		a := page.do(http.MethodGet, "session-1", "/v1/services/svc", "")
		answers := make(chan answer, 1)
		go func() {
			b, err := page.try(http.MethodGet, "session-1", "/v1/services/svc?waitMs=60000&after="+a.doc["cursor"].(string), "")
			assert.NoError(t, err)
			answers <- b
		}()
		time.Sleep(time.Second)
		f.write(strings.Replace(tokenLines, "r-token", "r2-token", 1))
		b := <-answers
		assert.Equal(t, http.StatusUnauthorized, b.status, "%v", b.doc)
	})
}

// Programs that wait at a session which stops are answered so, and go on at another one.
func TestServices_WaitsEndWhenTheSessionStops(t *testing.T) {
	bubble(t, 1, 2, func(t *testing.T, c *cluster) {
		c.published(c.client("writer", "session-2"), "svc", "a")
		web := c.web()
		a := web.do(http.MethodGet, "session-1", "/v1/services/svc", "")
		s := web.stream(t, "session-1", "/v1/services/svc/events", a.doc["cursor"].(string))
		answers := make(chan answer, 1)
		go func() {
			b, err := web.try(http.MethodGet, "session-1", "/v1/services/svc?waitMs=60000&after="+a.doc["cursor"].(string), "")
			assert.NoError(t, err)
			answers <- b
		}()
		time.Sleep(time.Second)
		stopped := make(chan error, 1)
		go func() { stopped <- c.sessions["session-1"].server.Shutdown(c.ctx) }()
		b := <-answers
		assert.Equal(t, http.StatusServiceUnavailable, b.status)
		assert.Equal(t, []any{"session-2:9603"}, b.doc["sessions"], "%v", b.doc)
		_, open := <-s.events
		assert.False(t, open)
		s.end()
		require.NoError(t, <-stopped)
	})
}

// While its client renews, a registration has one lease, whatever it asks for.
func TestServices_ChangeOfTTLIsOneLease(t *testing.T) {
	bubble(t, 1, 0, func(t *testing.T, c *cluster) {
		c.startSession("session-1", func(config *session.Config) { config.MaxAddressBytes = 20_000 })
		c.settle()
		sub, web := c.watch(c.client("reader"), "svc"), c.web()
		put := func(ttl time.Duration) {
			t.Helper()
			a := web.do(http.MethodPut, "session-1", registrationPath("svc", "web-1"), fmt.Sprintf(`{"values":["a"],"ttlMs":%d}`, ttl.Milliseconds()))
			require.Equal(t, http.StatusOK, a.status, "%v", a.doc)
			require.EqualValues(t, ttl.Milliseconds(), a.doc["ttlMs"])
		}
		for i := range 100 {
			put(time.Duration(5+i%2) * time.Second)
		}
		web.put("session-1", "svc", "web-2", "b") // each lease would count for its address
		put(10 * time.Second)
		time.Sleep(8 * time.Second)
		assert.True(t, slices.Contains(sub.last(), "a"), "a longer one takes effect")
		start := time.Now()
		put(2 * time.Second)
		c.eventually("it is gone", func() bool { return !slices.Contains(sub.last(), "a") })
		assert.InDelta(t, 2, time.Since(start).Seconds(), 1.1, "a shorter one takes effect")
	})
}

// A session that is cut off from the data nodes sends its clients to another one, and
// requests that wait there end. Until a client has found one, its lease is renewed.
func TestServices_CutOffSessionSendsItsClientsAway(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		sub, web := c.watch(c.client("reader", "session-2"), "svc"), c.web()
		a, b := web.put("session-1", "svc", "web-1", "a"), web.put("session-1", "svc", "web-2", "b")
		c.eventually("they are seen", sub.shows("a", "b"))
		s := web.stream(t, "session-1", "/v1/services/svc/events", "")
		s.next()
		seen := len(sub.all())
		again := func(session, id, value string, of answer) answer {
			return web.do(http.MethodPut, session, registrationPath("svc", id), fmt.Sprintf(`{"values":[%q],"version":%d}`, value, of.version()))
		}
		c.net.Cut("session-1", "data-1")
		c.net.Cut("session-1", "data-2")
		cut := time.Now()
		refused := answer{}
		c.eventually("it is refused", func() bool {
			refused = again("session-1", "web-1", "a", a)
			if refused.status != http.StatusServiceUnavailable {
				assert.Equal(t, false, refused.doc["stored"])
			}
			return refused.status == http.StatusServiceUnavailable
		})
		assert.Less(t, time.Since(cut), 8*time.Second)
		assert.Equal(t, []any{"session-2:9603"}, refused.doc["sessions"])
		for open := true; open; {
			_, open = <-s.events
		}
		s.end()
		require.Equal(t, http.StatusServiceUnavailable, web.do(http.MethodGet, "session-1", "/v1/services/svc", "").status)
		for range 10 { // one finds the other session, and one does not
			require.Equal(t, http.StatusOK, again("session-2", "web-1", "a", a).status)
			require.Equal(t, http.StatusServiceUnavailable, again("session-1", "web-2", "b", b).status)
			time.Sleep(3 * time.Second)
		}
		left := c.list("session-1:9603", "/v1/publishers")
		assert.Len(t, left, 1, "%v", left)
		assert.Equal(t, "a", sub.last()[0])
		for _, d := range sub.all()[seen:] {
			assert.Contains(t, d.Values, "a")
		}
		c.net.Heal("session-1", "data-1")
		c.net.Heal("session-1", "data-2")
		c.eventually("it is taken again", func() bool { return again("session-1", "web-2", "b", b).status == http.StatusOK })
		again("session-2", "web-1", "a", a)
		c.eventually("both are seen", sub.shows("a", "b"))
	})
}

// A request that waited in the buffers of a suspended session is refused, whether the round
// of the leases runs before it or after.
func TestServices_SuspendedSessionRefusesWhatWaited(t *testing.T) {
	for name, leasesFirst := range map[string]bool{"leases first": true, "request first": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, 1, func(t *testing.T, c *cluster) {
				c.gated("session-2")
				c.settle()
				web, path := c.web(), registrationPath("svc", "web-1")
				a := web.put("session-2", "svc", "web-1", "a")
				c.gate.Hold("session-2", trace.Leasing)
				c.net.Pause("session-2")
				answers := make(chan answer, 2)
				send := func(method, path, body string) {
					b, err := web.try(method, "session-2", path, body)
					assert.NoError(t, err)
					answers <- b
				}
				go send(http.MethodPut, path, `{"values":["late"]}`)
				go send(http.MethodPost, path+fmt.Sprintf("/renew?version=%d", a.version()), "")
				time.Sleep(5 * time.Second)
				if leasesFirst {
					c.gate.Free("session-2")
					synctest.Wait()
				}
				c.net.Resume("session-2")
				for range 2 {
					b := <-answers
					assert.Equal(t, http.StatusServiceUnavailable, b.status, "%v", b.doc)
				}
				c.gate.Free("session-2")
				c.eventually("requests are taken again", func() bool {
					b := web.do(http.MethodPut, "session-2", path, `{"values":["a"]}`)
					return b.status == http.StatusOK && b.version() == a.version()
				})
			})
		})
	}
}

// A session that was suspended refuses requests for a while. That their clients fall silent
// then is evidence of a fault as before.
func TestServices_SuspensionIsNoReasonToLeave(t *testing.T) {
	bubble(t, 2, 1, func(t *testing.T, c *cluster) {
		c.gated("session-2")
		c.settle()
		sub := c.watch(c.client("reader", "session-1"), "svc")
		at := func(i int, a answer) answer {
			return curl{c: c, host: fmt.Sprint("host-", i)}.do(http.MethodPut, "session-2", registrationPath("svc", fmt.Sprint("web-", i)), fmt.Sprintf(`{"values":["v%d"],"version":%d}`, i, a.version()))
		}
		var all []answer
		for i := range 8 {
			all = append(all, curl{c: c, host: fmt.Sprint("host-", i)}.put("session-2", "svc", fmt.Sprint("web-", i), fmt.Sprint("v", i)))
		}
		c.eventually("they are seen", func() bool { return len(sub.last()) == 8 })
		c.gate.Hold("session-2", trace.Leasing)
		c.net.Pause("session-2")
		time.Sleep(3 * time.Second)
		c.net.Resume("session-2")
		for i, a := range all {
			require.Equal(t, http.StatusServiceUnavailable, at(i, a).status)
		}
		c.gate.Free("session-2")
		time.Sleep(15 * time.Second)
		for i, a := range all {
			require.Equal(t, http.StatusOK, at(i, a).status)
		}
		time.Sleep(5 * time.Second)
		full := false
		for _, d := range sub.all() {
			full = full || len(d.Values) == 8
			assert.True(t, !full || len(d.Values) == 8, "%v", sub.all())
		}
	})
}

// A cursor that this cluster cannot have given, as one of before it was created again, is
// answered with the present list.
func TestServices_ForeignCursorBeginsAgain(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		c.published(c.client("writer"), "svc", "a")
		web := c.web()
		for _, cursor := range []string{"9007199254740991-0000000000000001-1", "9999999999999999-0000000000000001-1"} {
			a := web.do(http.MethodGet, "session-1", "/v1/services/svc?waitMs=9000&after="+cursor, "")
			require.Equal(t, http.StatusOK, a.status, "%v", a.doc)
			assert.Equal(t, []string{"a"}, a.values())
			s := web.stream(t, "session-1", "/v1/services/svc/events", cursor)
			values, id := s.next()
			assert.Equal(t, []string{"a"}, values)
			assert.Equal(t, a.doc["cursor"], id)
			s.end()
		}
		c.eventually("nothing is left", func() bool { return len(c.list("session-1:9603", "/v1/subscribers")) == 0 })
	})
}

// The rules of HTTP itself: allowed methods, HEAD, the scheme of tokens, no caching.
func TestServices_PlainHTTP(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, c *cluster) {
		c.startWith(newTokenFile(t), "session-1")
		web := c.web()
		a := web.do(http.MethodGet, "session-1", "/v1/services/svc", "")
		assert.Equal(t, http.StatusUnauthorized, a.status)
		assert.Equal(t, "Bearer", a.header.Get("WWW-Authenticate"))
		web.token = "p-token"
		for path, allowed := range map[string]string{
			registrationPath("svc", "a/b"):          "PUT, DELETE",
			registrationPath("svc", "1") + "/renew": "POST",
			"/v1/services":                          "GET, HEAD",
			"/v1/services/" + url.PathEscape("a/b"): "GET, HEAD",
			"/v1/services/svc/events":               "GET, HEAD",
		} {
			res, err := web.request(c.ctx, http.MethodPatch, "session-1", path, "")
			require.NoError(t, err)
			res.Body.Close()
			assert.Equal(t, http.StatusMethodNotAllowed, res.StatusCode, path)
			assert.Equal(t, allowed, res.Header.Get("Allow"), path)
		}
		b := web.put("session-1", "svc", "web-1", "<a&b>")
		assert.Equal(t, "no-store", b.header.Get("Cache-Control"))
		for path, kind := range map[string]string{
			"/v1/openapi.json": "application/json", "/v1/services": "application/json", "/v1/services/svc": "application/json", "/v1/services/svc/events": "text/event-stream",
		} {
			res, err := web.request(c.ctx, http.MethodHead, "session-1", path, "")
			require.NoError(t, err)
			res.Body.Close()
			assert.Equal(t, http.StatusOK, res.StatusCode, path)
			assert.Equal(t, kind, res.Header.Get("Content-Type"), path)
		}
		later := web.do(http.MethodPut, "session-1", registrationPath("svc", "web-1"), `{"values":["<a&b>"],"weight":7}`)
		assert.Equal(t, http.StatusOK, later.status, "a member of a later version: %v", later.doc)
	})
}

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
		start, took := time.Now(), make(chan time.Duration, 6) // catalogAtOnce are merged at a time
		for range 6 {
			go func() {
				a, err := web.try(http.MethodGet, "session-1", "/v1/services", "")
				assert.NoError(t, err)
				assert.Equal(t, http.StatusServiceUnavailable, a.status)
				assert.Equal(t, "1", a.header.Get("Retry-After"))
				took <- time.Since(start)
			}()
		}
		atOnce := 0
		for range 6 {
			if <-took < time.Second {
				atOnce++
			}
		}
		assert.Equal(t, 2, atOnce)
	})
}
