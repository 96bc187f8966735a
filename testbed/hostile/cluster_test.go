package hostile_test

import (
	"context"
	"encoding/json"
	"fmt"
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

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/testbed"
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
	mostMemory = 700 << 20 // of a process: one message of 4 KB took 814 MiB once
	floor      = 1500 * time.Millisecond
	racedTimes = 4

	honest = 40 // registrations
)

// raced reports whether the programs are built with the race detector, as make
// test-hostile does. They are slower then, and the suite takes two minutes.
var raced = os.Getenv("RACED") != ""

// world is the cluster, its honest clients, and what was seen of them.
type world struct {
	t       *testing.T
	cluster *local.Cluster
	at      map[string]string // addresses, by name of node
	pids    map[string]int
	nodes   string // the members, as /v1/nodes has them at the start
	term    string

	writers, readers []*client.Client
	updated          *client.Publication
	hasLarge         bool // the large list is registered

	mu      sync.Mutex // guards the rest
	latency []time.Duration
	missing []string         // lists that lacked something
	most    map[string]int64 // memory, by name of node
}

// programs builds the programs of the nodes.
func programs(t *testing.T) string {
	dir := t.TempDir()
	args := []string{"build"}
	env := append(os.Environ(), "CGO_ENABLED=0")
	if raced {
		args, env = append(args, "-race"), append(os.Environ(), "CGO_ENABLED=1")
	}
	cmd := exec.CommandContext(t.Context(), "go", append(args, "-o", dir+"/", "conclave/cmd/meta", "conclave/cmd/session", "conclave/cmd/data", "conclave/cmd/devdb")...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir
}

func start(t *testing.T) *world {
	for key, value := range sessionLimits {
		t.Setenv("CONCLAVE_SESSION_"+key, value)
	}
	dir := filepath.Join(t.TempDir(), "c")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(supervisor.TokensPath(dir), []byte(tokenLines), 0o600))
	w := &world{t: t, most: map[string]int64{}, pids: map[string]int{}}
	w.cluster = local.New(local.Config{Bin: programs(t), Dir: dir, Logger: hclog.NewNullLogger(), NoEvents: true, Direct: true, OwnTokens: true})
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
	res, err := http.DefaultClient.Do(req)
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

// client starts an honest client of one session.
func (w *world) client(name, session string) *client.Client {
	x, err := client.New(client.Config{Name: name, Sessions: []string{w.at[session]}, Token: shopToken})
	require.NoError(w.t, err)
	x.Start()
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = x.Close(ctx) // the cluster may have ended
	})
	return x
}

// work makes the honest clients register, and publish and read until ctx ends.
func (w *world) work(ctx context.Context) (wait func()) {
	for _, session := range []string{"session-1", "session-2"} {
		w.writers, w.readers = append(w.writers, w.client("writer of "+session, session)), append(w.readers, w.client("reader of "+session, session))
	}
	stored, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for i := range honest {
		p, err := w.writers[i%2].Publish(stored, "honest", []string{fmt.Sprint("value ", i)})
		require.NoError(w.t, err)
		require.NoError(w.t, p.Stored(stored))
	}
	var err error
	w.updated, err = w.writers[0].Publish(stored, "clock", []string{"0"})
	require.NoError(w.t, err)
	require.NoError(w.t, w.updated.Stored(stored))

	var all sync.WaitGroup
	for _, r := range w.readers {
		list, err := r.Subscribe("honest")
		require.NoError(w.t, err)
		clock, err := r.Subscribe("clock")
		require.NoError(w.t, err)
		all.Go(func() {
			complete := false
			for {
				select {
				case d := <-list.C():
					if complete = complete || len(d.Values) == honest; complete && len(d.Values) != honest {
						w.mu.Lock()
						w.missing = append(w.missing, fmt.Sprintf("%d values at version %d", len(d.Values), d.Version))
						w.mu.Unlock()
					}
				case d := <-clock.C():
					if len(d.Values) == 1 {
						if sent, err := strconv.ParseInt(d.Values[0], 10, 64); err == nil && sent > 0 {
							w.mu.Lock()
							w.latency = append(w.latency, time.Duration(time.Now().UnixNano()-sent))
							w.mu.Unlock()
						}
					}
				case <-ctx.Done():
					return
				}
			}
		})
	}
	all.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = w.updated.Update([]string{strconv.FormatInt(time.Now().UnixNano(), 10)}) // Err is checked at the end
			case <-ctx.Done():
				return
			}
		}
	})
	all.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				w.mu.Lock()
				for name, pid := range w.pids {
					w.most[name] = max(w.most[name], outside.Resident(pid))
				}
				w.mu.Unlock()
			case <-ctx.Done():
				return
			}
		}
	})
	return all.Wait
}

// measured removes and returns what was measured since the last call: the 99th
// percentile from publish to push, how many pushes there were, and the most memory of
// each process.
func (w *world) measured() (p99 time.Duration, pushes int, memory map[string]int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.latency)
	if pushes = len(w.latency); pushes > 0 {
		p99 = w.latency[pushes*99/100]
	}
	memory = w.most
	w.latency, w.most = nil, map[string]int64{}
	return p99, pushes, memory
}

// check checks what must be true after each attack.
func (w *world) check(t *testing.T, quiet time.Duration) {
	times := 1
	if raced {
		times = racedTimes
	}
	p99, pushes, memory := w.measured()
	var shown []string
	for _, name := range slices.Sorted(maps.Keys(memory)) {
		shown = append(shown, fmt.Sprintf("%s %d", name, memory[name]>>20))
		assert.Less(t, memory[name], int64(mostMemory*times), "memory of %s", name)
	}
	t.Logf("p99 %s of %d pushes; MiB: %s", p99.Round(time.Millisecond), pushes, strings.Join(shown, ", "))
	assert.Positive(t, pushes)
	assert.LessOrEqual(t, p99, max(2*quiet, floor*time.Duration(times)), "publish to push, p99; quiet: %s", quiet)
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
	assert.NoError(t, w.updated.Err())
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Empty(t, w.missing, "lists that lack something")
}

// complete checks that a new subscriber sees everything that was registered.
func (w *world) complete(t *testing.T) {
	for _, session := range []string{"session-1", "session-2"} {
		s, err := w.client("late reader", session).Subscribe("honest")
		require.NoError(t, err)
		assert.Eventually(t, func() bool { d, ok := s.Last(); return ok && len(d.Values) == honest }, 10*time.Second, 20*time.Millisecond, session)
	}
}
