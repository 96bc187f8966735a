package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/console"
)

// chromium returns the path of a browser, or skips the test.
func chromium(t *testing.T) string {
	t.Helper()
	if os.Getenv("TEST_ALL") == "" {
		t.Skip("make test-browser runs this one")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("REQUIRE_BROWSER") != "" {
		t.Fatal("no browser: install chromium")
	}
	t.Skip("NO BROWSER: the console's page was not tested; install chromium")
	return ""
}

// screen is one browser with one page.
type screen struct {
	t   *testing.T
	ctx context.Context

	mu   sync.Mutex // guards said
	said []string   // errors in the browser's console
}

func newScreen(t *testing.T) *screen {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)), chromedp.WindowSize(1280, 900),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.UserDataDir(t.TempDir()))
	if os.Geteuid() == 0 {
		opts = append(opts, chromedp.NoSandbox)
	}
	alloc, endAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, end := chromedp.NewContext(alloc)
	s := &screen{t: t, ctx: ctx}
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits until the browser has ended
		end()
		endAlloc()
	})
	require.NoError(t, chromedp.Do(ctx)) // starts the browser
	require.NoError(t, chromedp.Listen(ctx, func(ev any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch ev := ev.(type) {
		case *log.EventEntryAdded: // what the browser itself reports, such as a refused request
			if ev.Entry.Level == log.EntryLevelError {
				s.said = append(s.said, ev.Entry.Text+" "+ev.Entry.URL)
			}
		case *cdpruntime.EventExceptionThrown:
			s.said = append(s.said, fmt.Sprintf("%+v", ev.ExceptionDetails))
		case *cdpruntime.EventConsoleAPICalled:
			if ev.Type == cdpruntime.ConsoleAPICalledTypeError || ev.Type == cdpruntime.ConsoleAPICalledTypeWarning {
				s.said = append(s.said, fmt.Sprintf("%+v", ev.Args))
			}
		}
	}))
	return s
}

// errors returns what the browser's console has reported.
func (s *screen) errors() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.said)
}

func (s *screen) run(actions ...chromedp.Action[chromedp.Void]) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	require.NoError(s.t, chromedp.Do(ctx, actions...))
}

// eval returns the value of an expression in the page; of a promise, that to which
// it is resolved.
func eval[T any](s *screen, js string) T {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	wait := true
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](js, func(p *cdpruntime.EvaluateParams) { p.AwaitPromise = &wait }))
	require.NoError(s.t, err, js)
	return out
}

// js executes statements in the page.
func (s *screen) js(format string, args ...any) {
	s.t.Helper()
	eval[bool](s, fmt.Sprintf("{"+format+"}; true", args...))
}

func (s *screen) text(id string) string {
	return eval[string](s, fmt.Sprintf("document.getElementById(%q)?.textContent ?? ''", id))
}

func (s *screen) number(id string) int {
	n, err := strconv.Atoi(strings.ReplaceAll(s.text(id), ",", ""))
	if err != nil {
		return -1
	}
	return n
}

// until waits until an expression is true, and shows the page if it never is.
func (s *screen) until(js string) {
	s.t.Helper()
	ok := assert.Eventually(s.t, func() bool { return eval[bool](s, "!!("+js+")") }, 40*time.Second, 100*time.Millisecond, js)
	if !ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.t.Fatal(s.said, eval[string](s, "document.body.innerText"))
	}
}

// press clicks an action and agrees to it, and returns the effect that it announces.
func (s *screen) press(selector string) string {
	s.t.Helper()
	s.until(fmt.Sprintf("document.querySelector(%q)", selector))
	s.js("document.querySelector(%q).click()", selector)
	s.until(`document.getElementById('confirm').open && !document.getElementById('confirm-do').disabled`)
	says := s.text("confirm-says")
	s.run(chromedp.Click(chromedp.CSS("#confirm-do")))
	return says
}

