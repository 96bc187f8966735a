package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/cli/clitest"
	conclavesql "conclave/sql"
	"conclave/testbed/local/supervisor"
)

// dev is a running `conclave dev`.
type dev struct {
	dir  string
	out  clitest.Output
	stop context.CancelFunc // as Ctrl-C
	code chan int
}

// startDev starts a cluster in this process and waits until it is ready.
func startDev(t *testing.T, args ...string) *dev {
	t.Helper()
	d := &dev{dir: filepath.Join(t.TempDir(), "dev"), code: make(chan int, 1)}
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	go func() { d.code <- run(ctx, append([]string{"--dir", d.dir, "dev"}, args...), &d.out, &d.out) }()
	t.Cleanup(func() {
		stop()
		if len(d.code) == 0 {
			<-d.code
		}
	})
	require.Eventually(t, func() bool { return strings.Contains(d.out.String(), "Ctrl-C ends it") || len(d.code) > 0 }, time.Minute, 5*time.Millisecond)
	require.Empty(t, d.code, d.out.String())
	return d
}

func (d *dev) tool(t *testing.T, args ...string) result {
	t.Helper()
	return tool(t, append([]string{"--dir", d.dir}, args...)...)
}

// ended waits for the end and puts the exit code back, for the cleanup.
func (d *dev) ended() int {
	code := <-d.code
	d.code <- code
	return code
}

func TestDev_OtherCommandsFindIt(t *testing.T) {
	d := startDev(t, "--console=")
	var rows []struct{ Name, State string }
	require.NoError(t, json.Unmarshal([]byte(d.tool(t, "ps", "--json").stdout), &rows))
	require.Len(t, rows, 4)
	for _, r := range rows {
		assert.Equal(t, "ready", r.State, r.Name)
	}
	require.Zero(t, d.tool(t, "publish", "demo=10.0.0.1:8080", "--linger", "1m").code)
	assert.Contains(t, d.tool(t, "get", "demo").stdout, "10.0.0.1:8080")
	assert.Contains(t, d.tool(t, "services").stdout, "demo")
	assert.Contains(t, d.tool(t, "election", "list").stdout, "first")

	// A node inside can be killed, stopped and started; it cannot be suspended.
	r := d.tool(t, "kill", "data-1", "-STOP")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, "data-1 runs inside one process")
	assert.Contains(t, r.stderr, "conclave up")
	for _, name := range []string{"data-1", "session-1", "leader", "db"} {
		assert.Contains(t, d.tool(t, "kill", name).stdout, "killed", name)
		if name == "leader" {
			name = "meta-1"
		}
		assert.Equal(t, exitFailed, d.tool(t, "kill", name).code, "%s is down", name)
		assert.Zero(t, d.tool(t, "start", name).code, name)
		require.Eventually(t, func() bool { // a data node that was ready gets its slots
			return strings.Count(d.tool(t, "ps").stdout, " ready ") == 4
		}, time.Minute, 5*time.Millisecond)
		assert.Equal(t, exitFailed, d.tool(t, "start", name).code, "%s runs", name)
	}
	assert.Equal(t, exitFailed, d.tool(t, "dev").code, "a folder has one cluster")
	assert.Contains(t, d.tool(t, "logs", "meta-1").stdout, "leading")

	require.Zero(t, d.tool(t, "down").code)
	assert.Zero(t, d.ended(), d.out.String())
	assert.Contains(t, d.tool(t, "ps").stdout, "exited")
}

// The nodes of a larger one are restarted one by one, drained each, as processes are.
// Clients of Consul find a port of their own, at any address if that of Consul is taken, and
// see what clients with the SDK register, and the other way round; also after session-1 has
// been replaced.
func TestDev_AnswersClientsOfConsul(t *testing.T) {
	if ln, err := net.Listen("tcp", "127.0.0.1:8500"); err == nil { // otherwise another process has it
		defer ln.Close()
	}
	d := startDev(t, "--console=")
	_, rest, _ := strings.Cut(d.out.String(), "Clients of Consul connect to ")
	address, _, _ := strings.Cut(rest, ".\n")
	require.NotContains(t, address, ":8500")
	call := func(method, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, strings.NewReader(body))
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(text)
	}
	for range 2 {
		status, text := call(http.MethodPut, "/v1/agent/service/register", `{"Name": "web", "Address": "10.0.0.1", "Port": 80, "Check": {"TTL": "15s"}}`)
		require.Equal(t, http.StatusOK, status, text)
		status, text = call(http.MethodPut, "/v1/agent/check/pass/service:web", "")
		require.Equal(t, http.StatusOK, status, text)
		status, text = call(http.MethodGet, "/v1/health/service/web?passing", "")
		assert.Equal(t, http.StatusOK, status)
		assert.Contains(t, text, "10.0.0.1")
		assert.Contains(t, d.tool(t, "get", "web").stdout, "10.0.0.1:80")
		require.Zero(t, d.tool(t, "publish", "demo=10.0.0.2:8080", "--linger", "1m").code)
		_, text = call(http.MethodGet, "/v1/catalog/service/demo", "")
		assert.Contains(t, text, "10.0.0.2")
		require.Zero(t, d.tool(t, "kill", "session-1").code)
		require.Zero(t, d.tool(t, "start", "session-1").code)
	}
	r := tool(t, "--dir", t.TempDir(), "dev", "--consul-listen", "0.0.0.0:8500")
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.stderr, "--consul-listen")
}

