package main

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/meta/metaclient"
	"conclave/session/registry"
	"conclave/wire"
	"conclave/wire/serve"
)

// fakeSession is a session with one client that publishes and one that
// subscribes, both called app and at the given host.
func fakeSession(t *testing.T, host, value string) string {
	id := map[string]any{"dataId": "shop.cart", "instance": "DEFAULT_INSTANCE_ID", "group": "DEFAULT_GROUP"}
	return fakeMeta(t, map[string]any{
		"GET /v1/publishers": []any{
			map[string]any{"id": "p1-" + host, "data": id, "version": 3, "values": []string{value}, "client": "app", "clientId": "c1", "address": host + ":5001", "slot": 7, "stored": map[string]any{"term": 1, "sequence": 2}},
			map[string]any{"id": "p0", "data": id, "version": 2, "withdrawn": true},
		},
		"GET /v1/subscribers": []any{
			map[string]any{"dataId": "shop.cart", "instance": "DEFAULT_INSTANCE_ID", "group": "DEFAULT_GROUP", "id": "s1", "client": "reader", "clientId": "c2", "address": host + ":5002", "version": 9, "values": 2},
		},
		"GET /v1/clients": []any{
			map[string]any{"client": "c1", "name": "app", "address": host + ":5001", "registrations": 1},
			map[string]any{"client": "c2", "name": "reader", "address": host + ":5002", "registrations": 0},
		},
	})
}

// twoSessions is the address of a meta that lists two sessions, and one that
// is down.
func twoSessions(t *testing.T) string {
	return fakeMeta(t, map[string]any{"GET /v1/nodes": []metaclient.NodeInfo{
		{Name: "session-1", Role: "session", Address: fakeSession(t, "10.0.0.1", "192.168.0.1:80")},
		{Name: "session-2", Role: "session", Address: fakeSession(t, "10.0.0.2", "192.168.0.2:80")},
		{Name: "session-3", Role: "session", Address: "127.0.0.1:1"},
		{Name: "data-1", Role: "data", Address: "127.0.0.1:1"},
	}})
}

func TestServices_CountTheWholeCluster(t *testing.T) {
	meta := twoSessions(t)
	r := tool(t, "--meta", meta, "services", "--json")
	rows := decode[[]service](t, r)
	require.Len(t, rows, 1)
	assert.Equal(t, "shop.cart", rows[0].DataID)
	assert.Equal(t, []int{2, 2, 2}, []int{rows[0].Publishers, rows[0].Values, rows[0].Subscribers})
	assert.Equal(t, []string{"session-1", "session-2"}, rows[0].Sessions)
	assert.Contains(t, r.stderr, "session-3 did not answer")

	assert.Regexp(t, `shop\.cart +2 +2 +2 +session-1,session-2`, tool(t, "--meta", meta, "services").stdout)
	assert.Equal(t, "[]\n", tool(t, "--meta", meta, "services", "bank", "--json").stdout)
	rows = decode[[]service](t, tool(t, "--meta", meta, "services", "--address", "192.168.0.2", "--json"))
	require.Len(t, rows, 1)
	assert.Equal(t, []string{"session-2"}, rows[0].Sessions)
	assert.Equal(t, exitUsage, tool(t, "--meta", meta, "services", "a", "b").code)
}

func TestServices_FailIfNoSessionAnswers(t *testing.T) {
	r := tool(t, "services", "--session", "127.0.0.1:1")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, "no session answers")
}

func TestDescribe_FindsByNameClientAndAddress(t *testing.T) {
	meta := twoSessions(t)
	count := func(name string) [2]int {
		d := decode[description](t, tool(t, "--meta", meta, "describe", name, "--json"))
		return [2]int{len(d.Publishers), len(d.Subscribers)}
	}
	assert.Equal(t, [2]int{2, 2}, count("shop.cart"))
	assert.Equal(t, [2]int{2, 0}, count("app"))
	assert.Equal(t, [2]int{0, 2}, count("reader"))
	assert.Equal(t, [2]int{1, 1}, count("10.0.0.1"), "of a client's host")
	assert.Equal(t, [2]int{1, 0}, count("192.168.0.2:80"), "of a value")

	r := tool(t, "--meta", meta, "describe", "shop.cart")
	assert.Regexp(t, `^DATAID +PUBLISHER +ADDRESS +SESSION +SLOT +REVISION +STORED +VALUES\n`, r.stdout)
	assert.Regexp(t, `shop\.cart +app +10\.0\.0\.1:5001 +session-1 +7 +3 +yes +192\.168\.0\.1:80`, r.stdout)
	assert.Regexp(t, `shop\.cart +reader +10\.0\.0\.2:5002 +session-2 +9 +2 values`, r.stdout)
	r = tool(t, "--meta", meta, "describe", "nothing")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, "`conclave services --meta "+meta+"`")
}

// A client that has moved is shown once, at its new session: the other one keeps
// what it had until the client's lease ends.
func TestRegistrations_AreShownOnce(t *testing.T) {
	at := func(session string, version int64) publisher {
		return publisher{Publisher: registry.Publisher{Publisher: conclave.Publisher{ID: "p1", Version: version}}, Session: session}
	}
	assert.Equal(t, []publisher{at("session-2", 4)}, newestOf([]publisher{at("session-1", 3), at("session-2", 4), at("session-3", 4)}))
}

