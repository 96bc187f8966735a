package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/meta/metaclient"
	conclavesql "conclave/sql"
	"conclave/testbed/local/supervisor"
	"conclave/testbed/outside"
	"conclave/wire"
	"conclave/wire/serve"
)

var (
	buildOnce sync.Once
	buildDir  string
	buildErr  error
)

// realPrograms builds the programs once and makes the tool find them. The tool
// itself is the test binary, with asTool in its environment.
func realPrograms(t *testing.T) {
	t.Helper()
	buildOnce.Do(func() {
		if buildDir, buildErr = os.MkdirTemp("", "conclave-programs-"); buildErr != nil {
			return
		}
		cmd := exec.Command("go", "build", "-o", buildDir+"/", "conclave/cmd/meta", "conclave/cmd/session", "conclave/cmd/data", "conclave/cmd/devdb")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		var out []byte
		if out, buildErr = cmd.CombinedOutput(); buildErr != nil {
			buildErr = &exec.Error{Name: string(out), Err: buildErr}
		}
	})
	require.NoError(t, buildErr)
	t.Setenv(binEnv, buildDir)
	t.Setenv(asTool, "1")
}

// decode decodes the document that a call printed.
func decode[T any](t *testing.T, r result) T {
	t.Helper()
	require.Equal(t, exitDone, r.code, r.stderr)
	var v T
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &v), r.stdout)
	return v
}

// allReady returns the processes when ps shows all of them as ready. On a busy
// machine a process may not answer in time.
func allReady(t *testing.T, conclave func(args ...string) result) (ps []supervisor.Process) {
	t.Helper()
	require.Eventually(t, func() bool {
		ps = decode[[]supervisor.Process](t, conclave("ps"))
		return !slices.ContainsFunc(ps, func(p supervisor.Process) bool { return p.State != "ready" })
	}, time.Minute, 20*time.Millisecond)
	return ps
}

