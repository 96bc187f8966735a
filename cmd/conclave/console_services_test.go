package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/testbed/console"
)

// shelf has ten thousand services of one publisher each; "hostile" is one of them.
type shelf struct {
	quiet
	mu    sync.Mutex // guards asked
	asked []console.Request
}

const hostile = `<img src=x onerror=alert(1)>`

func (s *shelf) List(_ context.Context, r console.Request) (console.Listing, error) {
	s.mu.Lock()
	s.asked = append(s.asked, r)
	s.mu.Unlock()
	name := func(id string) map[string]any {
		return map[string]any{"dataId": id, "instance": "DEFAULT_INSTANCE_ID", "group": "DEFAULT_GROUP", "slot": 17}
	}
	out := []any{}
	switch {
	case r.Do == "services":
		from, _ := strconv.Atoi(r.After)
		for i := from; i < 10_000 && len(out) < 50; i++ {
			id := fmt.Sprintf("service-%05d", i)
			if i == 0 {
				id = hostile
			}
			if strings.Contains(id, r.Value) {
				row := name(id)
				row["publishers"], row["version"] = 1, 3
				out = append(out, map[string]any{"row": row, "node": "data-1"})
			}
			from = i + 1
		}
		next := strconv.Itoa(from)
		if from == 10_000 {
			next = ""
		}
		return console.Listing{Rows: out, Next: next, Silent: []string{"data-9"}}, nil
	case r.Do == "publishers" && r.After == "":
		for i := range 2 {
			out = append(out, map[string]any{"node": fmt.Sprint("session-", i+1), "row": map[string]any{
				"id": fmt.Sprint("id", i), "data": name("service-00123"), "values": []string{fmt.Sprintf("10.0.0.%d:80", i+1)}, "client": fmt.Sprint("web-", i+1), "address": "10.0.0.9:4", "version": 1, "slot": 17, "stored": "1.1",
			}})
		}
		return console.Listing{Rows: out, Next: "more"}, nil
	case r.Do == "subscribers":
		for i := range 5 {
			row := name("service-00123")
			row["id"], row["connection"], row["client"], row["address"], row["version"], row["values"] = "s", i+1, fmt.Sprint("reader-", i), "10.0.0.8:7", 3, 2
			out = append(out, map[string]any{"row": row, "node": fmt.Sprint("session-", i%2+1)})
		}
		return console.Listing{Rows: out, Pushes: []console.Push{{AtMs: 1_000_000, Session: "session-1", Version: 3, Values: 2, Subscribers: 3}}}, nil
	}
	return console.Listing{Rows: out}, nil
}

func (s *shelf) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// last returns the newest request for a list of that kind.
func (s *shelf) last(do string) (last console.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.asked {
		if r.Do == do {
			last = r
		}
	}
	return last
}

