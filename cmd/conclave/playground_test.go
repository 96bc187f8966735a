package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/playground/page"
)

// playgroundDir is removed by TestMain.
var playgroundDir string

var buildPlayground = sync.OnceValues(func() (out []byte, err error) {
	if playgroundDir, err = os.MkdirTemp("", "conclave-playground-"); err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "run", "./testbed/playground/build", "-o", filepath.Join(playgroundDir, "page"))
	cmd.Dir = "../.."
	return cmd.CombinedOutput()
})

// builtPlayground returns a folder that was made as make playground makes it.
func builtPlayground(t *testing.T) string {
	t.Helper()
	out, err := buildPlayground()
	require.NoError(t, err, string(out))
	t.Logf("%s", out)
	return filepath.Join(playgroundDir, "page")
}

const (
	position = `Number.parseFloat(document.getElementById('position-at').textContent)`
	shown    = `['title', 'position-at', 'record', 'leader', 'term', 'play-name', 'recording-about'].map(id => document.getElementById(id).textContent)`
)

// opens waits until a recording is shown and moves.
func (s *screen) opens(recording string) {
	s.t.Helper()
	s.until(fmt.Sprintf(`document.getElementById('title').textContent === 'recording of %s' && document.getElementById('play-pause').dataset.paused === 'false'`, recording))
	from := eval[float64](s, position)
	s.until(fmt.Sprintf(`%s > %f`, position, from))
}

// playground opens the page, until its first recording moves. The test is skipped or fails
// without a browser.
func playground(t *testing.T) *screen {
	t.Helper()
	chromium(t)
	host := httptest.NewServer(http.FileServer(http.Dir(builtPlayground(t))))
	t.Cleanup(host.Close)
	s := newScreen(t)
	s.run(chromedp.Navigate(host.URL))
	s.opens("leader-killed")
	return s
}

// narrow checks that on a phone the page is not scrolled sideways, and all buttons can be reached.
func (s *screen) narrow() {
	s.t.Helper()
	s.fits(390)
	s.run(chromedp.EmulateViewport(390, 844, chromedp.EmulateScale(1)))
	assert.Empty(s.t, eval[[]string](s, `[...document.querySelectorAll('button, select, input, a')].filter(e => e.checkVisibility() && !e.closest('.scroll, .skip')).filter(e => {
		const r = e.getBoundingClientRect();
		return r.left < 0 || r.right > 390 || !r.width;
	}).map(e => e.id || e.outerHTML)`))
	s.run(chromedp.ResetViewport())
}

// TestPlayground opens the folder from a plain host of static files, as a person does who has
// nothing installed.
func TestPlayground(t *testing.T) {
	chromium(t)
	host := httptest.NewServer(http.StripPrefix("/some/folder", http.FileServer(http.Dir(builtPlayground(t)))))
	defer host.Close()
	address := host.URL + "/some/folder/"

	for name, limit := range map[string]int64{"player.wasm.gz": 2_500_000, "living.wasm.br": 9_000_000} {
		file, err := os.Stat(filepath.Join(builtPlayground(t), name))
		require.NoError(t, err)
		assert.Less(t, file.Size(), limit, name)
	}
	s := newScreen(t)
	s.run(chromedp.Navigate(address))
	s.opens("leader-killed")
	t.Logf("the recording has moved %.0f ms after the page was asked for", eval[float64](s, `performance.now()`))
	s.until(`document.getElementById('term').textContent === '2' && document.querySelector('.node[data-state=killed]')`)
	s.tall("playground.png")

	names := eval[[]string](s, `[...document.getElementById('recording').options].map(o => o.value)`)
	require.Equal(t, []string{"leader-killed", "leader-frozen", "drain", "power-cut", "guard-out"}, names)
	choose := func(name string) {
		s.js(`const r = document.getElementById('recording'); r.value = %q; r.dispatchEvent(new Event('change'))`, name)
		s.opens(name)
	}
	for _, name := range names[1:] {
		choose(name)
		assert.Equal(t, "a recording", s.text("link"))
	}
	s.until(`!document.getElementById('violation').hidden`)
	assert.Contains(t, s.text("violation-what"), "while \"meta-1\" owns the lock row")
	assert.Equal(t, "1", s.text("broken"))
	assert.Contains(t, s.text("violation-before"), "led term 2")
	s.js(`document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'w', bubbles: true}))`)
	s.until(`/^5\.000000 s I3: [^]*release meta-2 at landing[^]*take out the guard of writes$/.test(document.getElementById('why-links').textContent)`)
	s.until(`document.querySelectorAll('#diagram .why').length >= 2`)
	s.js(`document.querySelector('#why-links li:last-child button').click()`)
	s.until(`document.getElementById('position-at').textContent === '0.000 s' && document.querySelectorAll('#why-links li').length === 12`)

	// A shared address shows the same moment to another viewer, and goes back with it.
	choose("leader-frozen")
	s.js(`document.getElementById('play-pause').click()`)
	s.until(`document.getElementById('play-pause').dataset.paused === 'true'`)
	s.js(`location.hash = 'recording=leader-frozen&at=0.001'`) // wherever it was paused
	s.until(position + ` === 0.001`)
	s.js(`document.querySelector('[data-step="next fault"]').click()`)
	s.until(`document.querySelector('.node[data-state=suspended]')`)
	s.js(`document.querySelector('[data-step="next election"]').click()`)
	s.until(`document.getElementById('term').textContent === '2'`)
	s.until(`location.hash.includes('at=' + Math.floor(` + position + `))`)
	want := eval[[]string](s, shown)
	other := newScreen(t)
	other.run(chromedp.Navigate(eval[string](s, `location.href`)))
	other.until(`document.getElementById('title').textContent === 'recording of leader-frozen' && document.getElementById('position-at').textContent === '` + want[1] + `'`)
	assert.Equal(t, want, eval[[]string](other, shown))
	other.js(`location.hash = 'recording=drain&at=3.5'`)
	other.until(`document.getElementById('title').textContent === 'recording of drain' && document.getElementById('position-at').textContent === '3.500 s'`)

	// What an address names that is not there is ignored, with a sentence.
	third := newScreen(t) // whose console has the 404
	third.run(chromedp.Navigate(address))
	for hash, says := range map[string]string{"recording=lunch&at=3": "There is no recording lunch", "recording=leader-killed&at=abc": "abc is no time"} {
		third.js(`location.hash = %q`, hash)
		third.until(fmt.Sprintf(`document.getElementById('recording-about').textContent.includes(%q)`, says))
		third.opens("leader-killed")
	}

	// A narrow window, and what was loaded.
	other.run(chromedp.EmulateViewport(390, 844, chromedp.EmulateScale(1)), chromedp.Navigate("about:blank"), chromedp.Navigate(address+"#%")) // half of an escape
	other.opens("leader-killed")
	other.until(`document.getElementById('term').textContent === '2'`)
	other.narrow()
	assert.Empty(t, eval[[]string](s, `performance.getEntriesByType('resource').map(e => e.name).filter(n => !n.startsWith(location.origin + '/some/folder/'))`))
	assert.Empty(t, s.errors(), "errors in the browser's console")
	assert.Empty(t, other.errors(), "errors in the browser's console")
}

