package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/scenario"
	"conclave/testbed/simulated"
)

// TestConsole_Recording opens a recording as a person does, and steps to its faults.
func TestConsole_Recording(t *testing.T) {
	chromium(t)
	file := filepath.Join(t.TempDir(), "failover.rec")
	t.Run("record", func(t *testing.T) {
		s, err := scenario.Parse("failover", "clients 2 names 2 every 100ms\nat 1s kill leader\nat 2s pause data-1 for 1s\nuntil 4s")
		require.NoError(t, err)
		s.Cluster.Seed = 1
		var recording simulated.Recording
		r, err := simulated.Play(t, s, simulated.Options{Recording: &recording})
		require.NoError(t, err)
		f, err := os.Create(file)
		require.NoError(t, err)
		defer f.Close()
		require.NoError(t, recording.Write(f, r))
	})
	ctx, cancel := context.WithCancel(context.Background())
	var out, errs stdout
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"console", "--listen", "127.0.0.1:0", "--recording", file}, &out, &errs)
	}()
	t.Cleanup(func() {
		cancel()
		assert.Equal(t, exitDone, <-ended, errs.all.String())
	})
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
	before := s.text("record")
	step("next message")
	s.until(fmt.Sprintf(`document.getElementById('record').textContent !== %q`, before))
	position := s.text("position-at")
	s.run(chromedp.Reload())
	s.until(fmt.Sprintf(`document.getElementById('position-at').textContent === %q`, position))

	// It plays, and stops at its end.
	s.js(`const v = document.getElementById('speed'); v.value = '20'; v.dispatchEvent(new Event('change')); document.getElementById('play-pause').click()`)
	s.until(`document.getElementById('play-name').textContent === 'failover: passed'`)
	assert.Empty(t, s.errors(), "errors in the browser's console")
}

func TestConsole_RefusesWhatIsNoRecording(t *testing.T) {
	var out, errs stdout
	file := filepath.Join(t.TempDir(), "x")
	require.NoError(t, os.WriteFile(file, []byte("at 1s kill leader"), 0o600))
	assert.Equal(t, exitFailed, run(t.Context(), []string{"console", "--recording", file}, &out, &errs))
	assert.Contains(t, errs.all.String(), "it is not a recording of conclave")
}