func TestDev_Roll(t *testing.T) {
	d := startDev(t, "--size", "3,3,2", "--console=")
	r := d.tool(t, "roll")
	assert.Zero(t, r.code, r.stderr)
	assert.Equal(t, 8, strings.Count(r.stdout, "ready again"))
	d.stop()
	assert.Zero(t, d.ended())
}

func TestDev_FileKeepsTheState(t *testing.T) {
	file := filepath.Join(t.TempDir(), "registry.sql")
	d := startDev(t, "--file", file, "--console=")
	require.Zero(t, d.tool(t, "config", "set", "limits", "17").code)
	d.stop() // Ctrl-C
	assert.Zero(t, d.ended())

	d = startDev(t, "--file", file, "--console=")
	assert.Contains(t, d.tool(t, "config", "get", "limits").stdout, "17")
	assert.Contains(t, d.tool(t, "leader", "--wait", "10s").stdout, "term 2")
	r := tool(t, "--dir", filepath.Join(t.TempDir(), "other"), "dev", "--file", file, "--console=")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, "in use by another server")
}

func TestDev_RefusesADatabaseOfANewerSchema(t *testing.T) {
	file := filepath.Join(t.TempDir(), "registry.sql")
	d := startDev(t, "--file", file, "--console=")
	h, err := supervisor.Open(d.dir)
	require.NoError(t, err)
	rows, err := h.Rows()
	require.NoError(t, err)
	i := slices.IndexFunc(rows, func(p supervisor.Process) bool { return p.SQL != "" })
	db, err := conclavesql.Open("root@tcp("+rows[i].SQL+")/conclave", conclavesql.Options{Deadline: time.Minute})
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec(t.Context(), "UPDATE schema_version SET version = 4711 WHERE id = 1")
	require.NoError(t, err)
	d.stop()
	require.Zero(t, d.ended())

	r := tool(t, "--dir", d.dir, "dev", "--file", file, "--console=")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, "the database has version 4711, this program knows ")
}

// One signal ends it, also SIGHUP: it has no token file that could be read again.
func TestDev_SignalsEndIt(t *testing.T) {
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		var out clitest.Output
		cmd := exec.Command(os.Args[0], "--dir", filepath.Join(t.TempDir(), "dev"), "dev", "--console=")
		cmd.Env = append(os.Environ(), asTool+"=1")
		cmd.Stdout, cmd.Stderr = &out, &out
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended
		require.Eventually(t, func() bool { return strings.Contains(out.String(), "Ctrl-C ends it") }, time.Minute, 5*time.Millisecond, &out)
		require.NoError(t, cmd.Process.Signal(sig))
		assert.NoError(t, cmd.Wait(), "%v: %s", sig, &out)
	}
}

func TestDev_ShowsItsPage(t *testing.T) {
	d := startDev(t, "--console", "127.0.0.1:0")
	page := ""
	require.Eventually(t, func() bool {
		_, after, found := strings.Cut(d.out.String(), "console: ")
		page, _, _ = strings.Cut(after, "\n")
		return found && strings.Contains(after, "\n")
	}, time.Minute, time.Millisecond)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	res, err := client.Get(page)
	require.NoError(t, err)
	defer res.Body.Close()
	assert.Equal(t, http.StatusOK, res.StatusCode)
}

func TestDev_RefusesBadInput(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--size", "3"}, exitUsage, `--size "3"`},
		{[]string{"--size", "1,0,1"}, exitUsage, "1 to 99 each"},
		{[]string{"--size", "1,1,x"}, exitUsage, "as in 3,3,2"},
		{[]string{"--token", "secret"}, exitUsage, "asks for no token"},
		{[]string{"--console", "here"}, exitUsage, `"here"`},
		{[]string{"--console", taken.Addr().String()}, exitFailed, "in use"},
		{[]string{"--console=", "--file", "/nowhere/db.sql"}, exitFailed, "/nowhere/db.sql"},
		{[]string{"extra"}, exitUsage, "extra"},
		{[]string{"--meta", "127.0.0.1:1"}, exitUsage, "--meta"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"dev", "--dir", filepath.Join(t.TempDir(), "d")}, c.args...), &stdout, &stderr)
		assert.Equal(t, c.code, code, c.args)
		assert.Contains(t, stderr.String(), c.want, c.args)
		assert.NotContains(t, stderr.String(), "secret")
	}
}

// The page has its port after the nodes have theirs, so that it takes none of them.
func TestDev_PageLeavesTheNodesTheirPorts(t *testing.T) {
	_, page, err := net.SplitHostPort(consoleAddress)
	require.NoError(t, err)
	first, err := strconv.Atoi(page)
	require.NoError(t, err)
	d := startDev(t, "--ports", strconv.Itoa(first-3))
	assert.Contains(t, d.tool(t, "ps").stdout, "127.0.0.1:"+page, "a session has it")
	page = "http://127.0.0.1:" + page
	assert.Eventually(t, func() bool { // it is the last to print
		return strings.Contains(strings.ReplaceAll(d.out.String(), page, ""), "http://127.0.0.1:")
	}, time.Minute, 5*time.Millisecond, "the page has another one")
}

// Nor do the ports for clients of SOFARegistry take those of the nodes.
func TestDev_SofaLeavesTheNodesTheirPorts(t *testing.T) {
	doors, err := sofaDoors(2, map[string]string{"db": "127.0.0.1:9600"})
	require.NoError(t, err)
	assert.Len(t, doors, 2)
	for name, address := range doors {
		assert.NotEqual(t, "127.0.0.1:9600", address, name)
	}
}
