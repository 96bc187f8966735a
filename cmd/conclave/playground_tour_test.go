package main

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
)

// saw waits until the step of the tour that is shown has the text of what was seen.
func (s *screen) saw(step int) string {
	s.t.Helper()
	s.patience(fmt.Sprintf(`!document.querySelector('[data-step="%d"] .saw').hidden && /At [0-9.]+ s: /.test(document.getElementById('tour-says').textContent)`, step))
	return s.text("tour-says")
}

// TestPlayground_Tour takes the tour, first by the recordings, then in a living cluster.
func TestPlayground_Tour(t *testing.T) {
	s := playground(t)
	click := func(id string) { s.js(`document.getElementById(%q).click()`, id) }
	next := func(step int) {
		click("tour-next")
		s.until(fmt.Sprintf(`!document.querySelector('[data-step="%d"]').hidden && location.hash.includes('tour=%d')`, step, step))
		assert.Equal(t, fmt.Sprint(step), eval[string](s, `document.activeElement.closest('article').dataset.step`), "its heading has the focus")
	}
	s.run(chromedp.Reload())
	s.opens("leader-killed")
	s.until(`!document.querySelector('[data-step="1"]').hidden`)

	// Every line of code is where its link leads to.
	for _, link := range eval[[]string](s, `[...document.querySelectorAll('#tour .code a')].map(a => a.href)`) {
		assert.True(t, eval[bool](s, fmt.Sprintf(`fetch(%q).then(r => r.ok)`, link)), link)
	}
	for i, term := range []string{1: "2", 2: "2", 3: "2", 4: "1", 5: "1", 6: "", 7: "2"} {
		if term == "" {
			continue
		}
		// The page may keep the position in its address before it hears of the change.
		s.js(`import('./address.js').then(address => { location.hash = 'tour=%d'; address.set({}); })`, i)
		s.until(fmt.Sprintf(`!document.querySelector('[data-step="%d"]').hidden`, i))
		click("tour-play")
		assert.Contains(t, s.saw(i), "leads term "+term, "step %d", i)
	}
	s.until(`!document.getElementById('violation').hidden`)

	// A reader who chooses another recording in the middle of a step sees nothing of that step.
	s.js(`location.hash = 'tour=5'`)
	s.until(`!document.querySelector('[data-step="5"]').hidden`)
	click("tour-play")
	s.until(`document.getElementById('title').textContent === 'recording of drain'`)
	s.js(`const chosen = document.getElementById('recording'); chosen.value = 'leader-frozen'; chosen.dispatchEvent(new Event('change'))`)
	s.opens("leader-frozen")
	s.until(`document.querySelector('[data-step="5"] .saw').hidden && document.getElementById('tour-says').textContent.startsWith('A recording shows it.')`)

	// Beside the page, or above it, the tour covers nothing.
	for _, width := range []int64{390, 901, 1000, 1099, 1280} {
		s.run(chromedp.EmulateViewport(width, 844))
		assert.True(t, eval[bool](s, `(() => {
			const a = document.getElementById('tour').getBoundingClientRect(), b = document.querySelector('main').getBoundingClientRect();
			return a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
		})()`), "%d pixels", width)
	}
	s.run(chromedp.ResetViewport())
	s.js(`document.getElementById('tour-seed').value = '0948'`)

	// The same in a living cluster.
	s.js(`location.hash = 'tour=1'`)
	s.until(`!document.querySelector('[data-step="1"]').hidden`)
	for i := 1; i < 7; i++ {
		term := s.number("term")
		click("tour-do")
		says := s.saw(i)
		t.Log(i, says)
		assert.Contains(t, says, " 0 broken.")
		if i < 4 && i > 1 {
			assert.Contains(t, says, fmt.Sprintf("leads term %d; missing: 0", term+1))
		}
		if i == 6 {
			assert.Contains(t, says, "storm-948 passed.")
		}
		next(i + 1)
	}
	click("tour-do")
	assert.Contains(t, s.saw(7), " 1 broken.")
	s.until(`document.getElementById('violation-what').textContent.startsWith('I3: a write of meta-')`)
	s.until(`document.getElementById('living-pause').dataset.paused === 'true'`)
	s.narrow()

	// Somebody else sees the same, and a cluster without a missing guard after it.
	other := newScreen(t)
	other.run(chromedp.Navigate(eval[string](s, `location.href`)))
	other.patience(`document.getElementById('violation-what').textContent === '` + s.text("violation-what") + `'`)
	other.until(`!document.querySelector('[data-step="7"]').hidden`)
	other.js(`location.hash = 'tour=2'`)
	other.until(`!document.querySelector('[data-step="2"]').hidden`)
	other.js(`document.getElementById('tour-do').click()`)
	assert.Contains(t, other.saw(2), " 0 broken.")

	// The page goes on, and the cluster with it.
	assert.Equal(t, "20.000 s", s.text("violation-at"))
	click("go-on")
	s.until(`document.getElementById('link').textContent === 'live' && document.getElementById('living-pause').dataset.paused === 'false'`)
	assert.Empty(t, other.errors(), "errors in the browser's console")
	assert.Empty(t, s.errors(), "errors in the browser's console")
}