// on chooses a node and does something to it.
func (s *screen) on(node, do string) string {
	s.t.Helper()
	s.js(`const n = document.querySelector('[data-node=%q]'); if (n.getAttribute('aria-pressed') !== 'true') n.click();`, node)
	return s.press(fmt.Sprintf("#node-actions [data-do=%s]", do))
}

// settled waits until the newest outcome is about what, and has settled; it returns
// its text.
func (s *screen) settled(what string) string {
	s.t.Helper()
	s.until(fmt.Sprintf(`document.querySelector('#outcomes li.settled b')?.textContent.includes(%q) && document.querySelector('#outcomes li b').textContent.includes(%q)`, what, what))
	return eval[string](s, `document.querySelector('#outcomes li').textContent`)
}

// picture writes a picture of the page or of an element into docs, if the pictures
// are to be drawn again.
func (s *screen) picture(name, selector string) {
	s.t.Helper()
	dir := os.Getenv("CONSOLE_PICTURES")
	if dir == "" {
		return
	}
	shot := chromedp.CaptureScreenshot()
	if selector != "" {
		shot = chromedp.Screenshot(chromedp.CSS(selector))
	}
	png, err := chromedp.Run(s.ctx, shot)
	require.NoError(s.t, err)
	require.NoError(s.t, os.WriteFile(filepath.Join(dir, name), png, 0o644))
}

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

// TestConsole plays the story of a person who watches a fresh cluster and breaks
// it.
func TestConsole(t *testing.T) {
	chromium(t)
	realPrograms(t)
	dir := filepath.Join(t.TempDir(), "c") // removed after the cluster has ended
	ctx, cancel := context.WithCancel(context.Background())
	var out, errs stdout
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"--dir", dir, "up", "--console=127.0.0.1:0"}, &out, &errs)
	}()
	t.Cleanup(func() {
		cancel()
		assert.Equal(t, exitDone, <-ended, errs.all.String())
	})
	act := out.find(t, `to act:  (http://\S+)`)
	watch := out.find(t, `console: (http://\S+)`)

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
	s.picture("console.png", "")

	// The leader is killed.
	leader, term, checks := s.text("leader"), s.number("term"), s.number("checks")
	assert.Contains(t, s.on(leader, "kill"), fmt.Sprintf("It leads term %d", term))
	s.until(fmt.Sprintf(`document.getElementById('term').textContent === '%d'`, term+1))
	s.until(fmt.Sprintf(`document.querySelector('[data-node=%q]').className.includes('down')`, leader))
	what := s.settled("kill " + leader)
	assert.Regexp(t, fmt.Sprintf(`term %d, leaderless for [0-9.]+ m?s`, term+1), what)
	assert.Contains(t, what, "missing 0")
	s.picture("console-failover.png", ".terms")
	s.on(leader, "start")
	s.settled("start " + leader)

	// A data node is drained.
	s.until(`document.querySelector('[data-node=data-2]').textContent.includes('8')`)
	s.js(`window.phases = new Set(); new MutationObserver(all => all.forEach(m => window.phases.add(m.target.className.split(' ')[1]))).observe(document.getElementById('slots'), {attributes: true, subtree: true, attributeFilter: ['class']})`)
	assert.Contains(t, s.on("data-2", "drain"), "hands its")
	s.until(`document.querySelector('[data-node=data-2]').textContent.includes('blacklisted')`)
	s.picture("console-drain.png", "main > .slots")
	s.until(`![...document.querySelectorAll('#slots i')].some(i => i.textContent === '2')`)
	assert.True(t, eval[bool](s, `window.phases.size > 0`), "the cells have changed")
	assert.Contains(t, s.settled("drain data-2"), "unreadable for")
	s.on("data-2", "restore")
	s.until(`[...document.querySelectorAll('#slots i')].some(i => i.textContent === '2')`)

	// The leader is frozen, and thawed.
	leader, term = s.text("leader"), s.number("term")
	s.on(leader, "freeze")
	s.until(fmt.Sprintf(`Number(document.getElementById('term').textContent) > %d`, term))
	s.until(fmt.Sprintf(`document.querySelector('[data-node=%q]').textContent.includes('frozen')`, leader))
	s.settled("freeze " + leader)
	s.on(leader, "thaw")
	s.until(fmt.Sprintf(`document.querySelector('[data-node=%q]').textContent.includes('follows')`, leader))
	s.settled("thaw " + leader)

	// A scenario.
	s.js(`document.getElementById("scenario").value = "f16-kill-a-data-node"`)
	s.press("#cluster-actions [data-do=scenario]")
	s.until(`document.querySelectorAll('#play-axis circle.done').length > 2`)
	s.patience(`document.getElementById('play-name').textContent.endsWith('passed')`)

	// A reload finds the same state.
	state := []string{s.text("leader"), s.text("term"), s.text("play-name"), eval[string](s, `document.getElementById('outcomes').textContent`)}
	s.run(chromedp.Reload())
	s.until(`document.querySelectorAll('#slots i').length === 256`)
	assert.Equal(t, state, []string{s.text("leader"), s.text("term"), s.text("play-name"), eval[string](s, `document.getElementById('outcomes').textContent`)})
	assert.True(t, eval[bool](s, `!!document.querySelector('#cluster-actions button')`) || assert.Eventually(t, func() bool {
		return eval[bool](s, `!!document.querySelector('#cluster-actions button')`)
	}, 10*time.Second, 100*time.Millisecond), "it may still act")

	// What the page has checked, and what an update costs.
	s.until(fmt.Sprintf(`Number(document.getElementById('checks').textContent.replaceAll(',', '')) > %d`, checks))
	assert.Equal(t, 0, s.number("broken"), s.text("violation-what"))
	assert.Equal(t, 0, s.number("missing"))
	s.cost()
	s.foreign(watch)
	s.phone()
	assert.Empty(t, s.errors(), "errors in the browser's console")
}

