package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/console"
)

// emulate makes the browser report what a person prefers, such as
// "prefers-color-scheme" and "dark".
func (s *screen) emulate(features ...string) {
	s.t.Helper()
	p := emulation.SetEmulatedMediaParams{}
	for i := 0; i < len(features); i += 2 {
		p.Features = append(p.Features, &emulation.MediaFeature{Name: features[i], Value: features[i+1]})
	}
	s.run(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, p)
		return err
	}))
}

// eachState is a cluster in which something is in each state that the page can show.
func eachState() console.State {
	s := largeState()
	s.Nodes = map[string]console.Node{
		"db":        {Role: "db", State: "ready"},
		"meta-1":    {Role: "meta", State: "ready", Leads: true, Until: s.Now + 2000, LeaseOf: 3000},
		"meta-2":    {Role: "meta", State: "ready", Believes: true},
		"meta-3":    {Role: "meta", State: "ready", Observer: true},
		"meta-4":    {Role: "meta", State: "ready"},
		"data-1":    {Role: "data", State: "killed", Why: "killed by the console"},
		"data-2":    {Role: "data", State: "exited"},
		"data-3":    {Role: "data", State: "unreachable"},
		"data-4":    {Role: "data", State: "suspended"},
		"data-5":    {Role: "data", State: "draining", Leading: 3, Moving: 2},
		"data-6":    {Role: "data", State: "ready", Listed: "console"},
		"data-7":    {Role: "data", State: "ready", Leading: 80},
		"session-1": {Role: "session", State: "starting"},
		"session-2": {Role: "session", State: "ready", Member: "suspect"},
	}
	for i, phase := range []string{"preparing", "switching", "crash"} {
		s.Slots[fmt.Sprint(i)] = console.Slot{Leader: "data-7", Phase: phase}
	}
	s.Links = map[string]console.Link{"meta-4 db": {A: "meta-4", B: "db", What: "cut"}}
	s.Terms = map[string]console.Term{"1": {Term: 1, Owner: "meta-1", Cause: "vacant", LeaderlessMs: 700, At: s.Now - 4000}}
	s.Believed = map[string]console.Span{
		"meta-1 1": {Node: "meta-1", Term: 1, From: s.Now - 50_000, Open: true}, "meta-2 0": {Node: "meta-2", From: s.Now - 60_000, To: s.Now - 2000},
	}
	s.Promises = map[string]console.Promise{"I1": {ID: "I1", Says: "one owner per term", Checks: 3}, "I2": {ID: "I2", Says: "terms only rise", Checks: 3, Broken: 1}, "I3": {ID: "I3", Says: "no old effect"}}
	s.Load = &console.Load{Clients: 4, Level: 1, Missing: 1}
	s.Points = map[string]console.Point{"1": {At: s.Now, P50: 2, P99: 5, Missing: 1}}
	s.Outcomes = map[string]console.Outcome{"1": {What: "kill data-1", State: "settled"}, "2": {What: "kill data-2", State: "failed", Error: "no such process"}, "3": {What: "freeze data-4", State: "watching"}}
	s.Play = &console.Play{Name: "storm-7", State: "playing", Lasts: 20_000, Began: s.Now, Steps: []console.Step{{AtMs: 1000, What: "kill leader", Done: true}, {AtMs: 2000, What: "expect full", Done: true, Err: "false"}, {AtMs: 9000, What: "resume"}}}
	s.Scenario = []string{"one"}
	s.Offers = []console.Offer{
		{Do: "kill", Label: "Kill -9", Roles: []string{"meta"}, Risk: "fault"}, {Do: "resign", Label: "Resign", Roles: []string{"meta"}, Risk: "command"},
		{Do: "heal", Label: "Heal all", Risk: "heal"}, {Do: "scenario", Label: "Play"}, {Do: "storm", Label: "Storm"}, {Do: "scenario-stop", Label: "Stop"},
	}
	return s
}

// keeper is an actor that keeps what it was asked to do.
type keeper struct {
	quiet
	done chan console.Request
}

func (a *keeper) Explain(_ context.Context, r console.Request) (string, error) {
	return "It would " + r.Do + " " + r.Node, nil
}

func (a *keeper) Act(_ context.Context, r console.Request) error {
	a.done <- r
	return nil
}

