package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/wire"
	"conclave/wire/serve"
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

// The rules of HTTP itself: allowed methods, HEAD, the scheme of tokens, no caching.
// A session that sends its clients to others ends their connections of HTTP/1.1, since
// another session may be behind the same name. One of HTTP/2 belongs to others, too, and a
// session that only has no answer at present is not left.
func TestServices_RefusalEndsTheConnection(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		c.settle()
		kill(c, c.datas["data-1"])
		kill(c, c.datas["data-2"])
		var dials [2]int
		var clients [2]http.Client
		for i := range clients {
			protocols := new(http.Protocols)
			protocols.SetHTTP1(i == 0)
			protocols.SetUnencryptedHTTP2(i == 1)
			transport := &http.Transport{Protocols: protocols, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				dials[i]++
				return c.host("web").DialContext(ctx, network, address)
			}}
			defer transport.CloseIdleConnections()
			clients[i].Transport = transport
		}
		ask := func(i int) string {
			res, err := clients[i].Get("http://" + c.sessions["session-1"].server.Address() + "/v1/services")
			require.NoError(t, err)
			defer res.Body.Close()
			_, err = io.Copy(io.Discard, res.Body)
			require.NoError(t, err)
			return fmt.Sprintf("%d in HTTP/%d", res.StatusCode, res.ProtoMajor)
		}
		for i := range clients {
			for range 2 {
				assert.Equal(t, fmt.Sprintf("503 in HTTP/%d", i+1), ask(i))
			}
			assert.Equal(t, 1, dials[i], "it has no answer")
		}
		c.net.Cut("session-1", "data-3")
		defer c.net.Heal("session-1", "data-3")
		c.startData("data-3")
		time.Sleep(20 * time.Second)
		for i := range clients {
			for range 2 {
				assert.Equal(t, fmt.Sprintf("503 in HTTP/%d", i+1), ask(i))
			}
			assert.Equal(t, 2-i, dials[i], "it is cut off")
		}
	})
}

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