// The commands of an operator's first quarter of an hour on real processes.
func TestCluster_UpToDown(t *testing.T) {
	if testing.Short() {
		t.Log("short: without real processes")
		return
	}
	realPrograms(t)
	dir := filepath.Join(t.TempDir(), "c")
	conclave := func(args ...string) result { return tool(t, append([]string{"--dir", dir, "--json"}, args...)...) }
	defer conclave("down", "--now")

	require.Len(t, decode[[]supervisor.Process](t, conclave("up", "--detach")), 9)
	for _, p := range allReady(t, conclave) {
		assert.Equal(t, p.Role == "db", p.Incarnation == "", p.Name)
	}
	again := conclave("up", "--detach")
	assert.Equal(t, exitFailed, again.code)
	assert.Contains(t, again.stderr, "pid ")

	// Publish and read.
	require.Equal(t, exitDone, conclave("publish", "echo=10.0.0.1:80", "echo=10.0.0.2:80", "time=10.0.0.3:80").code)
	got := decode[push](t, conclave("get", "echo"))
	assert.Equal(t, []string{"10.0.0.1:80", "10.0.0.2:80"}, got.Values)
	assert.Equal(t, exitTimedOut, conclave("subscribe", "echo", "--count", "9", "--timeout", "300ms").code)
	assert.Equal(t, exitUsage, conclave("publish", "no-value").code)
	require.Equal(t, exitDone, conclave("publish", "brief=x", "--linger", "200ms").code)
	require.Eventually(t, func() bool {
		r := conclave("get", "brief")
		return r.code == exitFailed && strings.Contains(r.stdout, `"values":[]`)
	}, 4*time.Second, 50*time.Millisecond, "the values stay no longer than --linger")

	// Kill the leader.
	first := decode[metaclient.LeaderInfo](t, conclave("leader"))
	killed := decode[supervisor.Process](t, conclave("kill", "leader"))
	assert.Equal(t, first.Leader, killed.Name)
	assert.Equal(t, "killed", killed.State)
	second := decode[metaclient.LeaderInfo](t, conclave("leader", "--after", strconv.FormatUint(first.Term, 10), "--wait", "10s"))
	assert.Equal(t, first.Term+1, second.Term)
	assert.NotEqual(t, first.Leader, second.Leader)
	var elections []metaclient.Election
	require.Eventually(t, func() bool { // with a busy database the row is written some beats later
		elections = decode[[]metaclient.Election](t, conclave("elections"))
		return len(elections) > 0 && elections[0].Term >= second.Term
	}, 20*time.Second, 50*time.Millisecond)
	require.GreaterOrEqual(t, len(elections), 2)
	assert.Equal(t, second.Term, elections[0].Term)
	assert.Equal(t, "killed", elections[0].Cause)
	assert.Equal(t, "ready", decode[supervisor.Process](t, conclave("start", killed.Name)).State)

	// Resign; observe and become a candidate again.
	third := decode[metaclient.LeaderInfo](t, conclave("resign"))
	assert.Greater(t, third.Term, second.Term)
	require.Equal(t, exitDone, conclave("election", "quit", third.Leader).code)
	fourth := decode[metaclient.LeaderInfo](t, conclave("leader", "--after", strconv.FormatUint(third.Term, 10), "--wait", "10s"))
	assert.NotEqual(t, third.Leader, fourth.Leader)
	join := conclave("election", "join", third.Leader)
	require.Equal(t, exitDone, join.code, join.stderr)

	// Operate.
	nodes := decode[[]metaclient.NodeInfo](t, conclave("nodes", "--role", "data"))
	assert.Len(t, nodes, 3)
	set := decode[wire.Switch](t, conclave("switch", "set", "stop-push", "on"))
	assert.Equal(t, "on", set.Value)
	require.Equal(t, exitDone, conclave("switch", "set", "stop-push", "off").code)
	slots := decode[metaclient.SlotsInfo](t, conclave("slots"))
	assert.Len(t, slots.Slots, 256)
	done := decode[drained](t, conclave("drain", "data-1"))
	assert.Equal(t, ledBy(slots, "data-1"), done.MovedSlots)
	entries := decode[[]metaclient.BlacklistInfo](t, conclave("blacklist", "list"))
	require.Len(t, entries, 1)
	assert.Equal(t, "data-1", entries[0].Name)
	require.Equal(t, exitDone, conclave("blacklist", "remove", "data-1").code)
	require.Equal(t, exitDone, conclave("drain", "session-1").code)
	refused := conclave("drain", "session-2")
	assert.Equal(t, exitFailed, refused.code)
	assert.Contains(t, refused.stderr, "no_successor")
	assert.Contains(t, refused.stderr, "--force")
	effect := decode[metaclient.Effect](t, conclave("drain", "session-2", "--dry-run"))
	assert.True(t, effect.Refused)
	require.Equal(t, exitDone, conclave("blacklist", "remove", "session-1").code)
	events := conclave("events")
	require.Equal(t, exitDone, events.code, events.stderr)
	assert.Contains(t, events.stdout, `"node":"data-1"`)
	assert.Regexp(t, `"node":"meta-1","type":"meta\.started"`, events.stdout)
	assert.NotEmpty(t, conclave("logs", "meta-1").stdout)

	down := conclave("down")
	require.Equal(t, exitDone, down.code, down.stderr)
	for _, p := range decode[[]supervisor.Process](t, conclave("ps")) {
		assert.Equal(t, "exited", p.State, p.Name)
		assert.Zero(t, p.Code, p.Name)
	}
	for name, line := range map[string]string{"data-2": "nothing is handed over", "session-2": "clusterStops=true"} {
		log, err := os.ReadFile(supervisor.LogPath(dir, name))
		require.NoError(t, err)
		assert.Contains(t, string(log), line, "down has announced the stop to %s", name)
	}
}

func TestRoll_NamesWhatIsDown(t *testing.T) {
	err := (&app{dir: defaultDir}).checkRunning([]supervisor.Process{
		{Name: "data-1", State: "ready"}, {Name: "meta-2", State: "killed"}, {Name: "meta-3", State: "suspended"}, {Name: "session-1", State: "starting"},
	})
	assert.EqualError(t, err, "roll requires that every process is ready: meta-2 is down (killed), start it with `conclave start meta-2`; meta-3 is suspended, continue it with `conclave kill meta-3 -CONT`")
	assert.NoError(t, (&app{}).checkRunning(nil))
}

