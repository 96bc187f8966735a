package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/blacklist"
	"conclave/data"
	"conclave/session"
)

// consulBubble runs a test on a fresh cluster whose sessions answer clients of Consul.
func consulBubble(t *testing.T, datas, sessions int, run func(t *testing.T, c *cluster)) {
	bubble(t, datas, 0, func(t *testing.T, c *cluster) {
		for i := range sessions {
			c.startSession(fmt.Sprintf("session-%d", i+1), withConsul)
		}
		c.settle()
		run(t, c)
	})
}

const registerAgent = "/v1/agent/service/register"

func withConsul(c *session.Config) { c.ConsulListen, c.DNSListen = "127.0.0.1:8500", "127.0.0.1:8600" }

// consulAnswer is what a session has answered to a client of Consul.
type consulAnswer struct {
	status int
	index  uint64
	text   string
	err    error
}

// consul sends a request to the listener for clients of Consul.
func (x curl) consul(method, session, path, body string) (a consulAnswer) {
	res, err := x.request(x.c.ctx, method, session+":8500", path, body)
	if err != nil {
		return consulAnswer{err: err}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	a = consulAnswer{status: res.StatusCode, text: strings.TrimSpace(string(text)), err: err}
	a.index, _ = strconv.ParseUint(res.Header.Get("X-Consul-Index"), 10, 64)
	return a
}

// put sends a request that must be answered with 200.
func (x curl) consulPut(session, path, body string) {
	x.c.t.Helper()
	a := x.consul(http.MethodPut, session, path, body)
	require.NoError(x.c.t, a.err)
	require.Equal(x.c.t, http.StatusOK, a.status, "%s: %s", path, a.text)
}

// read reads a list that must be answered with 200.
func (x curl) consulRead(session, path string, into any) (index uint64) {
	x.c.t.Helper()
	a := x.consul(http.MethodGet, session, path, "")
	require.NoError(x.c.t, a.err)
	require.Equal(x.c.t, http.StatusOK, a.status, "%s: %s", path, a.text)
	require.NoError(x.c.t, json.Unmarshal([]byte(a.text), into), a.text)
	return a.index
}

type consulEntry struct {
	Node    struct{ Node, Address, Datacenter string }
	Service struct {
		ID, Service, Address string
		Port                 int
		Tags                 []string
		Meta                 map[string]string
	}
	Checks []struct{ CheckID, Status, Output string }
}

// found returns the instances of a service as HOST:PORT, sorted.
func (x curl) found(session, path string) (out []string, index uint64) {
	var all []consulEntry
	index = x.consulRead(session, path, &all)
	for _, e := range all {
		out = append(out, fmt.Sprintf("%s:%d", e.Service.Address, e.Service.Port))
	}
	slices.Sort(out)
	return out, index
}

func (x curl) finds(session, path string, want ...string) func() bool {
	return func() bool {
		have, _ := x.found(session, path)
		return slices.Equal(have, want)
	}
}

// register registers an instance of svc with a TTL check.
func (x curl) register(session, id, ttl, more string) {
	x.c.t.Helper()
	x.consulPut(session, "/v1/agent/service/register", fmt.Sprintf(`{"ID":%q,"Name":"svc","Address":"10.0.0.1","Port":80%s,"Check":{"TTL":%q}}`, id, more, ttl))
}

func TestConsul_RegisterCheckDeregister(t *testing.T) {
	consulBubble(t, 2, 1, func(t *testing.T, c *cluster) {
		sub, web := c.watch(c.client("reader"), "svc"), c.web()
		c.eventually("the list is empty", sub.shows())
		web.register("session-1", "svc-10.0.0.1-80", "10s", "")
		c.eventually("it is seen", sub.shows("critical 10.0.0.1:80"))
		assert.Empty(t, must(web.found("session-1", "/v1/health/service/svc?passing=1")))
		assert.Equal(t, []string{"10.0.0.1:80"}, must(web.found("session-1", "/v1/health/service/svc")))
		web.consulPut("session-1", "/v1/agent/check/pass/service:svc-10.0.0.1-80", "")
		c.eventually("a plain address", sub.shows("10.0.0.1:80"))
		assert.Equal(t, []string{"10.0.0.1:80"}, must(web.found("session-1", "/v1/health/service/svc?passing")))

		seen := len(sub.all())
		for range 12 { // it is kept, and makes no version
			time.Sleep(5 * time.Second)
			web.consulPut("session-1", "/v1/agent/check/update/service:svc-10.0.0.1-80", fmt.Sprintf(`{"Status":"passing","Output":"at %s"}`, time.Now()))
		}
		assert.Len(t, sub.all(), seen)
		web.consulPut("session-1", "/v1/agent/check/warn/service:svc-10.0.0.1-80?note=slow", "")
		c.eventually("a warning", sub.shows(`10.0.0.1:80 {"status":"warning","output":"slow"}`))
		assert.Empty(t, must(web.found("session-1", "/v1/health/service/svc?passing=true")))
		web.consulPut("session-1", "/v1/agent/check/fail/service:svc-10.0.0.1-80?note=broken", "")
		c.eventually("it fails", sub.shows(`critical 10.0.0.1:80 {"output":"broken"}`))
		web.consulPut("session-1", "/v1/agent/check/pass/service:svc-10.0.0.1-80", "")
		web.consulPut("session-1", "/v1/agent/service/maintenance/svc-10.0.0.1-80?enable=true&reason=disk", "")
		c.eventually("maintenance", sub.shows(`critical 10.0.0.1:80 {"maintenance":"disk"}`))
		var checks map[string]struct{ Status, Notes string }
		web.consulRead("session-1", "/v1/agent/checks", &checks)
		assert.Equal(t, "disk", checks["_service_maintenance:svc-10.0.0.1-80"].Notes)
		assert.Equal(t, "passing", checks["service:svc-10.0.0.1-80"].Status)
		web.consulPut("session-1", "/v1/agent/service/maintenance/svc-10.0.0.1-80?enable=false", "")
		c.eventually("a plain address again", sub.shows("10.0.0.1:80"))

		other := curl{c: c, host: "elsewhere"} // another agent
		assert.Equal(t, http.StatusNotFound, other.consul("PUT", "session-1", "/v1/agent/service/deregister/svc-10.0.0.1-80", "").status)
		web.consulPut("session-1", "/v1/agent/service/deregister/svc-10.0.0.1-80", "")
		c.eventually("it is gone", sub.shows())
		assert.Equal(t, http.StatusNotFound, web.consul("PUT", "session-1", "/v1/agent/check/pass/service:svc-10.0.0.1-80", "").status)
		var services map[string]any
		web.consulRead("session-1", "/v1/agent/services", &services)
		assert.Empty(t, services)
	})
}

func must[A, B any](a A, _ B) A { return a }

// A time to live ends as it was asked for, also above the longest lease of a session, and
// a late update registers the service again.
func TestConsul_EndOfTTLRemoves(t *testing.T) {
	for _, ttl := range []int{2, 10, 12, 30, 60} {
		t.Run(fmt.Sprint(ttl), func(t *testing.T) {
			consulBubble(t, 1, 1, func(t *testing.T, c *cluster) {
				sub, web := c.watch(c.client("reader"), "svc"), c.web()
				c.publish(c.client("other"), "svc", "other:1") // so that nothing is guarded
				c.eventually("the other is seen", sub.shows("other:1"))
				web.register("session-1", "svc-10.0.0.1-80", fmt.Sprint(ttl, "s"), `,"Meta":{"a":"b"}`)
				web.consulPut("session-1", "/v1/agent/check/pass/service:svc-10.0.0.1-80", "")
				start := time.Now()
				c.eventually("it is seen", sub.shows("other:1", `10.0.0.1:80 {"meta":{"a":"b"}}`))
				time.Sleep(time.Duration(ttl)*time.Second - 100*time.Millisecond)
				assert.Len(t, sub.last(), 2)
				c.eventually("it is gone", sub.shows("other:1"))
				assert.InDelta(t, float64(ttl)+0.5, time.Since(start).Seconds(), 0.7)
				var checks map[string]struct{ Status string }
				web.consulRead("session-1", "/v1/agent/checks", &checks)
				assert.Equal(t, "critical", checks["service:svc-10.0.0.1-80"].Status)
				web.consulPut("session-1", "/v1/agent/check/pass/service:svc-10.0.0.1-80", "")
				c.eventually("it is back", sub.shows("other:1", `10.0.0.1:80 {"meta":{"a":"b"}}`))
				time.Sleep(time.Duration(ttl)*time.Second + 11*time.Minute)
				web.consulRead("session-1", "/v1/agent/checks", &checks)
				assert.Equal(t, http.StatusNotFound, web.consul("PUT", "session-1", "/v1/agent/check/pass/service:svc-10.0.0.1-80", "").status, "it is forgotten")
			})
		})
	}
}

// What others publish is found, and what is registered here is plain for them as far as
// it can be.
func TestConsul_ValuesOfOthersAreInstances(t *testing.T) {
	consulBubble(t, 2, 1, func(t *testing.T, c *cluster) {
		web, x := c.web(), c.client("sdk")
		c.published(x, "svc", "10.0.0.2:81", "[::1]:82", "no address", "http://10.0.0.9:80/x", `db.example:83 {"tags":["v1","v2"],"meta":{"zone":"a"}}`, "critical 10.0.0.3:84")
		c.published(x, "text", "no address")
		web.put("session-1", "svc", "web-1", "10.0.0.4:85")
		web.register("session-1", "mine", "10s", `,"Tags":["v1"],"Meta":{"k":"v"}`)
		web.consulPut("session-1", "/v1/agent/check/pass/service:mine", "")
		all := []string{"10.0.0.1:80", "10.0.0.2:81", "10.0.0.3:84", "10.0.0.4:85", "::1:82", "db.example:83"}
		c.eventually("all are found", web.finds("session-1", "/v1/health/service/svc", all...))
		c.eventually("without the critical one", web.finds("session-1", "/v1/health/service/svc?passing&near=_agent&stale", "10.0.0.1:80", "10.0.0.2:81", "10.0.0.4:85", "::1:82", "db.example:83"))
		c.eventually("by a tag", web.finds("session-1", "/v1/health/service/svc?tag=v1", "10.0.0.1:80", "db.example:83"))
		c.eventually("by two", web.finds("session-1", "/v1/health/service/svc?tag=v1&tag=V2", "db.example:83"))
		var entries []consulEntry
		web.consulRead("session-1", "/v1/health/service/svc?tag=v2", &entries)
		require.Len(t, entries, 1)
		assert.Equal(t, "svc-db.example-83", entries[0].Service.ID)
		assert.Equal(t, map[string]string{"zone": "a"}, entries[0].Service.Meta)
		assert.Equal(t, "db.example", entries[0].Node.Address)
		assert.Equal(t, "default", entries[0].Node.Datacenter)
		require.Len(t, entries[0].Checks, 1)
		assert.Equal(t, "passing", entries[0].Checks[0].Status)

		var flat []map[string]any
		web.consulRead("session-1", "/v1/catalog/service/svc?tag=v1", &flat)
		assert.Len(t, flat, 2)
		var services map[string][]string
		web.consulRead("session-1", "/v1/catalog/services", &services)
		assert.Equal(t, map[string][]string{"svc": {"v1", "v2"}}, services, "a service without an address is none")
		var nodes []struct{ Node string }
		web.consulRead("session-1", "/v1/catalog/nodes", &nodes)
		assert.Len(t, nodes, 6)
		var states []struct{ ServiceID, Status string }
		web.consulRead("session-1", "/v1/health/state/critical", &states)
		assert.Len(t, states, 1)
		web.consulRead("session-1", "/v1/health/state/any", &states)
		assert.Len(t, states, 6)

		sub := c.watch(c.client("reader"), "svc")
		c.eventually("it is seen", func() bool { return len(sub.last()) == 8 })
		assert.Contains(t, sub.last(), `10.0.0.1:80 {"id":"mine","tags":["v1"],"meta":{"k":"v"}}`)
	})
}

// A query that blocks is answered by the next change, or after its wait with the same
// list; its index rises.
func TestConsul_BlockingQuery(t *testing.T) {
	consulBubble(t, 2, 1, func(t *testing.T, c *cluster) {
		web, x := c.web(), c.client("sdk")
		for _, path := range []string{"/v1/health/service/svc", "/v1/catalog/service/svc", "/v1/catalog/services", "/v1/health/state/any"} {
			a := web.consul("GET", "session-1", path, "")
			require.Equal(t, http.StatusOK, a.status, a.text)
			require.NotZero(t, a.index, "also of what is not there")
			start := time.Now()
			b := web.consul("GET", "session-1", fmt.Sprintf("%s?index=%d&wait=16s", path, a.index), "")
			assert.Equal(t, a, b)
			assert.GreaterOrEqual(t, time.Since(start), 16*time.Second, path)
			assert.LessOrEqual(t, time.Since(start), 17*time.Second+100*time.Millisecond, "with the jitter: %s", path)
			answers := make(chan consulAnswer)
			go func() { answers <- web.consul("GET", "session-1", fmt.Sprintf("%s?index=%d", path, a.index), "") }()
			time.Sleep(4 * time.Minute)
			select {
			case b := <-answers:
				t.Fatalf("%s: nothing has changed: %+v", path, b)
			default:
			}
			start = time.Now()
			p := c.published(x, "svc", "10.0.0.1:80")
			b = <-answers
			assert.Less(t, time.Since(start), 1500*time.Millisecond, path)
			assert.Greater(t, b.index, a.index, path)
			assert.NotEqual(t, a.text, b.text, path)
			last := b.index
			for i := range 5 { // none of the changes is missed, whenever the client asks again
				require.NoError(t, p.Update([]string{fmt.Sprintf("10.0.0.1:%d", 81+i)}))
				b := web.consul("GET", "session-1", fmt.Sprintf("%s?index=%d", path, last), "")
				assert.Greater(t, b.index, last)
				last = b.index
				time.Sleep(time.Second)
			}
			require.NoError(t, p.Withdraw())
			c.eventually("it is gone", func() bool { return web.consul("GET", "session-1", path, "").text == a.text })
		}
		assert.Empty(t, c.list("session-1:9603", "/v1/subscribers"), "each request has ended its subscription")
		a := web.consul("GET", "session-1", "/v1/health/service/svc?index=9007199254740990&wait=1m", "")
		assert.Equal(t, http.StatusOK, a.status)
		assert.Less(t, a.index, uint64(9007199254740990), "a higher index than there is: the client starts again")
	})
}

// The leader of a slot dies, then a session; each watcher keeps its list, and no index
// falls: at the other session, nor at the one that starts again.
func TestConsul_WatchOverDeaths(t *testing.T) {
	consulBubble(t, 3, 2, func(t *testing.T, c *cluster) {
		web := c.web()
		web.register("session-1", "mine", "15s", "")
		web.consulPut("session-1", "/v1/agent/check/pass/service:mine", "")
		heartbeat := func(session string) int {
			return web.consul("PUT", session, "/v1/agent/check/pass/service:mine", "").status
		}
		index := map[string]uint64{}
		watch := func(session, path string) {
			found, now := web.found(session, path+"?passing&wait=1s&index="+fmt.Sprint(index[path]))
			assert.Equal(t, []string{"10.0.0.1:80"}, found, session)
			assert.GreaterOrEqual(t, now, index[path], session)
			index[path] = now
		}
		c.eventually("it is found", web.finds("session-2", "/v1/health/service/svc?passing", "10.0.0.1:80"))
		watch("session-1", "/v1/health/service/svc")
		kill(c, c.datas["data-1"])
		for range 15 {
			assert.Equal(t, http.StatusOK, heartbeat("session-1"))
			watch("session-1", "/v1/health/service/svc")
			watch("session-2", "/v1/health/service/svc")
		}
		kill(c, c.sessions["session-1"])
		watch("session-2", "/v1/health/service/svc")
		assert.Equal(t, http.StatusNotFound, heartbeat("session-2"), "its client is to register again")
		web.register("session-2", "mine", "15s", "")
		for range 15 { // it passes, as it did before
			watch("session-2", "/v1/health/service/svc")
			assert.Equal(t, http.StatusOK, heartbeat("session-2"))
		}
		c.startSession("session-1", withConsul)
		c.settle()
		for range 15 {
			watch("session-1", "/v1/health/service/svc")
			watch("session-2", "/v1/health/service/svc")
			assert.Equal(t, http.StatusOK, heartbeat("session-2"))
		}
	})
}

func TestConsul_CatalogIndexRisesOverRestart(t *testing.T) {
	consulBubble(t, 1, 1, func(t *testing.T, c *cluster) {
		web := c.web()
		first := web.consul("GET", "session-1", "/v1/catalog/services", "").index
		kill(c, c.sessions["session-1"])
		time.Sleep(time.Millisecond)
		c.startSession("session-1", withConsul)
		c.settle()
		assert.Greater(t, web.consul("GET", "session-1", "/v1/catalog/services", "").index, first)
	})
}

// What a session has done for a client that did not wait for the data nodes stays done: an
// update keeps its status, and a service that was withdrawn does not come back.
func TestConsul_UnansweredRequestsAreDone(t *testing.T) {
	consulBubble(t, 1, 1, func(t *testing.T, c *cluster) {
		web := c.web()
		web.register("session-1", "a", "1m", "")
		web.register("session-1", "b", "1m", "")
		kill(c, c.datas["data-1"])
		for _, path := range []string{"/v1/agent/check/pass/service:a", "/v1/agent/service/deregister/b"} {
			ctx, cancel := context.WithTimeout(c.ctx, 200*time.Millisecond)
			_, err := web.request(ctx, http.MethodPut, "session-1:8500", path, "")
			cancel()
			require.Error(t, err, "the client does not wait")
		}
		time.Sleep(2 * time.Second)
		var checks map[string]struct{ Status string }
		web.consulRead("session-1", "/v1/agent/checks", &checks)
		assert.Equal(t, map[string]struct{ Status string }{"service:a": {"passing"}}, checks)
	})
}

// A session that stops answers what waits, so that its client asks another one.
func TestConsul_StopAnswersQueriesThatWait(t *testing.T) {
	consulBubble(t, 1, 2, func(t *testing.T, c *cluster) {
		web := c.web()
		a := web.consul("GET", "session-1", "/v1/health/service/svc", "")
		answers := make(chan consulAnswer)
		go func() {
			answers <- web.consul("GET", "session-1", fmt.Sprintf("/v1/health/service/svc?index=%d", a.index), "")
		}()
		time.Sleep(time.Second)
		stopped := make(chan error)
		go func() { stopped <- c.sessions["session-1"].server.Shutdown(c.ctx) }()
		b := <-answers
		require.NoError(t, b.err)
		assert.Equal(t, http.StatusServiceUnavailable, b.status)
		assert.Contains(t, b.text, "move")
		require.NoError(t, <-stopped)
		assert.Equal(t, a, web.consul("GET", "session-2", "/v1/health/service/svc", ""))
	})
}

// Programs that a draining session has sent away, and that then end, are no evidence against
// it: what they have registered goes at the end of their time to live, which is longer than a
// lease, and not one lease later.
func TestConsul_DrainExpectsProgramsToGo(t *testing.T) {
	consulBubble(t, 2, 2, func(t *testing.T, c *cluster) {
		sub := c.watch(c.client("reader", "session-2"), "svc")
		programs := []curl{{c: c, host: "host-1"}, {c: c, host: "host-2"}}
		for i, x := range programs {
			x.consulPut("session-1", registerAgent, fmt.Sprintf(`{"Name":"svc","Address":"10.0.0.%d","Port":80,"Check":{"TTL":"30s","Status":"passing"}}`, i+1))
		}
		c.eventually("both are seen", sub.shows(`10.0.0.1:80 {"id":"svc"}`, `10.0.0.2:80 {"id":"svc"}`))
		registered := time.Now()
		c.meta.forbid(blacklist.Entry{Name: "session-1"})
		time.Sleep(2 * time.Second)
		for _, x := range programs {
			assert.Equal(t, http.StatusServiceUnavailable, x.consul(http.MethodPut, "session-1", "/v1/agent/check/pass/service:svc", "").status)
		}
		c.eventually("both are gone", sub.shows())
		assert.Less(t, time.Since(registered), 33*time.Second)
	})
}

// Questions of DNS, whose sender may be forged, do not delay the other requests of a host.
func TestConsul_DNSHasAPaceOfItsOwn(t *testing.T) {
	consulBubble(t, 1, 1, func(t *testing.T, c *cluster) {
		web := c.web()
		took := func() time.Duration {
			start := time.Now()
			require.Empty(t, must(web.found("session-1", "/v1/health/service/svc")))
			return time.Since(start)
		}
		before := took()
		var asking sync.WaitGroup
		for i := range 256 {
			asking.Go(func() {
				for j := range 4 {
					web.ask("session-1", fmt.Sprintf("svc-%d-%d.service.consul.", i, j), dns.TypeA)
				}
			})
		}
		most := before
		asked := make(chan struct{})
		go func() {
			asking.Wait()
			close(asked)
		}()
		for waits := true; waits; {
			select {
			case <-asked:
				waits = false
			default:
				most = max(most, took())
			}
		}
		assert.Less(t, most, before+time.Millisecond)
	})
}

// Two programs with the same service id on two machines are two instances.
func TestConsul_AgentIsTokenAndAddress(t *testing.T) {
	consulBubble(t, 1, 1, func(t *testing.T, c *cluster) {
		for _, host := range []string{"host-1", "host-2"} {
			x := curl{c: c, host: host}
			x.consulPut("session-1", "/v1/agent/service/register", `{"Name":"svc","Port":80,"Check":{"TTL":"10s","Status":"passing"}}`)
		}
		all, _ := c.web().found("session-1", "/v1/health/service/svc?passing")
		assert.Len(t, all, 2)
		assert.NotEqual(t, all[0], all[1], "without an address it is that of the request")
	})
}

func TestConsul_Self(t *testing.T) {
	consulBubble(t, 1, 2, func(t *testing.T, c *cluster) {
		web := c.web()
		var self struct{ Config, Member map[string]any }
		web.consulRead("session-1", "/v1/agent/self", &self)
		assert.Equal(t, "default", self.Config["Datacenter"])
		assert.Equal(t, "session-1", self.Config["NodeName"])
		assert.Equal(t, "session-1", self.Member["Addr"])
		var text string
		web.consulRead("session-1", "/v1/status/leader", &text)
		assert.Equal(t, c.meta.address, text)
		var list []string
		web.consulRead("session-1", "/v1/status/peers", &list)
		assert.Equal(t, []string{c.meta.address}, list)
		web.consulRead("session-1", "/v1/catalog/datacenters", &list)
		assert.Equal(t, []string{"default"}, list)
	})
}

func TestConsul_BadInputSaysWhatToDo(t *testing.T) {
	consulBubble(t, 1, 1, func(t *testing.T, c *cluster) {
		web := c.web()
		web.register("session-1", "mine", "10s", "")
		const register = registerAgent
		for _, x := range []struct {
			method, path, body string
			status             int
			says               string
		}{
			{"PUT", register, ``, 400, "decode"},
			{"PUT", register, `[]`, 400, "decode"},
			{"PUT", register, `{"Check":{"TTL":"10s"}}`, 400, "service name"},
			{"PUT", register, `{"Name":"a=b","Check":{"TTL":"10s"}}`, 400, "service name"},
			{"PUT", register, `{"Name":"svc","ID":"a\u0000","Check":{"TTL":"10s"}}`, 400, "service id"},
			{"PUT", register, `{"Name":"svc"}`, 400, "lease"},
			{"PUT", register, `{"Name":"svc","Checks":[{"TTL":"10s"},{"TTL":"10s"}]}`, 400, "2 checks"},
			{"PUT", register, `{"Name":"svc","Check":{"HTTP":"http://10.0.0.1/","Interval":"10s"}}`, 400, "only TTL"},
			{"PUT", register, `{"Name":"svc","Check":{"TCP":"10.0.0.1:80","Interval":"10s"}}`, 400, "only TTL"},
			{"PUT", register, `{"Name":"svc","Check":{"TTL":"10s","Args":["a"]}}`, 400, "only TTL"},
			{"PUT", register, `{"Name":"svc","Check":{"Interval":"10s"}}`, 400, "TTL"},
			{"PUT", register, `{"Name":"svc","Check":{"TTL":"10"}}`, 400, "TTL"},
			{"PUT", register, `{"Name":"svc","Check":{"TTL":"999ms"}}`, 400, "1s to 5m"},
			{"PUT", register, `{"Name":"svc","Check":{"TTL":"301s"}}`, 400, "1s to 5m"},
			{"PUT", register, `{"Name":"svc","Check":{"TTL":"10s","Status":"good"}}`, 400, "passing, warning or critical"},
			{"PUT", register, `{"Name":"svc","Check":{"TTL":"10s","DeregisterCriticalServiceAfter":"x"}}`, 400, "duration"},
			{"PUT", register, `{"Name":"svc","Port":65536,"Check":{"TTL":"10s"}}`, 400, "port"},
			{"PUT", register, `{"Name":"svc","Address":"10.0.0.1:80","Check":{"TTL":"10s"}}`, 400, "address"},
			{"PUT", register, `{"Name":"svc","Kind":"connect-proxy","Check":{"TTL":"10s"}}`, 400, "mesh"},
			{"PUT", register, `{"Name":"svc","Connect":{"Native":true},"Check":{"TTL":"10s"}}`, 400, "mesh"},
			{"PUT", register, `{"Name":"svc","Namespace":"a","Check":{"TTL":"10s"}}`, 400, "namespaces"},
			{"PUT", register, `{"Name":"svc","SocketPath":"/a","Check":{"TTL":"10s"}}`, 400, "SocketPath"},
			{"PUT", register, `{"Name":"svc","Tags":["` + strings.Repeat("x", 70_000) + `"],"Check":{"TTL":"10s"}}`, 413, "bytes"},
			{"PUT", "/v1/agent/service/deregister/none", ``, 404, "Unknown service ID"},
			{"PUT", "/v1/agent/service/deregister/%FF%00", ``, 404, "Unknown service ID"},
			{"PUT", "/v1/agent/service/maintenance/none?enable=true", ``, 404, "Unknown service ID"},
			{"PUT", "/v1/agent/service/maintenance/mine", ``, 400, "enable"},
			{"PUT", "/v1/agent/check/pass/mine", ``, 404, "Unknown check ID"},
			{"PUT", "/v1/agent/check/update/service:mine", ``, 400, "decode"},
			{"PUT", "/v1/agent/check/update/service:mine", `{"Status":"good"}`, 400, "passing, warning or critical"},
			{"PUT", "/v1/agent/check/deregister/service:mine", ``, 404, "docs/consul.md"},
			{"GET", "/v1/agent/check/pass/service:mine", ``, 405, "method"},
			{"GET", "/v1/health/service/a=b", ``, 400, "service name"},
			{"GET", "/v1/health/service/svc?index=x", ``, 400, "X-Consul-Index"},
			{"GET", "/v1/health/service/svc?index=-1", ``, 400, "X-Consul-Index"},
			{"GET", "/v1/health/service/svc?wait=10", ``, 400, "wait"},
			{"GET", "/v1/health/service/svc?passing=x", ``, 400, "passing"},
			{"GET", "/v1/health/service/svc?dc=other", ``, 400, "datacenter"},
			{"GET", "/v1/health/service/svc?filter=Service.Port==80", ``, 400, "not supported"},
			{"GET", "/v1/health/service/svc?ns=a", ``, 400, "not supported"},
			{"GET", "/v1/health/service/svc?partition=a", ``, 400, "not supported"},
			{"GET", "/v1/health/service/svc?peer=a", ``, 400, "not supported"},
			{"GET", "/v1/health/service/svc?node-meta=a:b", ``, 400, "not supported"},
			{"GET", "/v1/catalog/services?filter=a", ``, 400, "not supported"},
			{"GET", "/v1/health/state/good", ``, 400, "passing, warning or critical"},
			{"GET", "/v1/kv/a", ``, 404, "docs/consul.md"},
			{"PUT", "/v1/session/create", ``, 404, "docs/consul.md"},
			{"GET", "/v1/services", ``, 404, "docs/consul.md"},
		} {
			a := web.consul(x.method, "session-1", x.path, x.body)
			require.NoError(t, a.err)
			assert.Equal(t, x.status, a.status, "%s %s %.80s: %s", x.method, x.path, x.body, a.text)
			assert.Contains(t, a.text, x.says, "%s %s", x.method, x.path)
		}
	})
}

func TestConsul_TokensHaveRights(t *testing.T) {
	f := newTokenFile(t)
	bubble(t, 0, 0, func(t *testing.T, c *cluster) {
		c.startData("data-1", func(d *data.Config) { d.Tokens = f.tokens })
		c.startSession("session-1", func(s *session.Config) { s.Tokens, s.ConsulListen = f.tokens, "127.0.0.1:8500" })
		c.settle()
		web := c.web()
		const body = `{"Name":"svc","Port":80,"Check":{"TTL":"10s","Status":"passing"}}`
		for _, x := range []struct {
			header, value, query string
			read, register       int
		}{
			{"", "", "", 403, 403},
			{"X-Consul-Token", "guess", "", 403, 403},
			{"X-Consul-Token", "r-token", "", 200, 403},
			{"X-Consul-Token", "p-token", "", 200, 200},
			{"Authorization", "Bearer p-token", "", 200, 200},
			{"", "", "?token=p-token", 200, 200},
			{"X-Consul-Token", "r-token", "?token=p-token", 200, 403},
		} {
			for _, do := range []struct {
				method, path, body string
				want               int
			}{{"GET", "/v1/health/service/svc", "", x.read}, {"PUT", "/v1/agent/service/register", body, x.register}} {
				req, err := http.NewRequestWithContext(c.ctx, do.method, "http://session-1:8500"+do.path+x.query, strings.NewReader(do.body))
				require.NoError(t, err)
				if x.header != "" {
					req.Header.Set(x.header, x.value)
				}
				transport := &http.Transport{DialContext: c.host(web.host).DialContext, DisableKeepAlives: true}
				res, err := (&http.Client{Transport: transport}).Do(req)
				require.NoError(t, err)
				res.Body.Close()
				assert.Equal(t, do.want, res.StatusCode, "%+v %s", x, do.path)
			}
		}
	})
}

// ask asks the DNS of a session over TCP.
func (x curl) ask(session, name string, kind uint16) *dns.Msg {
	conn, err := x.c.host(x.host).DialContext(x.c.ctx, "tcp", session+":8600")
	require.NoError(x.c.t, err)
	defer conn.Close()
	out, _, err := (&dns.Client{Net: "tcp"}).ExchangeWithConn(new(dns.Msg).SetQuestion(name, kind), &dns.Conn{Conn: conn})
	require.NoError(x.c.t, err)
	return out
}

func TestConsul_DNS(t *testing.T) {
	consulBubble(t, 1, 1, func(t *testing.T, c *cluster) {
		web, x := c.web(), c.client("sdk")
		c.published(x, "svc", "10.0.0.1:80", `10.0.0.2:81 {"tags":["v1"],"weights":{"Passing":7}}`, "critical 10.0.0.3:82", "[2001:db8::1]:83", "10.0.0.1:84")
		c.published(x, "named", "db.example:5432")
		answers := func(name string, kind uint16, code int) (out []string) {
			m := web.ask("session-1", name, kind)
			assert.Equal(t, code, m.Rcode, name)
			for _, rr := range m.Answer {
				assert.Zero(t, rr.Header().Ttl)
				out = append(out, strings.TrimPrefix(rr.String(), rr.Header().String()))
			}
			slices.Sort(out)
			return out
		}
		assert.Equal(t, []string{"10.0.0.1", "10.0.0.2"}, answers("svc.service.consul.", dns.TypeA, dns.RcodeSuccess))
		assert.Equal(t, []string{"10.0.0.1", "10.0.0.2"}, answers("SVC.Service.Default.consul.", dns.TypeA, dns.RcodeSuccess))
		assert.Equal(t, []string{"2001:db8::1"}, answers("svc.service.consul.", dns.TypeAAAA, dns.RcodeSuccess))
		assert.Equal(t, []string{"10.0.0.2"}, answers("v1.svc.service.consul.", dns.TypeA, dns.RcodeSuccess))
		srv := []string{
			"1 1 80 0a000001.addr.default.consul.", "1 1 83 20010db8000000000000000000000001.addr.default.consul.",
			"1 1 84 0a000001.addr.default.consul.", "1 7 81 0a000002.addr.default.consul.",
		}
		assert.Equal(t, srv, answers("svc.service.consul.", dns.TypeSRV, dns.RcodeSuccess))
		assert.Equal(t, srv, answers("_svc._tcp.service.consul.", dns.TypeSRV, dns.RcodeSuccess))
		assert.Equal(t, srv[3:], answers("_svc._v1.service.consul.", dns.TypeSRV, dns.RcodeSuccess))
		assert.Len(t, web.ask("session-1", "svc.service.consul.", dns.TypeSRV).Extra, 4)
		assert.Equal(t, []string{"10.0.0.2"}, answers("0a000002.addr.default.consul.", dns.TypeA, dns.RcodeSuccess))
		assert.Empty(t, answers("0a000002.addr.default.consul.", dns.TypeAAAA, dns.RcodeSuccess))
		assert.Equal(t, []string{"db.example."}, answers("named.service.consul.", dns.TypeA, dns.RcodeSuccess))
		assert.Equal(t, []string{"1 1 5432 db.example."}, answers("named.service.consul.", dns.TypeSRV, dns.RcodeSuccess))
		assert.Empty(t, answers("none.service.consul.", dns.TypeA, dns.RcodeNameError))
		assert.Empty(t, answers("svc.service.other.consul.", dns.TypeA, dns.RcodeNameError))
		assert.Empty(t, answers("xx.addr.consul.", dns.TypeA, dns.RcodeNameError))
		assert.Empty(t, answers("svc.query.consul.", dns.TypeA, dns.RcodeNameError))
		assert.Empty(t, answers("consul.", dns.TypeA, dns.RcodeSuccess))
		assert.Empty(t, answers("example.com.", dns.TypeA, dns.RcodeRefused))
		require.Len(t, web.ask("session-1", "none.service.consul.", dns.TypeA).Ns, 1, "how long its absence may be kept")
	})
}
