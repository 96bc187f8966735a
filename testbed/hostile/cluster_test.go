package hostile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/testbed"
	"conclave/testbed/load"
	"conclave/testbed/local"
	"conclave/testbed/local/supervisor"
	"conclave/testbed/outside"
	"conclave/wire"
)

// The tokens of the cluster: the honest clients have that of the shop.
const (
	operatorToken, nodeToken, shopToken, malloryToken, readerToken = "t-operator", "t-node", "t-shop", "t-mallory", "t-reader"

	tokenLines = "operator local " + operatorToken + "\nnode local " + nodeToken + "\npublish local " + shopToken +
		"\npublish mallory " + malloryToken + "\nread page " + readerToken + "\n"
)

// Limits of the sessions, low enough to be met in seconds.
var sessionLimits = map[string]string{
	"MAX_ADDRESS_CONNECTIONS": "2000", "MAX_SUBSCRIPTIONS": "5000", "MAX_ADDRESS_BYTES": strconv.Itoa(64 << 20), "MAX_OUTBOX_BYTES": strconv.Itoa(16 << 20),
}

// What the suite allows. With the race detector the programs take several times as
// much memory and time.
const (
	mostMemory = 800 << 20 // of a process: twice what the limits allow one address, for the collector
	mostLog    = 2 << 20   // of a process, for one attack
	mostSeries = 2000      // in /metrics of a process
	racedTimes = 4

	// The honest wait as long as under a load that harms nobody (harmless), twice as long at
	// most, in the usual window; a time below the noise is not compared. Over a whole
	// attack they wait no longer than the worst.
	mostRatio = 2.0
	noise     = 20 * time.Millisecond
	worst     = 1500 * time.Millisecond

	honest = 40 // registrations
	clocks = 4  // lists by which the time from publish to push is measured
)

// raced reports whether the programs are built with the race detector, as make
// test-hostile does. They are slower then, and the suite takes four minutes.
var raced = os.Getenv("RACED") != ""

// world is the cluster, its honest clients, and what was seen of them.
type world struct {
	t       *testing.T
	cluster *local.Cluster
	at      map[string]string // addresses, by name of node
	others  map[string]string // addresses of what is no node: console, db, control
	http    *http.Client      // an honest one
	dsn     string            // of the database
	pids    map[string]int
	nodes   string // the members, as /v1/nodes has them at the start
	term    string

	writers, readers []*outside.Client
	lists            *load.Traffic // of the writers, which the readers watch
	clocks           []*client.Publication
	strangers        *client.Publication // nil until it is registered
	hasLarge         bool                // the large list is registered
	latency          latencies
	logs             map[string]int64 // the size of each process's log

	mu      sync.Mutex               // guards the rest
	slowest map[string]time.Duration // answer to an honest caller, by name of port
	failed  []string                 // honest callers without an answer
	most    map[string]int64         // memory, by name of node
}

// programs builds the programs of the nodes, and the tool.
func programs(t *testing.T) string {
	dir := t.TempDir()
	args := []string{"build"}
	env := append(os.Environ(), "CGO_ENABLED=0")
	if raced {
		args, env = append(args, "-race"), append(os.Environ(), "CGO_ENABLED=1")
	}
	cmd := exec.CommandContext(t.Context(), "go", append(args, "-o", dir+"/", "conclave/cmd/meta", "conclave/cmd/session", "conclave/cmd/data", "conclave/cmd/devdb", "conclave/cmd/conclave")...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir
}

// start starts a cluster, with TLS on the ports of its nodes if tls is set.
func start(t *testing.T, tls bool) *world {
	for key, value := range sessionLimits {
		t.Setenv("CONCLAVE_SESSION_"+key, value)
	}
	dir := filepath.Join(t.TempDir(), "c")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(supervisor.TokensPath(dir), []byte(tokenLines), 0o600))
	w := &world{t: t, lists: load.NewTraffic(), most: map[string]int64{}, pids: map[string]int{"supervisor": os.Getpid()}, logs: map[string]int64{}, slowest: map[string]time.Duration{}}
	bin := programs(t)
	w.cluster = local.New(local.Config{Bin: bin, Dir: dir, NoEvents: true, Direct: true, OwnTokens: true, TLS: tls})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = w.cluster.Close(ctx) // what its processes wrote is checked by the test
	})
	require.NoError(t, w.cluster.Open(t.Context(), testbed.Size{Metas: 2, Sessions: 2, Datas: 2, Slots: 16, Lease: 3 * time.Second}, nil))
	ready, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, w.cluster.AwaitReady(ready))
	w.at = w.cluster.Addresses()
	w.http = &http.Client{Transport: w.cluster.Secure(&http.Transport{})}
	w.others = w.otherPorts(dir)
	if !tls {
		w.others["console"] = w.console(bin, dir)
	}
	processes, err := w.cluster.Processes(t.Context())
	require.NoError(t, err)
	for _, p := range processes {
		w.pids[p.Name] = p.PID
	}
	w.nodes, w.term = w.members(), w.leader()
	return w
}