// patience is until for what takes longer than an action.
func (s *screen) patience(js string) {
	s.t.Helper()
	ok := assert.Eventually(s.t, func() bool { return eval[bool](s, "!!("+js+")") }, 2*time.Minute, 200*time.Millisecond, js)
	if !ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.t.Fatal(s.said, eval[string](s, "document.body.innerText"))
	}
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

// phone opens the page as wide as a phone: nothing is cut off.
func (s *screen) phone() {
	s.t.Helper()
	s.run(chromedp.EmulateViewport(390, 844, chromedp.EmulateScale(1), chromedp.EmulateMobile))
	s.until(`document.querySelectorAll('#slots i').length === 256`)
	assert.LessOrEqual(s.t, eval[int](s, `document.documentElement.scrollWidth`), 390)
	s.run(chromedp.ResetViewport())
}

func TestShownAddress_IsOneThatABrowserCanOpen(t *testing.T) {
	at := func(address string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address)) }
	assert.Equal(t, "127.0.0.1:9700", shownAddress(at("127.0.0.1:9700"), []string{"a"}))
	assert.Equal(t, "127.0.0.1:9700", shownAddress(at("0.0.0.0:9700"), nil))
	assert.Equal(t, "a:9700", shownAddress(at("[::]:9700"), []string{"a"}))
}

func TestConsole_RefusesWhatCannotBe(t *testing.T) {
	for want, args := range map[string][]string{
		"--allow-actions needs a local cluster": {"--meta", "127.0.0.1:1", "console", "--allow-actions"},
		`--console "foo": want HOST:PORT`:       {"up", "--console=foo"},
		`--console "127.0.0.1:99999": want`:     {"up", "--console=127.0.0.1:99999"},
		`data-nodes is 0: want at least 1`:      {"up", "--data-nodes", "0"},
		`--listen "9700": want HOST:PORT`:       {"--meta", "127.0.0.1:1", "console", "--listen", "9700"},
		"--console excludes --detach":           {"--dir", t.TempDir(), "up", "--console", "--detach"},
	} {
		r := tool(t, args...)
		assert.Equal(t, exitUsage, r.code, "%v", args)
		assert.Contains(t, r.stderr, want)
	}
}