// While the first data node is restarted a session crashes and is started again: it
// is another process then, for which the roll waits as for any other.
func TestRoll_RestartsEveryNodeOnce(t *testing.T) {
	if testing.Short() {
		t.Log("short: without real processes")
		return
	}
	realPrograms(t)
	t.Run("started by hand", func(t *testing.T) { rollWithACrash(t) })
	t.Run("started by the supervisor", func(t *testing.T) { rollWithACrash(t, "--restart", "1s") })
}

func rollWithACrash(t *testing.T, restart ...string) {
	dir := filepath.Join(t.TempDir(), "c")
	conclave := func(args ...string) result { return tool(t, append([]string{"--dir", dir, "--json"}, args...)...) }
	defer conclave("down", "--now")
	before := decode[[]supervisor.Process](t, conclave(append([]string{"up", "--detach", "--meta-nodes", "2", "--data-nodes", "2", "--slots", "16"}, restart...)...))
	h, err := supervisor.Open(dir)
	require.NoError(t, err)
	web := outside.HTTP(nil, nil)
	session := func(name string) (pid int, serves bool) {
		rows, err := h.Rows()
		assert.NoError(t, err)
		at := slices.IndexFunc(rows, func(p supervisor.Process) bool { return p.Name == name })
		return rows[at].PID, outside.Status(t.Context(), web, "http://"+rows[at].HTTP+"/readyz", "") == http.StatusOK
	}
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		crashed := false
		for ; ; time.Sleep(time.Millisecond) {
			select {
			case <-done:
				return
			default:
			}
			// A process begins to serve once: if one did not, before and after the other
			// did not, there was a moment without both, however slow the machine is.
			if pid, serves := session("session-1"); !serves {
				if _, serves := session("session-2"); !serves {
					after, serves := session("session-1")
					assert.False(t, after == pid && !serves, "no session serves")
				}
			}
			if crashed {
				continue
			}
			data, err := h.Process(t.Context(), "data-1")
			assert.NoError(t, err)
			if crashed = data.State == "draining"; crashed { // roll stops it, and looks at the others when it is back
				assert.NoError(t, h.Kill(t.Context(), "session-1", syscall.SIGKILL))
				if restart == nil {
					assert.NoError(t, h.Start(t.Context(), "session-1"))
				}
			}
		}
	})
	r := conclave("roll")
	close(done)
	watching.Wait()
	require.Equal(t, exitDone, r.code, r.stderr)
	assert.Equal(t, len(before)-1, strings.Count(r.stdout, "\n"), "each node but the database: %s", r.stdout)
	pids := make(map[string]int)
	for _, p := range before {
		pids[p.Name] = p.PID
	}
	for _, p := range allReady(t, conclave) {
		assert.Equal(t, p.Role == "db", p.PID == pids[p.Name], p.Name)
	}
	require.Equal(t, exitDone, conclave("down").code)
}

func TestToken_IsRequiredAndSent(t *testing.T) {
	if testing.Short() {
		t.Log("short: without real processes")
		return
	}
	realPrograms(t)
	dir := filepath.Join(t.TempDir(), "c")
	defer tool(t, "--dir", dir, "down", "--now")
	up := tool(t, "--dir", dir, "--token", "s3cret", "--json", "up", "--detach", "--meta-nodes", "1", "--data-nodes", "1", "--session-nodes", "1", "--slots", "16")
	var meta string
	for _, p := range decode[[]supervisor.Process](t, up) {
		if p.Role == "meta" {
			meta = p.HTTP
		}
	}
	r := tool(t, "--meta", meta, "switch", "set", "stop-push", "off")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, "--token")
	assert.Equal(t, exitFailed, tool(t, "--meta", meta, "publish", "a=b").code)
	assert.Equal(t, exitDone, tool(t, "--meta", meta, "--token", "s3cret", "publish", "a=b").code)
	r = tool(t, "--meta", meta, "get", "a")
	assert.Equal(t, exitFailed, r.code, "reading needs a token, too")
	assert.Contains(t, r.stderr, "--token")
	assert.Equal(t, exitDone, tool(t, "--meta", meta, "--token", "s3cret", "get", "a").code)
	assert.Equal(t, exitDone, tool(t, "--dir", dir, "services").code)
	assert.Equal(t, exitDone, tool(t, "--dir", dir, "events").code)
	assert.Equal(t, exitDone, tool(t, "--dir", dir, "publish", "a=b").code, "the local cluster's token is in its folder")
	assert.Equal(t, exitDone, tool(t, "--dir", dir, "down").code)
}

