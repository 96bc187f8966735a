package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/trace"
	"conclave/testbed/check"
	"conclave/testbed/scenario"
	"conclave/testbed/simulated"
)

// recordFailover plays a failover in the simulator, and writes two recordings of it: of what
// happened, and with a violation when the second leader is elected, at the returned
// time in seconds.
func recordFailover(t *testing.T) (passed, broken, at string) {
	dir := t.TempDir()
	write := func(name string, recording *simulated.Recording, r *scenario.Result) string {
		f, err := os.Create(filepath.Join(dir, name))
		require.NoError(t, err)
		defer f.Close()
		require.NoError(t, recording.Write(f, r))
		return f.Name()
	}
	t.Run("record", func(t *testing.T) {
		s, err := scenario.Parse("failover", "clients 2 names 2 every 100ms\nat 1s kill leader\nat 2s pause data-1 for 1s\nuntil 4s")
		require.NoError(t, err)
		s.Cluster.Seed = 1
		var recording simulated.Recording
		r, err := simulated.Play(t, s, simulated.Options{Recording: &recording})
		require.NoError(t, err)
		passed = write("failover.rec", &recording, r)
		second := slices.IndexFunc(r.History.Entries, func(e check.Entry) bool { return e.Event != nil && e.Event.Kind == trace.Led && e.Event.Term == 2 })
		require.Positive(t, second)
		e := r.History.Entries[second]
		i := slices.IndexFunc(r.Verdicts, func(v check.Verdict) bool { return v.ID == "I1" })
		r.Verdicts[i].Violations = []check.Violation{{At: e.At, What: "two leaders", Evidence: []string{e.String()}}}
		broken, at = write("broken.rec", &recording, r), fmt.Sprintf("%.3f s", e.At.Seconds())
	})
	return passed, broken, at
}

// TestConsole_Recording opens a recording as a person does, and steps to its faults;
// then one of a run with a violation.
func TestConsole_Recording(t *testing.T) {
	chromium(t)
	file, broken, brokenAt := recordFailover(t)
	out := serveConsole(t, "console", "--listen", "127.0.0.1:0", "--recording", file)
	page := out.find(t, `console: (http://\S+)`)
	assert.NotContains(t, out.all.String(), "to act", "nothing can be done to a recording")

	s := newScreen(t)
	s.run(chromedp.Navigate(page))
	s.until(`document.getElementById('title').textContent === 'recording of failover' && document.querySelector('#diagram g[data-message]')`)
	leader := s.text("leader")
	step := func(what string) { s.js("document.querySelector('[data-step=%q]').click()", what) }
	at := func(seconds string) {
		s.until(fmt.Sprintf(`document.getElementById('position-at').textContent === %q`, seconds+" s"))
	}

	// To the kill, and to the next leader.
	step("next fault")
	at("1.000")
	s.until(fmt.Sprintf(`document.querySelector('[data-node=%q]').textContent.includes('killed')`, leader))
	assert.Equal(t, "none", s.text("leader"))
	step("next election")
	s.until(`document.getElementById('term').textContent === '2'`)
	s.until(`[...document.querySelectorAll('#diagram g')].some(g => g.dataset.message === 'SQL win witness')`)
	s.until(`document.querySelector('#diagram .name').getBoundingClientRect().top >= document.getElementById('diagram').parentElement.getBoundingClientRect().top`) // the hosts stay in sight
	s.tall("console-recording.png")
	step("next fault")
	at("2.000")
	s.until(`document.querySelector('[data-node=data-1]').textContent.includes('frozen')`)

	// Back, by a message, and by the axis; a reload finds the same position.
	step("previous fault")
	at("1.000")
	s.until(fmt.Sprintf(`document.querySelector('[data-node=%q]').textContent.includes('killed')`, leader))
	s.js(`const p = document.getElementById('position'); p.value = 500; p.dispatchEvent(new Event('input')); p.dispatchEvent(new Event('change'))`)
	at("0.500")
	s.until(fmt.Sprintf(`document.getElementById('leader').textContent === %q`, leader))
	s.allFollow(leader)
	before := s.text("record")
	step("next message")
	s.until(fmt.Sprintf(`document.getElementById('record').textContent !== %q`, before))
	position := s.text("position-at")
	s.run(chromedp.Reload())
	s.until(fmt.Sprintf(`document.getElementById('position-at').textContent === %q`, position))

	// It plays, and stops at its end.
	s.js(`const v = document.getElementById('speed'); v.value = '20'; v.dispatchEvent(new Event('change')); document.getElementById('play-pause').click()`)
	s.until(`document.getElementById('play-name').textContent === 'failover: passed'`)
	require.NotEqual(t, leader, s.text("leader"))
	s.allFollow(s.text("leader"))

	// A run with a violation opens there, and is red.
	s.run(chromedp.Navigate(serveConsole(t, "console", "--listen", "127.0.0.1:0", "--recording", broken).find(t, `console: (http://\S+)`)))
	s.until(`!document.getElementById('violation').hidden`)
	assert.Equal(t, brokenAt, s.text("position-at"))
	assert.Equal(t, "I1: two leaders", s.text("violation-what"))
	assert.Contains(t, s.text("violation-evidence"), "led")
	assert.Contains(t, s.text("violation-before"), "kill "+leader)
	red := eval[string](s, headColour)
	assert.Equal(t, "1", s.text("broken"))
	s.until(`document.querySelector('#marks .violation')`)
	step("previous fault")
	s.until(`document.getElementById('violation').hidden`)
	assert.NotEqual(t, red, eval[string](s, headColour))
	step("next violation")
	s.until(`!document.getElementById('violation').hidden`)
	assert.Equal(t, brokenAt, s.text("position-at"))
	s.fits(1280)
	s.fits(390)
	assert.Empty(t, s.errors(), "errors in the browser's console")
}

// allFollow waits until each node that is ready says that it follows the leader, and
// each that says so has a line.
func (s *screen) allFollow(leader string) {
	s.t.Helper()
	s.until(fmt.Sprintf(`(() => {
		const nodes = [...document.querySelectorAll('.node')].filter(n => !['db', %[1]q].includes(n.dataset.node));
		const follow = nodes.filter(n => n.textContent.includes('follows ' + %[1]q));
		return follow.length > 0 && nodes.every(n => n.dataset.state !== 'ready' || follow.includes(n)) && document.querySelectorAll('#wires .stream').length === follow.length;
	})()`, leader))
}
func TestConsole_RefusesWhatIsNoRecording(t *testing.T) {
	var out, errs stdout
	file := filepath.Join(t.TempDir(), "x")
	require.NoError(t, os.WriteFile(file, []byte("at 1s kill leader"), 0o600))
	assert.Equal(t, exitFailed, run(t.Context(), []string{"console", "--recording", file}, &out, &errs))
	assert.Contains(t, errs.all.String(), "it is not a recording of conclave")
}
