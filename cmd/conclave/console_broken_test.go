package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// withoutGuard makes the tool find a program that was built without a guard (see
// testbed/simulated/mutate) beside the others.
func withoutGuard(t *testing.T, guard, program string) {
	t.Helper()
	dir := t.TempDir()
	programs, err := os.ReadDir(buildDir)
	require.NoError(t, err)
	for _, p := range programs {
		if p.Name() != program {
			require.NoError(t, os.Symlink(filepath.Join(buildDir, p.Name()), filepath.Join(dir, p.Name())))
		}
	}
	overlay := t.TempDir()
	for _, args := range [][]string{
		{"run", "./testbed/simulated/mutate", "-only", guard, "-overlay", overlay},
		{"build", "-overlay", filepath.Join(overlay, "overlay.json"), "-o", filepath.Join(dir, program), "./cmd/" + program},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir = "../.."
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	t.Setenv(binEnv, dir)
}

// The metas of this cluster hand over all slots of a drained node at once, which L13
// forbids. The page turns red, and stops at the violation.
func TestConsole_TurnsRedAtAViolation(t *testing.T) {
	chromium(t)
	realPrograms(t)
	withoutGuard(t, "002: all slots leave at once", "meta")
	_, act := upWithConsole(t)
	s := newScreen(t)
	s.run(chromedp.Navigate(act))
	s.until(`Number(document.getElementById('checks').textContent.replaceAll(',', '')) > 0`)
	s.until(`document.querySelectorAll('.node[data-state=ready]').length === 9`)
	assert.Equal(t, "0", s.text("broken"), s.text("violation-what"))
	calm := eval[string](s, headColour)

	s.on("data-2", "drain")
	s.patience(`!document.getElementById('violation').hidden`) // the checks are spaced by the time that they take
	assert.Regexp(t, `^L13: table \S+ moves \d+ slots at once`, s.text("violation-what"))
	assert.Contains(t, s.text("violation-evidence"), "meta-")
	assert.Contains(t, s.text("violation-before"), "granted", "the events until then")
	assert.Equal(t, "stopped at a violation", s.text("link"))
	assert.NotEqual(t, calm, eval[string](s, headColour), "the first line is red")
	assert.Equal(t, "bad", eval[string](s, `document.getElementById('broken').className`))
	assert.Contains(t, eval[string](s, `document.querySelector('[data-promise=L13]').textContent`), "✗")

	// Whoever opens the page later sees it too, and what happened then.
	s.run(chromedp.Reload())
	s.until(`!document.getElementById('violation').hidden`)
	assert.Equal(t, "stopped at a violation", s.text("link"))
	s.picture("console-violation.png", "")
	s.js(`document.getElementById('go-on').click()`)
	s.until(`document.getElementById('link').textContent === 'live'`)
	assert.Empty(t, s.errors(), "errors in the browser's console")
}

const headColour = `getComputedStyle(document.querySelector('header')).backgroundColor`