func TestClients_AreListedWithTheirSessions(t *testing.T) {
	meta := twoSessions(t)
	rows := decode[[]clientRow](t, tool(t, "--meta", meta, "clients", "--json"))
	require.Len(t, rows, 4)
	assert.Equal(t, clientRow{Client: "c2", Name: "reader", Address: "10.0.0.1:5002", Subscriptions: 1, Session: "session-1"}, rows[2])
	assert.Len(t, decode[[]clientRow](t, tool(t, "--meta", meta, "clients", "app", "--json")), 2)
	assert.Len(t, decode[[]clientRow](t, tool(t, "--meta", meta, "clients", "--address", "10.0.0.2", "--json")), 2)
	assert.Regexp(t, `app +10\.0\.0\.2:5001 +session-2 +1 +0`, tool(t, "--meta", meta, "clients").stdout)
}

func TestErrors_AreForPeopleOrJSON(t *testing.T) {
	meta := fakeMeta(t, map[string]any{
		"GET /v1/nodes":            []metaclient.NodeInfo{{Name: "session-1", Role: "session"}},
		"PUT /v1/blacklist/{name}": wire.Errorf(wire.CodeNoSuccessor, "no session would be left; not done unless it is forced (?force=true)"),
		"GET /v1/leader":           wire.NotLeader("", ""),
		"GET /v1/elections":        wire.Errorf(wire.CodeUnavailable, "list elections: database unavailable: refused"),
	})
	r := tool(t, "--meta", meta, "election", "list")
	assert.Contains(t, r.stderr, "conclave: list elections: database unavailable: refused", "only the code is left out")
	r = tool(t, "--meta", meta, "drain", "session-1")
	assert.Equal(t, "conclave: no session would be left; show the effect with --dry-run, or do it with --force\n", r.stderr)
	r = tool(t, "--meta", meta, "leader")
	assert.Equal(t, exitNoLeader, r.code)
	assert.Equal(t, "conclave: no meta node leads at the moment; wait for a leader with `conclave leader --wait 10s --meta "+meta+"`\n", r.stderr)
	r = tool(t, "--meta", meta, "leader", "--json")
	assert.Equal(t, exitNoLeader, r.code)
	assert.JSONEq(t, `{"error":{"code":"no_leader","message":"no meta node leads at the moment","advice":"wait for a leader with `+"`conclave leader --wait 10s --meta "+meta+"`"+`","exit":3}}`, r.stderr)
	for _, args := range [][]string{{"--json", "ps", "x"}, {"ps", "--no-such-flag", "--json"}} {
		assert.Contains(t, tool(t, args...).stderr, `{"error":{"code":"usage"`, args)
	}
}

func TestNodes_ShowNoLeaseOfOthers(t *testing.T) {
	meta := fakeMeta(t, map[string]any{"GET /v1/nodes": []metaclient.NodeInfo{
		{Name: "meta-1", Role: "meta", Address: "a:1", State: "up", LeaseRemainingMs: 2900, Leading: true}, {Name: "meta-2", Role: "meta", Address: "a:2", State: "up"},
	}})
	r := tool(t, "--meta", meta, "nodes")
	assert.Regexp(t, `meta-1 .* up, leads +2\.9 s +0`, r.stdout)
	assert.Regexp(t, `meta-2 .* up +- +0`, r.stdout)
}

func TestBlacklistRemove_SaysWhatItDid(t *testing.T) {
	meta := fakeMeta(t, map[string]any{
		"DELETE /v1/blacklist/data-1": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		"GET /v1/blacklist":           []metaclient.BlacklistInfo{},
	})
	r := tool(t, "--meta", meta, "blacklist", "remove", "data-1")
	assert.Equal(t, "data-1 is readmitted\nthe blacklist is empty\n", r.stdout, r.stderr)
	assert.Equal(t, "[]\n", tool(t, "--meta", meta, "--json", "blacklist", "remove", "data-1").stdout)
}

// What a session lists in pages is read whole.
func TestServices_FollowPages(t *testing.T) {
	var keys []int
	for i := range 2*pageRows + 7 {
		keys = append(keys, i)
	}
	requests := 0
	session := fakeMeta(t, map[string]any{
		"GET /v1/publishers": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests++
			serve.WriteList(w, r, serve.List[int, map[string]any]{
				Key:  func(i int) string { return serve.NumberKey(uint64(i)) },
				Keys: func(add func(...int)) { add(keys...) },
				Rows: func(keys []int) (rows []map[string]any) {
					for _, i := range keys {
						rows = append(rows, map[string]any{"id": fmt.Sprint(i), "data": map[string]any{"dataId": "x", "instance": "i", "group": "g"}, "version": 1, "values": []string{"v"}})
					}
					return rows
				},
			})
		}),
		"GET /v1/subscribers": []any{}, "GET /v1/clients": []any{},
	})
	meta := fakeMeta(t, map[string]any{"GET /v1/nodes": []metaclient.NodeInfo{{Name: "session-1", Role: "session", Address: session}}})
	rows := decode[[]service](t, tool(t, "--meta", meta, "services", "--json"))
	require.Len(t, rows, 1)
	assert.Equal(t, len(keys), rows[0].Publishers)
	assert.Equal(t, 3, requests)
	for _, link := range []string{"", "x", `</v1/x>; rel="prev"`, `<http://other/v1/x>; rel="next"`, `<//other/v1/x>; rel="next"`} {
		assert.Empty(t, nextPage(link), "only a path of the same node")
	}
}
