package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stdout is what a command has printed so far.
type stdout struct {
	mu  sync.Mutex
	all strings.Builder
}

func (o *stdout) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.Write(p)
}

func (o *stdout) find(t *testing.T, re string) string {
	t.Helper()
	var found []string
	require.Eventually(t, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		found = regexp.MustCompile(re).FindStringSubmatch(o.all.String())
		return found != nil
	}, 90*time.Second, 50*time.Millisecond, "%s", re)
	return found[1]
}

// serveConsole runs a command that serves the console until the test ends, and
// returns what it prints.
func serveConsole(t *testing.T, args ...string) *stdout {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var out, errs stdout
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, args, &out, &errs) }()
	t.Cleanup(func() {
		cancel()
		assert.Equal(t, exitDone, <-ended, errs.all.String())
	})
	return &out
}

// upWithConsole starts a cluster with its console, and returns the addresses for
// watching and for acting.
func upWithConsole(t *testing.T) (watch, act string) {
	t.Helper()
	out := serveConsole(t, "--dir", filepath.Join(t.TempDir(), "c"), "up", "--console=127.0.0.1:0")
	return out.find(t, `console: (http://\S+)`), out.find(t, `to act:  (http://\S+)`)
}

// TestConsole plays the story of a person who watches a fresh cluster and breaks
// it.
func TestConsole(t *testing.T) {
	chromium(t)
	realPrograms(t)
	watch, act := upWithConsole(t)

	s := newScreen(t)
	s.run(chromedp.Navigate(watch))
	s.until(`document.getElementById('leader').textContent.startsWith('meta-')`)
	s.until(`document.getElementById('may').textContent.includes('one-time link')`)
	assert.Equal(t, 0, eval[int](s, `document.querySelectorAll('#node-actions button, #cluster-actions button').length`), "without the link nothing can be done")
	s.run(chromedp.Navigate(act))
	s.until(`document.querySelector('#cluster-actions button')`)
	again, err := http.Get(act)
	require.NoError(t, err)
	again.Body.Close()
	assert.Equal(t, http.StatusForbidden, again.StatusCode, "the link is good once")
	s.until(`document.querySelectorAll('#slots i').length === 256`)
	s.until(`document.querySelectorAll('.node[data-state=ready]').length === 9`)
	s.until(`Number(document.getElementById('checks').textContent.replaceAll(',', '')) > 0`)
	s.allFollow(s.text("leader"))
	s.until(`document.querySelectorAll('#wires .database').length === 3 && document.querySelectorAll('#wires .slots').length === 3`)
	s.until(`document.querySelectorAll('#wires .client').length === document.querySelector('#map .clients').children.length && document.querySelector('#wires .client')`)
	s.picture("console.png", "")
	checks := s.number("checks")
	for _, chapter := range []func(){s.killsTheLeader, s.drains, s.freezesTheLeader, s.cutsFromTheDatabase, s.resigns, s.loads, s.playsAScenario, s.playsAStorm} {
		chapter()
	}

	// A reload finds the same state.
	state := []string{s.text("leader"), s.text("term"), s.text("play-name"), eval[string](s, `document.getElementById('outcomes').textContent`)}
	s.run(chromedp.Reload())
	s.until(`document.querySelectorAll('#slots i').length === 256`)
	assert.Equal(t, state, []string{s.text("leader"), s.text("term"), s.text("play-name"), eval[string](s, `document.getElementById('outcomes').textContent`)})
	s.until(`document.querySelector('#cluster-actions button')`) // it may still act

	// What the page has checked, and what an update costs.
	s.until(fmt.Sprintf(`Number(document.getElementById('checks').textContent.replaceAll(',', '')) > %d`, checks))
	assert.Equal(t, 0, s.number("broken"), s.text("violation-what"))
	s.until(`document.getElementById('missing').textContent === '0'`)
	s.cost()
	s.foreign(watch)
	s.fits(390)
	s.js(`document.getElementById('services').scrollIntoView()`)
	s.until(`document.querySelector('#list tbody button') && !document.getElementById('list').textContent.includes('did not answer')`) // its nodes want a token
	// The storm that was stopped may have left some of its own, whose clients are gone.
	s.until(`[...document.querySelectorAll('#list tbody button')].some(b => !b.textContent.startsWith('client-'))`)
	s.js(`[...document.querySelectorAll('#list tbody button')].find(b => !b.textContent.startsWith('client-')).click()`)
	s.until(`document.querySelector('#service-pushes tbody tr') && document.querySelectorAll('#way rect').length >= 6`)
	assert.Empty(t, s.errors(), "errors in the browser's console")
}