// A cluster in the foreground ends with its context, as with Ctrl-C.
func TestUp_ForegroundEndsWithContext(t *testing.T) {
	if testing.Short() {
		t.Log("short: without real processes")
		return
	}
	realPrograms(t)
	dir := filepath.Join(t.TempDir(), "c")
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"--dir", dir, "up", "--meta-nodes", "1", "--data-nodes", "1", "--session-nodes", "1"}, os.Stderr, os.Stderr)
	}()
	require.Eventually(t, func() bool {
		h, err := supervisor.Open(dir)
		if err != nil {
			return false
		}
		ready, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return h.AwaitReady(ready) == nil
	}, time.Minute, 50*time.Millisecond)
	interrupt()
	select {
	case code := <-ended:
		assert.Equal(t, exitDone, code)
	case <-time.After(30 * time.Second):
		t.Fatal("it did not end")
	}
}

func TestHurryOnSignal_LogsThatTheClusterStops(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	out, log := io.Pipe()
	defer hurryOnSignal(ctx, nil, hclog.New(&hclog.LoggerOptions{Output: log}))()
	interrupt()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	assert.Contains(t, line, "stopping the cluster; a second Ctrl-C")
}

func TestUp_ConsoleAddressInUseIsRefusedBeforeTheStart(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	dir := filepath.Join(t.TempDir(), "c")
	r := tool(t, "--dir", dir, "up", "--console="+ln.Addr().String())
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, "choose another address with --console=HOST:PORT")
	assert.Empty(t, r.stdout)
	assert.NoDirExists(t, dir)
}

