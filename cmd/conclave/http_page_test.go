package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/local/supervisor"
	"conclave/wire"
)

// printed is the output of a program. It may be read while the program runs.
type printed struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// last returns the last line.
func (p *printed) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(p.text.String()), "\n")
	return lines[len(lines)-1]
}

// The programs of docs/http.md, as they are on the page, register and watch on a real
// cluster. The session that they use is killed: each goes on at the other one, and none of
// them is missing meanwhile.
func TestPage_HTTPProgramsRun(t *testing.T) {
	if testing.Short() {
		t.Log("short: without real processes")
		return
	}
	page, err := os.ReadFile("../../docs/http.md")
	require.NoError(t, err)
	dir := t.TempDir()
	programs := map[string]func() *exec.Cmd{}
	missing := func(name string) bool {
		_, err := exec.LookPath(name)
		if err != nil {
			t.Logf("SKIPPED: the program of docs/http.md that needs %s, which is not installed", name)
		}
		return err != nil
	}
	for _, x := range []struct {
		language, file string
		needs          []string
	}{
		{"sh", "greeter.sh", []string{"bash", "curl", "jq"}}, {"python", "greeter.py", []string{"python3"}},
		{"js", "greeter.js", []string{"node"}}, {"java", "Greeter.java", []string{"java"}},
	} {
		found := regexp.MustCompile("(?ms)^```" + x.language + "\n(.*?)^```$").FindSubmatch(page)
		require.NotNil(t, found, "docs/http.md has no program in %s", x.language)
		path := filepath.Join(dir, x.file)
		require.NoError(t, os.WriteFile(path, found[1], 0o600))
		if !slices.ContainsFunc(x.needs, missing) {
			programs[x.language] = func() *exec.Cmd { return exec.CommandContext(t.Context(), x.needs[0], path) }
		}
	}
	realPrograms(t)
	cluster := filepath.Join(dir, "c")
	defer tool(t, "--dir", cluster, "down", "--now")
	r := tool(t, "--dir", cluster, "--json", "up", "--detach", "--meta-nodes", "1", "--data-nodes", "2", "--session-nodes", "2", "--slots", "16")
	var sessions []string
	for _, p := range decode[[]supervisor.Process](t, r) {
		if p.Role == "session" {
			sessions = append(sessions, p.HTTP)
		}
	}
	require.Len(t, sessions, 2)
	text, err := os.ReadFile(supervisor.AppTokenPath(cluster))
	require.NoError(t, err)
	token := strings.TrimSpace(string(text))

	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	out, want := map[string]*printed{}, []string{}
	for language, program := range programs {
		cmd, p := program(), &printed{}
		cmd.Env = append(os.Environ(), "SESSIONS="+strings.Join(sessions, ","), "TOKEN="+token, "VALUE="+language)
		cmd.Stdout, cmd.Stderr = p, os.Stderr
		require.NoError(t, cmd.Start())
		out[language], want = p, append(want, language)
		running.Go(func() {
			<-ctx.Done()
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	slices.Sort(want)
	all := func(values []string) {
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			for language, p := range out {
				for _, v := range values {
					assert.Contains(c, p.last(), v, "printed by the program in %s", language)
				}
			}
		}, 30*time.Second, 50*time.Millisecond)
	}
	all(want)

	require.Zero(t, tool(t, "--dir", cluster, "kill", "session-1").code)
	for until := time.Now().Add(18 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) { // the grace of the copies that it leaves
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+sessions[1]+"/v1/services/greeter", nil)
		require.NoError(t, err)
		wire.SetToken(req.Header, token)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		var doc struct{ Values []string }
		require.NoError(t, json.NewDecoder(res.Body).Decode(&doc))
		res.Body.Close()
		slices.Sort(doc.Values)
		require.Equal(t, want, doc.Values)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+sessions[1]+"/v1/services/greeter/registrations/late", strings.NewReader(`{"values":["later"]}`))
	require.NoError(t, err)
	wire.SetToken(req.Header, token)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	all([]string{"later"})
}