// servedPage serves the page with a state of its own, and opens it.
func servedPage(t *testing.T, first console.State) (*console.Hub, *screen, string) {
	return actedPage(t, first, nil)
}

// actedPage is servedPage with an actor, as one who may act.
func actedPage(t *testing.T, first console.State, actor console.Actor) (*console.Hub, *screen, string) {
	t.Helper()
	chromium(t)
	hub := console.NewHub()
	hub.Show(first)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	server := console.NewServer(console.Config{Hub: hub, Actor: actor})
	go func() { ended <- server.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	s := newScreen(t)
	address := "http://" + ln.Addr().String() + "/"
	path := ""
	if actor != nil {
		path = strings.TrimPrefix(server.Link(), "/")
	}
	s.run(chromedp.Navigate(address + path))
	s.until(`document.getElementById('term').textContent === '1'`)
	return hub, s, address
}

// largeState is a cluster with a thousand slots, nine data nodes and 200 clients.
func largeState() console.State {
	s := console.State{
		Mode: "live", Title: "a large cluster", Now: 1_000_000, Leader: "meta-1", Term: 1, Nodes: map[string]console.Node{"db": {Role: "db", State: "ready"}},
		Slots: map[string]console.Slot{}, Clients: map[string]console.Client{},
	}
	for i := range 9 {
		s.Nodes[fmt.Sprintf("data-%d", i+1)] = console.Node{Role: "data", State: "ready", Leading: 1024 / 9}
	}
	for i := range 3 {
		s.Nodes[fmt.Sprintf("meta-%d", i+1)] = console.Node{Role: "meta", State: "ready", Leads: i == 0, LeaseMs: 3000, LeaseOf: 3000}
	}
	for i := range 1024 {
		s.Slots[strconv.Itoa(i)] = console.Slot{Leader: fmt.Sprintf("data-%d", i%9+1), Phase: "stable"}
	}
	for i := range 200 {
		s.Clients[fmt.Sprintf("c%d", i)] = console.Client{Name: fmt.Sprintf("client-%d", i), Session: "session-1"}
	}
	return s
}

func TestConsolePage_ChangesOnlyWhatDiffers(t *testing.T) {
	state := largeState()
	hub, s, _ := servedPage(t, state)
	s.until(`document.querySelectorAll('#slots i').length === 1024`)
	s.js(`window.changed = 0; new MutationObserver(all => { for (const m of all) if (!m.target.closest?.('.ring') && !m.target.parentElement?.closest('.ring')) window.changed++; }).observe(document.body, {subtree: true, childList: true, attributes: true, characterData: true})`)
	for n := range 20 {
		state.Slots = maps.Clone(state.Slots)
		state.Slots["17"] = console.Slot{Leader: fmt.Sprintf("data-%d", n%9+1), Phase: "stable", Epoch: strconv.Itoa(n)}
		state.Now += 250
		hub.Show(state)
	}
	s.until(`consoleStats.updates >= 20`)
	changed := eval[int](s, `window.changed`)
	p95 := eval[float64](s, `[...consoleStats.took].sort((a, b) => a - b)[Math.floor(consoleStats.took.length * 0.95)]`)
	t.Logf("20 updates of one slot of 1024: %.1f DOM changes each; p95 of the main thread's work %.1f ms", float64(changed)/20, p95)
	assert.LessOrEqual(t, changed, 20*25)
	assert.Empty(t, s.errors())
}

func TestConsolePage_StopsAtTheFirstViolation(t *testing.T) {
	state := largeState()
	hub, s, _ := servedPage(t, state)
	state.Broken = &console.Broken{At: 1_000_100, ID: "I1", What: "two leaders", Evidence: []string{"meta-1 led term 7"}, Before: []string{"FAULT pause meta-1"}}
	state.Promises = map[string]console.Promise{"I1": {ID: "I1", Says: "one owner per term", Checks: 3, Broken: 1}}
	hub.Show(state)
	s.until(`!document.getElementById('violation').hidden`)
	for _, want := range []string{"I1: two leaders", "meta-1 led term 7", "FAULT pause meta-1"} {
		assert.Contains(t, s.text("violation"), want)
	}
	assert.Equal(t, "✗ 1", eval[string](s, `document.querySelector('[data-promise=I1]').children[3].textContent`))
	state.Term = 2
	hub.Show(state)
	state.Term = 3
	hub.Show(state)
	s.until(`document.getElementById('link').textContent.includes('stopped')`)
	assert.Equal(t, "1", s.text("term"), "the page has stopped")
	s.js(`document.getElementById('go-on').click()`)
	s.until(`document.getElementById('term').textContent === '3'`)
}

// After a jump in a recording the page shows nothing that it had shown before it.
func TestConsolePage_ForgetsWhatASnapshotLeavesOut(t *testing.T) {
	state := largeState()
	state.Mode, state.Now = "recording", 5000
	state.Broken = &console.Broken{At: 5000, ID: "I1", What: "two leaders"}
	state.Links = map[string]console.Link{"meta-1 meta-2": {A: "meta-1", B: "meta-2", What: "cut"}, "data-1 client-1": {A: "data-1", B: "client-1", What: "cut"}}
	state.Believed = map[string]console.Span{"meta-1 1": {Node: "meta-1", Term: 1, From: 1000, To: 4000}}
	state.Points = map[string]console.Point{"1": {At: 4000, P50: 2, P99: 5}}
	state.Checking = &console.Checking{Until: 5000, How: "when it was recorded"}
	state.Slots["0"] = console.Slot{Leader: "data-1", Phase: "stable", Moves: []console.Move{{At: 1500, From: "data-2", To: "data-1"}}}
	hub, s, _ := servedPage(t, state)
	s.until(`!document.getElementById('violation').hidden`)
	s.until(`document.querySelector('#map .clients').children.length === 40`)
	s.until(`document.querySelector('#lanes .led')`)
	cuts := `[...document.querySelectorAll('#wires .cut')].length`
	assert.Equal(t, 1, eval[int](s, cuts), "a client has no card: data-1 is not cut from everyone")
	s.js(`document.querySelector('#slots i').click()`)
	assert.Contains(t, s.text("slot"), "1.500 s data-2 to data-1")

	before := state
	before.Now, before.Broken, before.Clients, before.Links, before.Points, before.Checking = 0, nil, nil, nil, nil, nil
	before.Believed = map[string]console.Span{"meta-1 1": {Node: "meta-1", Term: 1, From: -500, Open: true}}
	hub.Restart(before, nil)
	s.until(`document.getElementById('violation').hidden`)
	assert.False(t, eval[bool](s, `document.documentElement.hasAttribute('data-broken')`))
	assert.Equal(t, 0, eval[int](s, `document.querySelector('#map .clients').children.length`))
	assert.Equal(t, 0, eval[int](s, cuts))
	assert.Empty(t, eval[string](s, `document.querySelector('#plot .p50').getAttribute('points')`))
	assert.NotContains(t, s.text("promises-sum"), "when it was recorded")
	assert.Contains(t, eval[string](s, `document.querySelector('#lanes .led').parentElement.textContent`), "from -0.500 s", "at 0 it is drawn")
	assert.Empty(t, s.errors())
}

// hesitant is an actor that explains a kill when it is asked to.
type hesitant struct{ kill chan struct{} }

func (h *hesitant) Explain(ctx context.Context, r console.Request) (string, error) {
	if r.Do == "kill" {
		select {
		case <-h.kill:
		case <-ctx.Done():
		}
	}
	return "It would " + r.Do + " " + r.Node, nil
}

func (h *hesitant) Act(context.Context, console.Request) error { return nil }

func (h *hesitant) Harmless(console.Request) bool { return false }

func TestConsolePage_KeepsWhatWasEnteredAndAsked(t *testing.T) {
	state := largeState()
	state.Offers = []console.Offer{
		{Do: "kill", Label: "Kill", Roles: []string{"meta"}}, {Do: "freeze", Label: "Freeze", Roles: []string{"meta"}},
		{Do: "cut", Label: "Cut from", Roles: []string{"meta"}, Peer: true}, {Do: "scenario", Label: "Play"}, {Do: "storm", Label: "Storm"}, {Do: "scenario-stop", Label: "Stop"},
	}
	state.Scenario = []string{"one", "two"}
	actor := &hesitant{kill: make(chan struct{})}
	hub, s, _ := actedPage(t, state, actor)
	s.until(`document.getElementById('seed')`)
	s.js(`document.querySelector('[data-node=meta-1]').click()`)
	ask := func(do string) { s.js(`document.querySelector('#node-actions [data-do=%s]').click()`, do) }

	// A late answer is not that to the next question.
	ask("kill")
	s.until(`document.getElementById('confirm').open`)
	s.js(`document.getElementById('confirm-no').click()`)
	ask("freeze")
	s.until(`document.getElementById('confirm-says').textContent === 'It would freeze meta-1'`)
	s.js(`window.answered = false; const json = Response.prototype.json; Response.prototype.json = async function() { const v = await json.call(this); setTimeout(() => { window.answered = true; }); return v; }`)
	close(actor.kill)
	s.until(`window.answered`)
	assert.Equal(t, "It would freeze meta-1", s.text("confirm-says"))
	s.js(`document.getElementById('confirm-no').click()`)

	// What was entered and the focus outlive a change of the nodes.
	s.js(`document.getElementById('scenario').value = 'two'; document.getElementById('seed').value = '17'; const p = document.querySelector('#node-actions select'); p.value = 'meta-3'; p.focus()`)
	state.Nodes = maps.Clone(state.Nodes)
	delete(state.Nodes, "data-9")
	state.Nodes["meta-4"] = console.Node{Role: "meta", State: "ready"}
	hub.Show(state)
	s.until(`[...document.querySelectorAll('#node-actions option')].some(o => o.value === 'meta-4')`)
	assert.Equal(t, []string{"two", "17", "meta-3", "SELECT"}, eval[[]string](s, `[document.getElementById('scenario').value, document.getElementById('seed').value, document.querySelector('#node-actions select').value, document.activeElement.tagName]`))
	assert.Empty(t, s.errors())
}

func TestConsolePage_IsUsedByKeyboard(t *testing.T) {
	state := largeState()
	state.Believed = map[string]console.Span{"meta-1 1": {Node: "meta-1", Term: 1, From: state.Now - 5000, Open: true}}
	_, s, _ := servedPage(t, state)
	press := func(id, key string) {
		s.js(`document.getElementById(%q).dispatchEvent(new KeyboardEvent('keydown', {key: %q, bubbles: true, cancelable: true}))`, id, key)
	}
	for _, key := range []string{"ArrowRight", "ArrowRight", "ArrowLeft", "ArrowRight"} {
		press("slots", key)
	}
	assert.Contains(t, s.text("slot"), "Slot 2: led by data-3")
	assert.Equal(t, "2", eval[string](s, `document.activeElement.dataset.slot`), "the chosen cell has the focus")
	width := eval[float64](s, `Number(document.querySelector('#lanes .led').getAttribute('width'))`)
	press("lanes", "+")
	assert.InDelta(t, 2*width, eval[float64](s, `Number(document.querySelector('#lanes .led').getAttribute('width'))`), 1, "zoomed in")
	press("lanes", "ArrowLeft")
	assert.Equal(t, "false", eval[string](s, `document.getElementById('follow').getAttribute('aria-pressed')`))
	press("lanes", "End")
	assert.Equal(t, "true", eval[string](s, `document.getElementById('follow').getAttribute('aria-pressed')`))
	assert.Equal(t, 0, eval[int](s, `[...document.querySelectorAll('button, input, select, svg[role], [role=grid]')].filter(e => !(e.textContent.trim() || e.getAttribute('aria-label') || e.closest('label'))).length`), "each control has a name")
	assert.Empty(t, s.errors())
}
