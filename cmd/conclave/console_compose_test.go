package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/long"
	"conclave/testbed/console"
	"conclave/testbed/containers"
)

// composeUp returns the project that `make compose-up` has started, or skips the
// test.
func composeUp(t *testing.T) (*containers.Project, []containers.Container) {
	t.Helper()
	if !long.All() {
		t.Skip("make test-compose runs this one, on the cluster of make compose-up")
	}
	p, err := containers.NewProject(containers.ProjectConfig{Name: "conclave", Dir: "../.."})
	require.NoError(t, err)
	all, err := p.Find(t.Context())
	if err != nil && os.Getenv("REQUIRE_DOCKER") == "" {
		t.Skipf("SKIPPED: no cluster in containers: %v", err)
	}
	require.NoError(t, err)
	return p, all
}

// browser is what a browser keeps of a console.
type browser struct {
	t *testing.T
	http.Client
	base string
}

// startConsole starts a console that may act, and opens its link. It ends with the
// test.
func startConsole(t *testing.T, args ...string) *browser {
	t.Helper()
	return open(t, serveConsole(t, args...).find(t, `to act:  (http://\S+)`))
}

// open opens a link of a console.
func open(t *testing.T, link string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	b := &browser{t: t, Client: http.Client{Jar: jar, Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}, base: regexp.MustCompile(`^http://[^/]+`).FindString(link)}
	res, err := b.Get(link)
	require.NoError(t, err)
	page, err := io.ReadAll(res.Body)
	res.Body.Close()
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Contains(t, string(page), "<title>")
	return b
}

// state returns the snapshot with which the stream begins.
func (b *browser) state() (s console.State) {
	b.t.Helper()
	res, err := b.Get(b.base + "/v1/stream")
	require.NoError(b.t, err)
	defer res.Body.Close()
	for lines := bufio.NewReader(res.Body); ; {
		line, err := lines.ReadString('\n')
		require.NoError(b.t, err)
		if text, ok := strings.CutPrefix(line, "data: "); ok {
			require.NoError(b.t, json.Unmarshal([]byte(text), &s))
			return s
		}
	}
}

// until waits for a state, and returns it.
func (b *browser) until(what string, reached func(console.State) bool) (s console.State) {
	b.t.Helper()
	if !assert.Eventually(b.t, func() bool { s = b.state(); return reached(s) }, time.Minute, 100*time.Millisecond, what) {
		b.t.Fatalf("%s: leader %s, term %d, nodes %+v, outcomes %+v", what, s.Leader, s.Term, s.Nodes, s.Outcomes)
	}
	return s
}

// post sends a request, and returns the status and the answer.
func (b *browser) post(path, do, node string) (status int, answer string) {
	b.t.Helper()
	res, err := b.Post(b.base+path, "application/json", strings.NewReader(fmt.Sprintf(`{"do":%q,"node":%q}`, do, node)))
	require.NoError(b.t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(b.t, err)
	return res.StatusCode, string(body)
}

// settled waits until what a request has begun has settled.
func (b *browser) settled(what string) (o console.Outcome) {
	b.t.Helper()
	b.until(what+" has settled", func(s console.State) bool {
		for _, o = range s.Outcomes {
			if o.What == what && o.State != "doing" && o.State != "watching" {
				return true
			}
		}
		return false
	})
	assert.Equal(b.t, "settled", o.State, "%+v", o)
	return o
}

// complete reports whether a state has a leader, all its slots, and every node.
func complete(s console.State) bool {
	ready := map[string]int{}
	for _, n := range s.Nodes {
		if n.State == "ready" {
			ready[n.Role]++
		}
	}
	return strings.HasPrefix(s.Leader, "meta-") && len(s.Slots) == 256 && ready["meta"] == 3 && ready["data"] == 3 && ready["session"] == 2
}

// The service of docker-compose.yml watches, in a cluster with TLS as in one without.
func TestComposeUp_ConsoleWatches(t *testing.T) {
	p, all := composeUp(t)
	var page string
	for _, c := range all {
		if c.Service == "console" {
			page = "http://" + c.Ports["9700"] + "/"
		}
	}
	if page == "" && os.Getenv("REQUIRE_DOCKER") == "" {
		t.Skip("SKIPPED: the console's service is not up: docker compose up -d console")
	}
	require.NotEmpty(t, page)
	log, err := p.Logs(t.Context(), "console", time.Time{})
	require.NoError(t, err)
	found := regexp.MustCompile(`console: http://\S+/(\?token=\w+)`).FindStringSubmatch(log)
	require.NotNil(t, found, log)
	b := open(t, page+found[1])
	jar := b.Jar
	b.Jar = nil
	status, _ := b.post("/v1/act", "kill", "meta-1")
	assert.Equal(t, http.StatusUnauthorized, status, "watching needs the token")
	b.Jar = jar
	s := b.until("it shows the whole cluster", func(s console.State) bool { return complete(s) && len(s.Clients) >= 2 })
	assert.Empty(t, s.Offers)
	status, answer := b.post("/v1/act", "kill", s.Leader)
	assert.Equal(t, http.StatusForbidden, status)
	assert.Contains(t, answer, "this console only watches")
}

// A console of this machine acts on the containers.
func TestComposeUp_ConsoleActs(t *testing.T) {
	composeUp(t)
	b := startConsole(t, "console", "--on", "compose", "--project", "conclave", "--compose-dir", "../..", "--allow-actions", "--listen", "127.0.0.1:0")
	before := b.until("the promises are checked", func(s console.State) bool { return complete(s) && s.Promises["L7"].Checks > 0 })
	for _, o := range before.Offers {
		if o.Do == "cut" {
			assert.Equal(t, []string{"meta"}, o.Roles)
			assert.Equal(t, []string{"db"}, o.With, "only a meta can be cut from one other: from the database")
		}
	}
	_, says := b.post("/v1/explain", "kill", before.Leader)
	assert.Contains(t, says, fmt.Sprintf("It leads term %d", before.Term))
	status, answer := b.post("/v1/act", "kill", before.Leader)
	require.Equal(t, http.StatusOK, status, answer)
	o := b.settled("kill " + before.Leader)
	assert.Greater(t, o.Term, before.Term)
	assert.Zero(t, o.Missing)
	killed := b.state()
	assert.Equal(t, "killed", killed.Nodes[before.Leader].State)
	assert.NotEqual(t, before.Leader, killed.Leader)

	status, answer = b.post("/v1/act", "freeze", "session-1")
	require.Equal(t, http.StatusOK, status, answer)
	b.until("it is frozen", func(s console.State) bool { return s.Nodes["session-1"].State == "suspended" })
	status, answer = b.post("/v1/act", "heal", "")
	require.Equal(t, http.StatusOK, status, answer)
	b.settled("heal all")
	healed := b.until("all are back", complete)
	assert.Nil(t, healed.Broken)
	assert.Greater(t, healed.Promises["L7"].Checks, before.Promises["L7"].Checks)
}