// cost counts the changed DOM nodes of each update while nothing happens.
func (s *screen) cost() {
	s.t.Helper()
	type cost struct {
		Updates int     `json:"updates"`
		Changed int     `json:"changed"`
		P95     float64 `json:"p95"`
	}
	c := eval[cost](s, `new Promise(done => {
		let changed = 0; const before = consoleStats.updates;
		const o = new MutationObserver(all => { changed += all.length; });
		o.observe(document.body, {subtree: true, childList: true, attributes: true, characterData: true});
		setTimeout(() => { o.disconnect(); const t = [...consoleStats.took].sort((a, b) => a - b);
			done({updates: consoleStats.updates - before, changed, p95: t[Math.floor(t.length * 0.95)]}); }, 4000);
	})`)
	s.t.Logf("%d updates, %.1f DOM changes each, 95 %% of all updates took at most %.1f ms", c.Updates, float64(c.Changed)/float64(max(1, c.Updates)), c.P95)
	assert.Positive(s.t, c.Updates)
	assert.Less(s.t, c.Changed, 60*max(1, c.Updates), "an update changes only what differs")
}

// foreign opens a page of another origin, which tries to act. It is on the same
// address, so that the browser's cookie belongs to it too.
func (s *screen) foreign(watch string) {
	s.t.Helper()
	require.Empty(s.t, s.errors(), "errors in the browser's console")
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>evil</title>")
	}))
	defer evil.Close()
	term := s.number("term")
	leader := s.text("leader")
	s.run(chromedp.Navigate(evil.URL))
	for _, kind := range []string{"application/json", "text/plain"} {
		answer := eval[string](s, fmt.Sprintf(`fetch('%sv1/act', {method: 'POST', credentials: 'include', mode: %q, headers: {'Content-Type': %q}, body: '{"do":"kill","node":%q}'}).then(r => r.type + r.status, e => 'refused')`,
			watch, map[string]string{"application/json": "cors", "text/plain": "no-cors"}[kind], kind, leader))
		assert.Contains(s.t, []string{"refused", "opaque0"}, answer, kind)
	}
	s.mu.Lock()
	s.said = nil // the browser reports that it has refused
	s.mu.Unlock()
	s.run(chromedp.Navigate(watch))
	s.until(`document.querySelectorAll('.node[data-state=ready]').length === 9`)
	assert.Equal(s.t, term, s.number("term"), "nothing was killed")
}

func TestShownAddress_IsOneThatABrowserCanOpen(t *testing.T) {
	at := func(address string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address)) }
	assert.Equal(t, "127.0.0.1:9700", shownAddress(at("127.0.0.1:9700"), []string{"a"}))
	assert.Equal(t, "127.0.0.1:9700", shownAddress(at("0.0.0.0:9700"), nil))
	assert.Equal(t, "a:9700", shownAddress(at("[::]:9700"), []string{"a"}))
}

func TestConsole_RefusesWhatCannotBe(t *testing.T) {
	for want, args := range map[string][]string{
		"--allow-actions needs the cluster in":                           {"--meta", "127.0.0.1:1", "console", "--allow-actions"},
		"--on compose excludes":                                          {"--meta", "127.0.0.1:1", "console", "--on", "compose"},
		`invalid argument "moon" for "--on" flag: want local or compose`: {"console", "--on", "moon"},
		`--project: project name "A"`:                                    {"console", "--on", "compose", "--project", "A"},
		`--console "foo": want HOST:PORT`:                                {"up", "--console=foo"},
		`--console "127.0.0.1:99999": want`:                              {"up", "--console=127.0.0.1:99999"},
		`data-nodes is 0: want at least 1`:                               {"up", "--data-nodes", "0"},
		`--listen "9700": want HOST:PORT`:                                {"--meta", "127.0.0.1:1", "console", "--listen", "9700"},
		"--console excludes --detach":                                    {"--dir", t.TempDir(), "up", "--console", "--detach"},
	} {
		r := tool(t, args...)
		assert.Equal(t, exitUsage, r.code, "%v", args)
		assert.Contains(t, r.stderr, want)
	}
}