// TestConsolePage_IsRead reads a page with everything on it in each way in which a
// person may: in light and dark, without colour, without motion, narrow, by keyboard.
func TestConsolePage_IsRead(t *testing.T) {
	state := eachState()
	actor := &keeper{quiet{console.Holder}, make(chan console.Request, 1)}
	hub, s, _ := actedPage(t, state, actor)
	events := []console.Event{{At: state.Now, Node: "meta-1", Kind: "leader.elected", Term: 1, Text: "meta-1 leads"}, {At: state.Now, Node: "data-1", Kind: "fault", Text: "kill data-1"}, {At: state.Now, Kind: "slot.serving", Text: "slot 1"}}
	state.Broken = &console.Broken{At: 1, ID: "I2", What: "a term fell", Evidence: []string{"meta-2 led"}, Before: []string{"kill data-1"}}
	s.js(`sessionStorage.setItem('seen', '1')`) // it does not stop there
	hub.Show(state, events...)
	s.until(`!document.getElementById('violation').hidden && document.querySelector('#event-rows tr.e-fault') && document.querySelector('#cluster-actions button')`)
	s.withoutColour()
	s.byKeyboard(actor)
	for _, scheme := range []string{"light", "dark"} {
		s.emulate("prefers-color-scheme", scheme, "prefers-reduced-motion", "reduce")
		assert.Empty(t, eval[[]string](s, faint), "too little contrast in %s", scheme)
	}
	for _, width := range []int{1280, 390} {
		s.fits(width)
	}
	s.motion(hub, state)
	assert.Empty(t, s.errors())
}

// faint is an expression for the texts whose contrast to what is behind them is below
// 4.5, each with its contrast. What is disabled may be faint.
const faint = `(() => {
	const rgba = c => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
	const luminance = c => { const [r, g, b] = c.map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const behind = el => {
		const bar = el.closest('#lanes g')?.querySelector('.led');
		if (bar && el.matches('.label')) return rgba(getComputedStyle(bar).fill);
		for (; el; el = el.parentElement) { const c = rgba(getComputedStyle(el).backgroundColor); if (c[3] === 1) return c; }
		return [255, 255, 255, 1];
	};
	const out = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	let n, seen = 0;
	while ((n = texts.nextNode())) {
		const el = n.parentElement;
		if (!n.data.trim() || !el.checkVisibility() || el.closest('title, :disabled')) continue;
		const style = getComputedStyle(el), svg = el instanceof SVGElement;
		const a = luminance(rgba(svg ? style.fill : style.color).slice(0, 3)), b = luminance(behind(el).slice(0, 3));
		const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		seen++;
		if (contrast < 4.5) out.push(contrast.toFixed(2) + ' ' + el.tagName + '.' + el.getAttribute('class') + ' ' + n.data.trim().slice(0, 40));
	}
	return seen > 200 ? out : ['only ' + seen + ' texts were found'];
})()`

// withoutColour checks that each state of a node has a word, and that each kind of
// state has a frame and a sign that no other kind has; a moving slot has a shape.
func (s *screen) withoutColour() {
	s.t.Helper()
	type look struct{ Kind, Sign, Word, Frame string }
	looks := eval[map[string]look](s, `Object.fromEntries([...document.querySelectorAll('.node')].map(n => {
		const c = getComputedStyle(n), [Sign, ...words] = n.children[1].textContent.split(' ');
		return [n.dataset.node, {Kind: n.className, Sign, Word: words.join(' '), Frame: [c.borderTopStyle, c.borderTopWidth, c.borderLeftStyle, c.borderLeftWidth, c.boxShadow === 'none'].join(' ')}];
	}))`)
	words, kinds, frames := map[string]string{}, map[string]string{}, map[string]string{}
	for name, l := range looks {
		require.NotEmpty(s.t, l.Word, name)
		assert.Contains(s.t, []string{"", l.Sign}, words[l.Word], "one sign for %q", l.Word)
		assert.Contains(s.t, []string{"", l.Frame}, kinds[l.Kind], "one frame for %q", l.Kind)
		assert.Contains(s.t, []string{"", l.Kind}, frames[l.Frame], "the frame %q is of one kind", l.Frame)
		words[l.Word], kinds[l.Kind], frames[l.Frame] = l.Sign, l.Frame, l.Kind
	}
	assert.ElementsMatch(s.t, []string{"ready", "leads", "believes it leads", "observes", "follows", "killed", "stopped", "no answer", "frozen", "draining", "blacklisted", "starting", "suspect"}, slices.Collect(maps.Keys(words)))
	assert.Len(s.t, frames, 6, "%v", frames)
	shapes := eval[[]string](s, `[0, 1, 2, 3].map(i => { const c = getComputedStyle(document.querySelector('[data-slot="' + i + '"]')); return [c.borderRadius, c.outlineStyle].join(' '); })`)
	assert.Len(s.t, slices.Compact(slices.Sorted(slices.Values(shapes))), 4, "%v", shapes)
}

