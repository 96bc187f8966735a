package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPlayground_Living starts the cluster in the page, breaks it as a person does, and
// opens the address of a moment in a second browser.
func TestPlayground_Living(t *testing.T) {
	s := playground(t)
	assert.Regexp(t, `loads \d+\.\d MB`, s.text("living-start"))
	began := time.Now()
	s.js(`document.getElementById('living-start').click()`)
	s.until(`!document.getElementById('living-pace').hidden`)
	t.Logf("the cluster runs %d ms after the click", time.Since(began).Milliseconds())
	s.led(0)
	t.Logf("a leader is on the page %d ms after the click", time.Since(began).Milliseconds())
	s.until(`document.getElementById('missing').textContent === '0'`)
	s.js(`window.killed = 0; document.getElementById('confirm-do').addEventListener('click', () => { window.killed = performance.now(); }, {once: true});
		new MutationObserver(() => { window.led ||= performance.now(); }).observe(document.getElementById('term'), {childList: true, characterData: true, subtree: true})`)
	s.killsTheLeader()
	t.Logf("the next term is on the page %.0f ms after the click on kill", eval[float64](s, `window.led - window.killed`))
	assert.Equal(t, "0", s.text("missing"))
	s.js(`document.getElementById('why-ask').click()`)
	s.until(`/becomes the leader of term 2[^]*done to the cluster: kill meta-.$/.test(document.getElementById('why-links').textContent)`)
	assert.Regexp(t, `^#living=1~.*\*kill\*meta-.~\d+\.\d+$`, eval[string](s, `document.querySelector('#why-links li a').getAttribute('href')`))
	s.freezesTheLeader()
	s.on("data-2", "drain")
	s.until(`document.querySelector('[data-node=data-2]').textContent.includes('blacklisted')`)

	assert.True(t, eval[bool](s, `document.getElementById('services').hidden`), "each question would change the run")

	// Time is stopped, and moves by steps.
	pause := func(paused bool) {
		s.js(`document.getElementById('living-pause').click()`)
		s.until(fmt.Sprintf(`document.getElementById('living-pause').dataset.paused === '%t'`, paused))
	}
	pause(true)
	at := s.text("living-at")
	time.Sleep(time.Second)
	assert.Equal(t, at, s.text("living-at"))
	s.js(`const was = location.hash; location.hash += '&other=1'; addEventListener('hashchange', () => { window.edited = true; location.hash = was; }, {once: true})`)
	s.until(`window.edited === true`)
	assert.Equal(t, at, s.text("living-at"))
	assert.False(t, eval[bool](s, `document.getElementById('living-pace').hidden`), "an address that names the same cluster goes on with it")
	s.js(`document.querySelector('[data-living-step=message]').click()`)
	s.until(`/^[0-9.]+ s: \S+ to \S+: ./.test(document.getElementById('living-reached').textContent)`)
	pause(false)

	// A page that is not seen rests. On a phone everything is there.
	seen := func(yes bool) {
		s.js(`Object.defineProperty(document, 'hidden', {value: %t, configurable: true}); document.dispatchEvent(new Event('visibilitychange'))`, !yes)
		s.until(fmt.Sprintf(`document.getElementById('living-pause').dataset.paused === '%t'`, !yes))
	}
	seen(false)
	seen(true)
	s.narrow()
	s.playsAStorm()
	pause(true)
	assert.Equal(t, "0", s.text("broken"))
	s.until(`location.hash.includes('living=') && decodeURIComponent(location.hash).includes('~' + Number.parseFloat(document.getElementById('living-at').textContent))`)

	// Somebody else sees the same.
	const shown = `['living-at', 'leader', 'term', 'missing'].map(id => document.getElementById(id).textContent)`
	want := eval[[]string](s, shown)
	t.Log(eval[string](s, `decodeURIComponent(location.hash)`), want)
	other := newScreen(t)
	other.run(chromedp.Navigate(eval[string](s, `location.href`)))
	other.patience(`document.getElementById('living-pause').dataset.paused === 'true'`)
	other.until(`document.getElementById('living-at').textContent === '` + want[0] + `'`)
	assert.Equal(t, want, eval[[]string](other, shown))

	// Recordings are there again.
	s.js(`const r = document.getElementById('recording'); r.value = 'drain'; r.dispatchEvent(new Event('change'))`)
	s.opens("drain")
	require.Empty(t, s.errors(), "errors in the browser's console")
	assert.Empty(t, other.errors(), "errors in the browser's console")
}
