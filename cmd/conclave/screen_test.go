package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

	"conclave/internal/long"
)

// chromium returns the path of a browser, or skips the test.
func chromium(t *testing.T) string {
	t.Helper()
	if !long.All() {
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
	s.within(40*time.Second, js)
}

// patience is until for what takes longer than an action.
func (s *screen) patience(js string) {
	s.t.Helper()
	s.within(2*time.Minute, js)
}

func (s *screen) within(limit time.Duration, js string) {
	s.t.Helper()
	if !assert.Eventually(s.t, func() bool { return eval[bool](s, "!!("+js+")") }, limit, 100*time.Millisecond, js) {
		s.t.Fatal(s.errors(), eval[string](s, "document.body.innerText"))
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

// choose chooses a node of the map.
func (s *screen) choose(node string) {
	s.t.Helper()
	s.js(`const n = document.querySelector('[data-node=%q]'); if (n.getAttribute('aria-pressed') !== 'true') n.click();`, node)
}

// on chooses a node and does something to it.
func (s *screen) on(node, do string) string {
	s.t.Helper()
	s.choose(node)
	return s.press(fmt.Sprintf("#node-actions [data-do=%s]", do))
}

// settled waits until the newest outcome is about what, and has settled; it returns
// its text.
func (s *screen) settled(what string) string {
	s.t.Helper()
	s.until(fmt.Sprintf(`document.querySelector('#outcomes li.settled b')?.textContent.includes(%q) && document.querySelector('#outcomes li b').textContent.includes(%q)`, what, what))
	return eval[string](s, `document.querySelector('#outcomes li').textContent`)
}

// fits checks that nothing is cut off when the page is as wide as that.
func (s *screen) fits(width int) {
	s.t.Helper()
	s.run(chromedp.EmulateViewport(int64(width), 844, chromedp.EmulateScale(1)))
	assert.LessOrEqual(s.t, eval[int](s, `document.documentElement.scrollWidth`), width)
	s.run(chromedp.ResetViewport())
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

// tall is picture for a page that is higher than the window.
func (s *screen) tall(name string) {
	s.t.Helper()
	if os.Getenv("CONSOLE_PICTURES") == "" {
		return
	}
	s.run(chromedp.EmulateViewport(1280, 1500))
	s.picture(name, "")
	s.run(chromedp.ResetViewport())
}