// A viewer finds one of ten thousand services by keyboard, on a phone, and sees who
// publishes it and the way of a value. The browser has one page of them at a time.
func TestConsolePage_ServicesAreFoundInPages(t *testing.T) {
	state := joinedState()
	state.Slots["17"] = console.Slot{Leader: "data-1", Followers: []string{"data-2"}, Phase: "stable"}
	source := &shelf{}
	hub, s, _ := actedPage(t, state, source)
	assert.Zero(t, source.count(), "nothing is asked for before it is seen")
	s.js(`document.getElementById('services').scrollIntoView()`)
	rows := `document.querySelectorAll('#list tbody tr').length`
	s.until(rows + ` === 50`)
	first := `document.querySelector('#list tbody td')?.textContent`
	assert.Equal(t, hostile, eval[string](s, first), "a name is no markup")
	assert.Contains(t, s.text("list"), "page 1")
	assert.Contains(t, s.text("list"), "data-9 did not answer: what is only there is missing")
	button := func(text string) string {
		return fmt.Sprintf(`[...document.querySelectorAll('#list button')].find(b => b.textContent === %q)`, text)
	}
	for range 2 {
		before := eval[string](s, first)
		s.js(button("next page") + `.click()`)
		s.until(fmt.Sprintf(`%s !== %q`, first, before))
	}
	assert.Equal(t, "service-00100", eval[string](s, first))
	assert.Equal(t, 50, eval[int](s, rows))
	s.js(button("page before") + `.click()`)
	s.until(first + ` === 'service-00050'`)

	// It lives: what is shown is asked for again.
	n := source.count()
	assert.Eventually(t, func() bool { return source.count() > n+1 }, 20*time.Second, 50*time.Millisecond)

	// By keyboard, from the search to a service and back.
	s.js(`document.getElementById('list-match').focus()`)
	s.run(chromedp.KeyEvent("00123"))
	s.until(first + ` === 'service-00123' && ` + rows + ` === 1`)
	assert.Equal(t, "00123", source.last("services").Value)
	s.run(chromedp.KeyEvent("\t"), chromedp.KeyEvent("\t")) // the region that scrolls, and the row
	s.until(`document.activeElement.textContent === 'service-00123'`)
	s.run(chromedp.KeyEvent("\r"))
	s.until(`document.querySelectorAll('#service-publishers tbody tr').length === 2 && document.querySelectorAll('#service-subscribers tbody tr').length === 5`)
	assert.Equal(t, "service-00123#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP", source.last("publishers").Of)
	assert.Contains(t, s.text("service-pushes"), "session-132")
	way := func() string { return eval[string](s, `document.getElementById('way').getAttribute('aria-label')`) }
	s.until(`document.querySelectorAll('#way rect').length === 4 + 1 + 2 + 4`)
	assert.Contains(t, way(), "web-1 (publishes from 10.0.0.9:4); then session-1 (has it, and data has stored it); then slot 17 (computed from the name); then data-1 (leads the slot), data-2 (has a copy); then session-1 (pushes to 3), session-2 (pushes to 2); then reader-0 (has version 3)")
	assert.Contains(t, way(), "2 more")
	s.js(`document.querySelectorAll('#service-publishers tbody button')[1].click()`)
	s.until(`document.getElementById('way').getAttribute('aria-label').includes('web-2')`)
	assert.Equal(t, "true", eval[string](s, `document.querySelectorAll('#service-publishers tbody button')[1].getAttribute('aria-pressed')`))
	state.Slots = map[string]console.Slot{"17": {Leader: "data-2", Phase: "switching"}}
	hub.Show(state)
	s.until(`document.getElementById('way').getAttribute('aria-label').includes('slot 17 (computed from the name, switching); then data-2 (leads the slot); then')`)
	s.until(`location.hash.includes('service-00123')`)

	for _, scheme := range []string{"light", "dark"} {
		s.emulate("prefers-color-scheme", scheme, "prefers-reduced-motion", "reduce")
		assert.Empty(t, eval[[]string](s, faint), "too little contrast in %s", scheme)
	}
	s.run(chromedp.EmulateViewport(390, 844, chromedp.EmulateScale(1)))
	assert.LessOrEqual(t, eval[int](s, `document.documentElement.scrollWidth`), 390)
	s.until(`document.getElementById('way').getBoundingClientRect().right <= 390`)
	s.until(`[...document.querySelectorAll('#way text')].every(x => x.getBBox().x >= 0 && x.getBBox().x + x.getBBox().width <= document.getElementById('way').clientWidth)`)
	s.run(chromedp.ResetViewport())

	// A reload shows the same service; Escape closes it.
	s.run(chromedp.Reload())
	s.until(`document.getElementById('term').textContent === '1'`)
	s.js(`document.getElementById('services').scrollIntoView()`)
	s.until(`document.querySelectorAll('#service-publishers tbody tr').length === 2`)
	s.run(chromedp.KeyEvent("\x1b"))
	s.until(`document.getElementById('service').hidden && !location.hash.includes('service')`)

	// The other lists have the name in each row.
	s.js(`const l = document.getElementById('list-of'); l.value = 'subscribers'; l.dispatchEvent(new Event('change'))`)
	s.until(rows + ` === 5 && ` + first + ` === 'service-00123'`)
	state.Mode = "recording"
	hub.Restart(state, nil)
	s.until(`document.getElementById('services').hidden`)
	assert.Empty(t, s.errors())
}