// get returns a document of a node.
func (w *world) get(node, path string, into any) {
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+w.at[node]+path, nil)
	require.NoError(w.t, err)
	wire.SetToken(req.Header, operatorToken)
	res, err := w.http.Do(req)
	require.NoError(w.t, err)
	defer res.Body.Close()
	require.NoError(w.t, json.NewDecoder(res.Body).Decode(into))
}

// members returns the members, with their incarnations.
func (w *world) members() string {
	var list []struct {
		Name, Role, Incarnation string
	}
	w.get("meta-1", "/v1/nodes", &list)
	out := []string{}
	for _, n := range list {
		out = append(out, fmt.Sprint(n.Role, " ", n.Name, " ", n.Incarnation))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// leader returns the term and its leader.
func (w *world) leader() string {
	var l struct {
		Term   uint64
		Leader string
		Name   string
	}
	w.get("meta-1", "/v1/leader", &l)
	return fmt.Sprint(l.Term, " ", l.Leader, l.Name)
}

// check checks what must be true after each attack, except how long the honest waited.
func (w *world) check(t *testing.T) {
	times := 1
	if raced {
		times = racedTimes
	}
	w.mu.Lock()
	memory := w.most
	w.most = map[string]int64{}
	w.mu.Unlock()
	var shown []string
	for _, name := range slices.Sorted(maps.Keys(memory)) {
		shown = append(shown, fmt.Sprintf("%s %d", name, memory[name]>>20))
		assert.Less(t, memory[name], int64(mostMemory*times), "memory of %s", name)
	}
	t.Logf("MiB: %s", strings.Join(shown, ", "))
	processes, err := w.cluster.Processes(t.Context())
	require.NoError(t, err)
	for _, p := range processes {
		assert.Equal(t, w.pids[p.Name], p.PID, "%s was started again", p.Name)
		assert.True(t, p.Running, p.Name)
	}
	assert.Equal(t, w.term, w.leader(), "no election")
	assert.Equal(t, w.nodes, w.members(), "no eviction")
	for _, c := range slices.Concat(w.writers, w.readers) {
		assert.Zero(t, c.Lost(), "%s lost its session", c.Name())
	}
	for _, p := range w.clocks {
		assert.NoError(t, p.Err())
	}
	w.checkLogs(t)
	for node := range w.at {
		assert.Less(t, w.series(node), mostSeries, "lines in /metrics of %s", node)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Empty(t, w.lists.Broken(), "lists that lack something")
	assert.Empty(t, w.failed, "callers that were not answered")
	for port, took := range w.slowest {
		assert.Less(t, took, prompt*time.Duration(times), "answer at %s", port)
	}
	t.Logf("slowest answers: %v", w.slowest)
	w.slowest, w.failed = map[string]time.Duration{}, nil
}

// checkLogs checks that no process has written much into its log since the last call.
func (w *world) checkLogs(t *testing.T) {
	files, err := w.cluster.LogFiles(t.Context())
	require.NoError(t, err)
	for name, file := range files {
		info, err := os.Stat(file)
		require.NoError(t, err)
		if before, known := w.logs[name]; known {
			assert.Less(t, info.Size()-before, int64(mostLog), "log of %s", name)
		}
		w.logs[name] = info.Size()
	}
}

// series returns the number of lines in a process's metrics.
func (w *world) series(node string) int {
	res, err := w.http.Get("http://" + w.at[node] + "/metrics")
	require.NoError(w.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	return strings.Count(string(text), "\n")
}
