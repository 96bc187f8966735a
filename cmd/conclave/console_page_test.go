package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/console"
	"conclave/testbed/console/journal"
)

// servedPage serves the page with a state of its own, and opens it.
func servedPage(t *testing.T, first console.State) (*console.Hub, *screen, string) {
	return actedPage(t, first, quiet{})
}

// quiet is a source that shows nothing by itself, and does nothing.
type quiet struct{ acts console.Acts }

func (q quiet) Acts() console.Acts                                         { return q.acts }
func (quiet) Act(context.Context, console.Request) error                   { return nil }
func (quiet) Explain(context.Context, console.Request) (string, error)     { return "", nil }
func (quiet) Why(context.Context, console.Request) ([]journal.Link, error) { return nil, nil }
func (quiet) List(context.Context, console.Request) (console.Listing, error) {
	return console.Listing{Rows: []any{}}, nil
}
func (quiet) Run(ctx context.Context, _ *console.Hub) error { <-ctx.Done(); return nil }

// actedPage is servedPage with a source, as one who may act.
func actedPage(t *testing.T, first console.State, source console.Source) (*console.Hub, *screen, string) {
	t.Helper()
	chromium(t)
	hub := console.NewHub()
	hub.Show(first)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	server := console.NewServer(console.Config{Hub: hub, Source: source})
	go func() { ended <- server.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	s := newScreen(t)
	address := "http://" + ln.Addr().String() + "/"
	path := ""
	if source.Acts() == console.Holder {
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
		s.Nodes[fmt.Sprintf("meta-%d", i+1)] = console.Node{Role: "meta", State: "ready", Leads: i == 0, Until: s.Now + 3000, LeaseOf: 3000}
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

// joinedState is a cluster of three data nodes and two sessions whose connections are known.
func joinedState() console.State {
	s := console.State{
		Mode: "live", Title: "joined", Now: 1_000_000, Leader: "meta-1", Term: 1, Slots: map[string]console.Slot{},
		Clients: map[string]console.Client{"session-1 c 0": {Name: "c", Session: "session-1"}, "session-2 d 0": {Name: "d", Session: "session-2"}},
		Nodes: map[string]console.Node{
			"db": {Role: "db", State: "ready"}, "meta-1": {Role: "meta", State: "ready", Leads: true, Until: 1_003_000, LeaseOf: 3000},
			"meta-2": {Role: "meta", State: "ready", Meta: "meta-1"}, "meta-3": {Role: "meta", State: "killed"},
			"data-1": {Role: "data", State: "ready", Meta: "meta-1"}, "data-2": {Role: "data", State: "suspended", Meta: "meta-1"}, "data-3": {Role: "data", State: "ready", Meta: "meta-2"},
			"session-1": {Role: "session", State: "ready", Meta: "meta-1"}, "session-2": {Role: "session", State: "ready"},
		},
	}
	for i := range 10 {
		s.Slots[strconv.Itoa(i)] = console.Slot{Leader: "data-1", Followers: []string{"data-2"}, Phase: "stable"}
	}
	s.Slots["10"] = console.Slot{Leader: "data-2", Followers: []string{"data-1"}, Phase: "stable"}
	s.Slots["11"] = console.Slot{Leader: "data-3", Phase: "stable"}
	return s
}

// lines is an expression for the number of lines of each kind.
const lines = `(() => { const out = {}; for (const p of document.querySelectorAll('#wires path')) out[p.getAttribute('class')] = (out[p.getAttribute('class')] || 0) + 1; return out; })()`

// The lines are what the cluster reports, and each node says in words what its own are.
func TestConsolePage_LinesAreTheConnectionsThatAreReported(t *testing.T) {
	state := joinedState()
	hub, s, _ := servedPage(t, state)
	s.until(`document.querySelectorAll('#wires path').length > 5`)
	assert.Equal(t, map[string]int{"database leads": 1, "database": 1, "stream": 4, "stream off": 1, "slots counted off": 1, "client": 2}, eval[map[string]int](s, lines))
	says := func(node string) string {
		return eval[string](s, fmt.Sprintf(`document.querySelector('[data-node=%q]').getAttribute('aria-label')`, node))
	}
	assert.Equal(t, "data-1: ready, 0 led, 0 followed, follows meta-1, follows 1 slot of data-2", says("data-1"))
	assert.Equal(t, "data-2: frozen, 0 led, 0 followed, follows meta-1, follows 10 slots of data-1", says("data-2"))
	assert.Equal(t, "meta-1: leads, term 1, connected to the database", says("meta-1"))
	assert.Equal(t, "meta-2: follows, follows meta-1, connected to the database", says("meta-2"))
	assert.Equal(t, "meta-3: killed", says("meta-3"), "it has no connection")
	assert.NotContains(t, says("session-2"), "follows", "none is invented")
	assert.Equal(t, "follows meta-2", eval[string](s, `document.querySelector('[data-node=data-3] .peer').textContent`), "which need not lead")
	assert.Equal(t, "10▸ ◂1", eval[string](s, `document.querySelector('#wires .of-slots').textContent`))

	// Those of a node that is chosen are emphasized.
	s.js(`document.querySelector('[data-node=data-1]').click()`)
	assert.Equal(t, 2, eval[int](s, `document.querySelectorAll('#wires .own').length`))
	s.js(`document.querySelector('[data-node=data-1]').click()`)
	assert.Equal(t, 0, eval[int](s, `document.querySelectorAll('#wires .own').length`))

	// What passes through a cut is no connection; a slow one is.
	state.Links = map[string]console.Link{"data-1 meta-1": {A: "data-1", B: "meta-1", What: "cut"}, "db meta-2": {A: "db", B: "meta-2", What: "slow"}}
	hub.Show(state)
	s.until(`document.querySelector('#wires .cut')`)
	got := eval[map[string]int](s, lines)
	assert.Equal(t, []int{1, 1, 0, 3}, []int{got["cut"], got["slow"], got["database"], got["stream"]}, "%v", got)
	assert.Equal(t, []string{"✕ cut", "… slow"}, eval[[]string](s, `['.of-cut', '.of-slow'].map(c => document.querySelector('#wires ' + c).textContent)`))
	assert.Contains(t, says("data-1"), "cut from meta-1")

	// Each kind is drawn in its own way, and the key below has each of them.
	drawn := eval[[]string](s, `[...document.querySelectorAll('#wires-key path')].map(p => getComputedStyle(p).strokeDasharray)`)
	assert.Len(t, drawn, 6)
	assert.Len(t, slices.Compact(slices.Sorted(slices.Values(drawn))), 6, "%v", drawn)
	assert.Equal(t, "true", eval[string](s, `document.getElementById('wires').getAttribute('aria-hidden')`))
	assert.Empty(t, s.errors())
}

// An update neither reads where the cards are, nor touches lines that have not changed.
func TestConsolePage_LinesAreMeasuredOnce(t *testing.T) {
	state := largeState()
	for i := range 1024 {
		state.Slots[strconv.Itoa(i)] = console.Slot{Leader: fmt.Sprintf("data-%d", i%9+1), Followers: []string{fmt.Sprintf("data-%d", (i+1+i/9%8)%9+1)}, Phase: "stable"}
	}
	for i := range 9 {
		state.Nodes[fmt.Sprintf("data-%d", i+1)] = console.Node{Role: "data", State: "ready", Meta: "meta-1"}
	}
	state.Nodes["session-1"] = console.Node{Role: "session", State: "ready", Meta: "meta-1"}
	hub, s, _ := servedPage(t, state)
	s.until(`document.querySelectorAll('#wires path').length === 3 + 10 + 36 + 40`)
	s.js(`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))`) // the first sizes were observed
	s.js(`window.reads = 0; const read = Element.prototype.getBoundingClientRect; Element.prototype.getBoundingClientRect = function() { if (this.closest('#map')) window.reads++; return read.call(this); };
		window.changed = 0; window.lines = 0; new MutationObserver(all => { for (const m of all) { const el = m.target.nodeType === 1 ? m.target : m.target.parentElement; if (!el?.closest('.ring')) window.changed++; if (el?.closest('#wires')) window.lines++; } }).observe(document.body, {subtree: true, childList: true, attributes: true, characterData: true})`)
	for n := range 20 {
		state.Nodes = maps.Clone(state.Nodes)
		state.Nodes["data-1"] = console.Node{Role: "data", State: "ready", Meta: "meta-1", Leading: n}
		state.Slots = maps.Clone(state.Slots)
		state.Slots["17"] = console.Slot{Leader: fmt.Sprintf("data-%d", n%9+1), Followers: []string{fmt.Sprintf("data-%d", (n+1)%9+1)}, Phase: "stable", Epoch: strconv.Itoa(n)}
		state.Now += 250
		hub.Show(state)
	}
	s.until(`consoleStats.updates >= 20`)
	changed := eval[int](s, `window.changed`)
	p95 := eval[float64](s, `[...consoleStats.took].sort((a, b) => a - b)[Math.floor(consoleStats.took.length * 0.95)]`)
	t.Logf("20 updates of a node and a slot: %.1f DOM changes each; p95 of the main thread's work %.1f ms", float64(changed)/20, p95)
	assert.LessOrEqual(t, changed, 20*30)
	assert.Zero(t, eval[int](s, `window.lines`))
	assert.Zero(t, eval[int](s, `window.reads`))

	state.Nodes = maps.Clone(state.Nodes)
	state.Nodes["data-10"] = console.Node{Role: "data", State: "ready", Meta: "meta-1"}
	hub.Show(state)
	s.until(`document.querySelectorAll('#wires path').length === 3 + 11 + 36 + 40`)
	assert.Positive(t, eval[int](s, `window.reads`), "another card")
	at := `document.querySelector('#wires path').getAttribute('d')`
	before := eval[string](s, at)
	s.run(chromedp.EmulateViewport(700, 844, chromedp.EmulateScale(1)))
	s.until(fmt.Sprintf(`%s !== %q`, at, before)) // another width
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
type hesitant struct {
	quiet
	kill chan struct{}
}

func (h *hesitant) Explain(ctx context.Context, r console.Request) (string, error) {
	if r.Do == "kill" {
		select {
		case <-h.kill:
		case <-ctx.Done():
		}
	}
	return "It would " + r.Do + " " + r.Node, nil
}

func TestConsolePage_KeepsWhatWasEnteredAndAsked(t *testing.T) {
	state := largeState()
	state.Offers = []console.Offer{
		{Do: "kill", Label: "Kill", Roles: []string{"meta"}}, {Do: "freeze", Label: "Freeze", Roles: []string{"meta"}},
		{Do: "cut", Label: "Cut from", Roles: []string{"meta"}, Peer: true}, {Do: "scenario", Label: "Play"}, {Do: "storm", Label: "Storm"}, {Do: "scenario-stop", Label: "Stop"},
	}
	state.Scenario = []string{"one", "two"}
	actor := &hesitant{quiet{console.Holder}, make(chan struct{})}
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

func TestConsolePage_SlotsAndTermsAreUsedByKeyboard(t *testing.T) {
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
	assert.Empty(t, s.errors())
}