// TestPlayground_SaysWhyNothingIsPlayed opens it in a browser that has no WebAssembly.
func TestPlayground_SaysWhyNothingIsPlayed(t *testing.T) {
	chromium(t)
	files, err := page.Files(os.DirFS("../.."))
	require.NoError(t, err)
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := filepath.Base(r.URL.Path)
		if name == "/" {
			name = "index.html"
		}
		text, ok := files[name]
		if name == "wasm_exec.js" {
			text, ok = []byte("self.DecompressionStream = undefined;"), true
		}
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", map[string]string{".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}[filepath.Ext(name)])
		_, _ = w.Write(text)
	}))
	defer host.Close()
	s := newScreen(t)
	s.run(chromedp.Navigate(host.URL))
	s.until(`document.getElementById('link').textContent.includes('this browser is too old')`)
}

// TestPlayground_KeepsTheRecordings opens it in a browser that has no WebAssembly for the cluster, as
// one without memory.
func TestPlayground_KeepsTheRecordings(t *testing.T) {
	chromium(t)
	dir := builtPlayground(t)
	files := http.FileServer(http.Dir(dir))
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wasm_exec.js" {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write([]byte("if (self.location.hash.includes('living=')) self.WebAssembly = undefined;\n"))
			text, err := os.ReadFile(filepath.Join(dir, "wasm_exec.js"))
			assert.NoError(t, err)
			_, _ = w.Write(text)
			return
		}
		files.ServeHTTP(w, r)
	}))
	defer host.Close()
	s := newScreen(t)
	s.run(chromedp.Navigate(host.URL + "/#tour=2"))
	s.opens("leader-killed")
	for _, button := range []string{"living-start", "tour-do"} {
		s.js(`document.getElementById(%q).click()`, button)
		s.until(`document.getElementById('living-says').textContent.includes('this browser is too old: it needs WebAssembly')`)
		s.opens("leader-killed")
	}
	assert.Contains(t, s.text("tour-says"), "No cluster runs here")
	s.js(`document.getElementById('tour-play').click()`)
	assert.Contains(t, s.saw(2), "leads term 2")
	assert.Empty(t, s.errors(), "errors in the browser's console")
}

func TestPlaygroundCommand_ServesWithStrictHeaders(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"index.html": "<!doctype html>", "worker.js": "'use strict';", "player.wasm.gz": "\x1f\x8b", "x.rec": "\x1f\x8b"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	at := serveConsole(t, "playground", dir, "--listen", "127.0.0.1:0").find(t, `playground: (http://\S+)`)
	get := func(path string) *http.Response {
		r, err := http.Get(at + path)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		return r
	}
	for path, kind := range map[string]string{"": "text/html; charset=utf-8", "worker.js": "text/javascript; charset=utf-8", "player.wasm.gz": "application/", "x.rec": "application/"} {
		r := get(path)
		assert.Equal(t, http.StatusOK, r.StatusCode, path)
		assert.Contains(t, r.Header.Get("Content-Type"), kind, path)
		assert.Empty(t, r.Header.Get("Content-Encoding"), path)
		assert.Contains(t, r.Header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'")
		assert.Equal(t, "nosniff", r.Header.Get("X-Content-Type-Options"))
	}
	assert.Equal(t, http.StatusNotFound, get("..%2f..%2fetc/passwd").StatusCode)
}