// listening returns the TCP ports on which a process listens, sorted; known is false
// where the kernel has no /proc.
func listening(t *testing.T, pid int) (ports []string, known bool) {
	proc := fmt.Sprintf("/proc/%d/", pid)
	fds, err := os.ReadDir(proc + "fd")
	if err != nil {
		return nil, false
	}
	sockets := map[string]bool{}
	for _, fd := range fds {
		if to, err := os.Readlink(proc + "fd/" + fd.Name()); err == nil {
			sockets[to] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		rows, err := os.ReadFile(proc + "net/" + table)
		if err != nil {
			continue // a kernel without IPv6
		}
		for _, row := range strings.Split(string(rows), "\n") {
			const listens = "0A"
			if f := strings.Fields(row); len(f) > 9 && f[3] == listens && sockets["socket:["+f[9]+"]"] {
				port, err := strconv.ParseUint(f[1][strings.LastIndex(f[1], ":")+1:], 16, 16)
				require.NoError(t, err)
				ports = append(ports, strconv.FormatUint(port, 10))
			}
		}
	}
	slices.Sort(ports)
	return ports, true
}

// A cluster draws tokens of its own: a request without one reads and changes nothing,
// the tool finds the operator's, and applications have one that cannot operate.
func TestUp_DrawsTokens(t *testing.T) {
	if testing.Short() {
		t.Log("short: without real processes")
		return
	}
	realPrograms(t)
	dir := filepath.Join(t.TempDir(), "c")
	defer tool(t, "--dir", dir, "down", "--now")
	pids := map[string]int{}
	start := func(more ...string) (at map[string]string) {
		at = map[string]string{}
		r := tool(t, append([]string{"--dir", dir, "--json", "up", "--detach", "--meta-nodes", "1", "--data-nodes", "1", "--session-nodes", "1", "--slots", "16"}, more...)...)
		for _, p := range decode[[]supervisor.Process](t, r) {
			at[p.Role], pids[p.Role] = p.HTTP+p.SQL, p.PID
		}
		return at
	}
	at := start()
	for _, name := range []string{"tokens", "app-token"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
	}
	text, err := os.ReadFile(supervisor.AppTokenPath(dir))
	require.NoError(t, err)
	app := strings.TrimSpace(string(text))
	t.Setenv("CONCLAVE_TOKEN", app) // as an application's shell has it: the operator's own is in the folder
	r := tool(t, "--dir", dir, "config", "set", "greeting", "hello")
	require.Zero(t, r.code, r.stderr)
	t.Setenv("CONCLAVE_TOKEN", "")
	ask := func(method, role, path, token string) int {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+at[role]+path, nil)
		require.NoError(t, err)
		wire.SetToken(req.Header, token)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		return res.StatusCode
	}

	// Every port, and what it answers without a credential.
	open := []string{"/healthz", "/readyz", "/version", "/metrics"}
	closed := map[string][]string{
		"meta": {
			"GET /v1/leader", "GET /v1/elections", "GET /v1/slots", "GET /v1/nodes", "GET /v1/blacklist", "GET /v1/switches", "GET /v1/config", "GET /v1/stopping", "GET /v1/events",
			"PUT /v1/config/a", "DELETE /v1/config/a", "POST /v1/stopping", "DELETE /v1/stopping", "PUT /v1/blacklist/data-1", "DELETE /v1/blacklist/data-1",
			"PUT /v1/switches/arrange", "DELETE /v1/protection", "POST /v1/leader/resign", "PUT /v1/observers/meta-1", "DELETE /v1/observers/meta-1", "POST /v1/election/quit",
		},
		"data":    {"GET /v1/slots", "GET /v1/datums", "GET /v1/stopping", "POST /v1/stopping", "DELETE /v1/stopping", "GET /v1/events"},
		"session": {"GET /v1/services", "GET /v1/services/a", "GET /v1/services/a/events", "PUT /v1/services/a/registrations/1", "DELETE /v1/services/a/registrations/1", "POST /v1/services/a/registrations/1/renew", "GET /v1/clients", "GET /v1/publishers", "GET /v1/subscribers", "GET /v1/stopping", "POST /v1/stopping", "DELETE /v1/stopping", "GET /v1/events"},
	}
	services := map[string]string{"meta": "MetaService", "data": "DataService", "session": "SessionService"}
	for _, p := range serve.Procedures() {
		for role, own := range services {
			if strings.Contains(p, "."+own+"/") || strings.Contains(p, ".NodeService/") || role == "session" && strings.Contains(p, ".ClientService/") {
				closed[role] = append(closed[role], "POST "+p)
			}
		}
	}
	for role, paths := range closed {
		for _, path := range open {
			assert.Equal(t, http.StatusOK, ask("GET", role, path, ""), "%s %s", role, path)
		}
		for _, line := range paths {
			method, path, _ := strings.Cut(line, " ")
			if strings.HasSuffix(path, "/Hello") { // who a node is: it asks for its content type, not for a token
				assert.Equal(t, http.StatusUnsupportedMediaType, ask(method, role, path, ""), "%s %s", role, line)
				continue
			}
			assert.Equal(t, http.StatusUnauthorized, ask(method, role, path, ""), "%s %s", role, line)
			assert.Equal(t, http.StatusUnauthorized, ask(method, role, path, "guess"), "%s %s", role, line)
		}
	}
	assert.Equal(t, http.StatusOK, ask("GET", "meta", "/leaderz", ""))
	for user, refusal := range map[string]string{"root": "1045", "root:guess": "1045", "conclave": "No authentication methods"} { // the embedded database's
		db, err := conclavesql.Open(user+"@tcp("+at["db"]+")/conclave", conclavesql.Options{})
		require.NoError(t, err)
		assert.ErrorContains(t, db.Check(t.Context(), conclavesql.DefaultLock()), refusal, user)
		db.Close()
	}
	for role, address := range at {
		if ports, known := listening(t, pids[role]); known {
			assert.Equal(t, []string{address[strings.LastIndex(address, ":")+1:]}, ports, "%s listens on one port", role)
		}
	}
	h, err := supervisor.Open(dir)
	require.NoError(t, err)
	_, args, err := h.Command("meta-1")
	require.NoError(t, err)
	assert.NotContains(t, args, "--migrate", "a meta needs no right to change tables")

	assert.Equal(t, http.StatusForbidden, ask("POST", "meta", "/v1/leader/resign", app), "an application does not operate")
	assert.Equal(t, exitDone, tool(t, "--meta", at["meta"], "--token", app, "publish", "a=b").code)
	assert.Equal(t, exitDone, tool(t, "--dir", dir, "get", "a").code)
	assert.Equal(t, exitDone, tool(t, "--dir", dir, "switch", "set", "arrange", "on").code)
	require.Equal(t, exitDone, tool(t, "--dir", dir, "down").code)

	before := maps.Clone(at)
	assert.Equal(t, before, start(), "a restart keeps the ports")
	again, err := os.ReadFile(supervisor.AppTokenPath(dir))
	require.NoError(t, err)
	assert.Equal(t, string(text), string(again), "a restart keeps the tokens")
	require.Equal(t, exitDone, tool(t, "--dir", dir, "down").code)
	at = start("--insecure")
	assert.Equal(t, http.StatusOK, ask("GET", "session", "/v1/publishers", ""))
}