// Ten thousand services on a cluster are listed, searched and followed on its page.
func TestConsole_TenThousandServices(t *testing.T) {
	chromium(t)
	d := startDev(t, "--size", "3,3,2", "--console", "127.0.0.1:0")
	require.Eventually(t, func() bool {
		return strings.Contains(d.out.String(), "to act:") || strings.Contains(d.out.String(), "console: ")
	}, time.Minute, time.Millisecond)
	_, after, _ := strings.Cut(d.out.String(), "console: ")
	page, _, _ := strings.Cut(after, "\n")
	var sessions []struct{ Address string }
	require.NoError(t, json.Unmarshal([]byte(d.tool(t, "nodes", "--role", "session", "--json").stdout), &sessions))
	var addresses []string
	for _, n := range sessions {
		addresses = append(addresses, n.Address)
	}
	require.Len(t, addresses, 2)
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer end()
	start := func(name, session string) *client.Client {
		c, err := client.New(client.Config{Name: name, Resolve: func(context.Context) ([]string, error) { return []string{session}, nil }})
		require.NoError(t, err)
		running.Go(func() { _ = c.Run(ctx) })
		return c
	}
	began := time.Now()
	var last []*client.Publication
	for i := range 4 {
		c := start(fmt.Sprint("shop-", i), addresses[i%2])
		for n := range 2500 {
			p, err := c.Publish(ctx, fmt.Sprintf("service-%05d", 4*n+i), []string{fmt.Sprintf("10.%d.%d.%d:80", i, n/250, n%250)})
			require.NoError(t, err)
			last = append(last, p)
		}
	}
	for _, p := range last {
		require.NoError(t, p.Stored(ctx))
	}
	t.Logf("10,000 services were stored after %v", time.Since(began))
	reader := start("reader", addresses[1])
	_, err := reader.Subscribe("service-00500")
	require.NoError(t, err)

	s := newScreen(t)
	s.run(chromedp.Navigate(page))
	s.until(`document.getElementById('leader').textContent.startsWith('meta-')`)
	s.js(`document.getElementById('services').scrollIntoView()`)
	s.until(`document.querySelectorAll('#list tbody tr').length === 50 && document.querySelector('#list tbody td').textContent === 'service-00000'`)
	took := eval[[]float64](s, `(async () => { const out = []; let after = ''; for (let i = 0; i < 20; i++) { const began = performance.now(); const r = await (await fetch('v1/list', {method: 'POST', body: JSON.stringify({do: 'services', after})})).json(); after = r.next; out.push(performance.now() - began); } return out; })()`)
	t.Logf("pages took %.0f ms", took)
	search := func(list, match, want string) {
		s.js(`const l = document.getElementById('list-of'), m = document.getElementById('list-match'); l.value = %q; m.value = %q; l.dispatchEvent(new Event('change'))`, list, match)
		s.until(fmt.Sprintf(`document.getElementById('list').textContent.includes(%q) && document.querySelectorAll('#list tbody tr').length === 1`, want))
	}
	search("services", "service-00500", "service-00500") // by name
	search("services", "10.3.9.249", "service-09999")    // by address
	search("publishers", "10.3.9.249", "shop-3")         // by address
	search("subscribers", "reader", "service-00500")     // by client
	s.js(`document.querySelector('#list tbody button').click()`)
	s.until(`document.querySelectorAll('#service-publishers tbody tr').length === 1`)
	s.until(`document.querySelectorAll('#service-pushes tbody tr').length === 1`)
	s.until(`/shop-0 \(publishes from .*session-\d \(has it, and data has stored it\); then slot \d+ .*; then data-\d \(leads the slot\), data-\d \(has a copy\); then session-\d \(pushes to 1\); then reader \(has version \d+\)/.test(document.getElementById('way').getAttribute('aria-label'))`)

	// A change is seen without a click.
	require.NoError(t, last[125].Update([]string{"10.9.9.9:80"}))
	s.until(`document.querySelector('#service-publishers tbody button').textContent === '10.9.9.9:80' && document.querySelectorAll('#service-pushes tbody tr').length === 2`)
	assert.Empty(t, s.errors())
}