// key types a key, such as kb.Enter.
func (s *screen) key(key string) {
	s.t.Helper()
	s.run(chromedp.KeyEvent(key))
}

// tabTo presses Tab until an element has the focus, and checks that it shows.
func (s *screen) tabTo(selector string) {
	s.t.Helper()
	for range 100 {
		s.key(kb.Tab)
		if eval[bool](s, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
			assert.Equal(s.t, "solid", eval[string](s, `getComputedStyle(document.activeElement).outlineStyle`), "%s shows the focus", selector)
			return
		}
	}
	s.t.Fatalf("%s is not reached by Tab", selector)
}

// byKeyboard kills a node with Tab and Enter alone.
func (s *screen) byKeyboard(actor *keeper) {
	s.t.Helper()
	s.tabTo("[data-node=meta-1]")
	s.key(kb.Enter)
	assert.Equal(s.t, "true", eval[string](s, `document.querySelector('[data-node=meta-1]').getAttribute('aria-pressed')`))
	s.tabTo("#node-actions [data-do=kill]")
	s.key(kb.Enter)
	s.until(`document.activeElement.id === 'confirm-do'`)
	assert.Equal(s.t, "It would kill meta-1", s.text("confirm-says"))
	s.key(kb.Enter)
	select {
	case r := <-actor.done:
		assert.Equal(s.t, console.Request{Do: "kill", Node: "meta-1", By: "127.0.0.1"}, r)
	case <-time.After(time.Minute):
		s.t.Fatal("nothing was done")
	}
	assert.Equal(s.t, "kill", eval[string](s, `document.activeElement.dataset.do`), "the focus is back")
	assert.Equal(s.t, 0, eval[int](s, `[...document.querySelectorAll('button, input, select, svg[role], [role=grid]')].filter(e => !(e.textContent.trim() || e.getAttribute('aria-label') || e.closest('label'))).length`), "each control has a name")
}

// motion checks that something moves between two updates, and that nothing does for a
// person who prefers that.
func (s *screen) motion(hub *console.Hub, state console.State) {
	s.t.Helper()
	s.js(`window.moved = 0; for (const kind of ['transitionrun', 'animationstart']) document.addEventListener(kind, () => window.moved++)`)
	update := func(leader string) {
		state.Now += 1000
		state.Slots = maps.Clone(state.Slots)
		state.Slots["9"] = console.Slot{Leader: leader, Phase: "stable"}
		state.Nodes = maps.Clone(state.Nodes)
		state.Nodes["meta-1"] = console.Node{Role: "meta", State: "ready", Leads: true, Until: state.Now + 2900 + int64(len(leader)), LeaseOf: 3000, Leading: len(leader)}
		hub.Show(state)
		s.until(fmt.Sprintf(`document.querySelector('[data-slot="9"]').getAttribute('aria-label').includes('%s,')`, leader))
	}
	ring := `document.querySelector('.ring text').textContent`
	s.emulate("prefers-reduced-motion", "reduce")
	update("data-1")
	assert.Equal(s.t, 0, eval[int](s, `new Promise(done => setTimeout(() => requestAnimationFrame(() => done(window.moved + document.getAnimations().length)), 300))`))
	assert.Equal(s.t, "2.9", eval[string](s, ring), "the ring stands until the next update")
	s.emulate("prefers-reduced-motion", "no-preference")
	update("data-4")
	s.until(`window.moved > 0`)
	s.until(ring + ` !== '2.9'`)
}