func TestConfig_ListsGetsSetsAndRemoves(t *testing.T) {
	values := []wire.ConfigValue{{ID: "limits", Value: "10", Epoch: conclave.Epoch{Term: 7, Seq: 3}}, {ID: "motto", Value: "\x1b[31mred"}}
	var asked []string
	note := func(answer any) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.Method+" "+r.URL.String())
			serve.WriteJSON(w, http.StatusOK, answer)
		}
	}
	meta := fakeMeta(t, map[string]any{
		"GET /v1/config": values, "GET /v1/leader": someLeader,
		"PUT /v1/config/{id}": note(values[0]), "DELETE /v1/config/{id}": note(metaclient.Effect{Effect: "e"}),
	})
	call := func(args ...string) result { return tool(t, append([]string{"--meta", meta, "config"}, args...)...) }
	assert.Regexp(t, `limits +10 +7\.3`, call("list").stdout)
	assert.Equal(t, "10\n", call("get", "limits").stdout)
	assert.Equal(t, "\x1b[31mred\n", call("get", "motto").stdout, "what is not a terminal gets the value as it is")
	none := call("get", "other")
	assert.Equal(t, exitFailed, none.code)
	assert.Contains(t, none.stderr, "other has no value; list those that have with `conclave config list --meta "+meta+"`")
	require.Equal(t, exitDone, call("set", "limits", "10").code)
	assert.Equal(t, "removed limits\n", call("remove", "limits").stdout)
	assert.Equal(t, "e\n", call("remove", "limits", "--dry-run").stdout)
	assert.Equal(t, []string{"PUT /v1/config/limits", "DELETE /v1/config/limits", "DELETE /v1/config/limits?dryRun=true"}, asked)
	assert.Equal(t, values, decode[[]wire.ConfigValue](t, call("list", "--json")))
}

func TestConfig_RemovalOfAMissingValueFails(t *testing.T) {
	meta := fakeMeta(t, map[string]any{"GET /v1/leader": someLeader, "DELETE /v1/config/{id}": wire.Errorf(wire.CodeNotFound, "there is no configuration value %q", "x")})
	r := tool(t, "--meta", meta, "config", "remove", "x")
	assert.Equal(t, exitFailed, r.code)
	assert.Equal(t, "conclave: there is no configuration value \"x\"; list what there is with `conclave config list --meta "+meta+"`\n", r.stderr)
}
