package conclavetest

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"conclave"
	"conclave/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watcher is a program under test: it keeps the values that it was pushed last.
type watcher struct {
	values atomic.Pointer[[]string]
	shrunk atomic.Bool // it was pushed fewer values than before
}

func watch(t *testing.T, c *client.Client, dataID string) *watcher {
	t.Helper()
	w := &watcher{}
	w.values.Store(new([]string))
	_, err := c.Subscribe(dataID, client.OnPush(func(d conclave.Datum) {
		w.shrunk.Store(w.shrunk.Load() || len(d.Values) < len(*w.values.Load()))
		w.values.Store(&d.Values)
	}))
	require.NoError(t, err)
	return w
}

func (w *watcher) until(t *testing.T, values ...string) {
	t.Helper()
	require.Eventually(t, func() bool {
		seen := slices.Sorted(slices.Values(*w.values.Load())) // in the order of random ids
		return slices.Equal(values, seen)
	}, limit, time.Millisecond, "%v", values)
}

// start is Start with the time that it took.
func start(t *testing.T, how ...Option) *Cluster {
	t.Helper()
	began := time.Now()
	c := Start(t, how...)
	t.Logf("ready after %v", time.Since(began).Round(time.Millisecond))
	return c
}

func TestStart_SeveralAtOnceKnowNothingOfEachOther(t *testing.T) {
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			c := start(t)
			mine := fmt.Sprintf("10.0.0.%d:80", i)
			withdraw := c.Publish(t, "shop", mine)
			w := watch(t, c.Client(t), "shop")
			w.until(t, mine)
			withdraw()
			w.until(t)
		})
	}
}

// A living publisher is never missing at a subscriber, whatever dies.
func TestFaults_TakeNoValueFromSubscribers(t *testing.T) {
	for name, fault := range map[string]func(*testing.T, *Cluster, *client.Client){
		"the leader dies":                 func(t *testing.T, c *Cluster, _ *client.Client) { c.KillLeader(t) },
		"the subscriber's session dies":   func(t *testing.T, c *Cluster, app *client.Client) { c.KillSession(t, c.SessionOf(t, app)) },
		"everything is away for a moment": func(t *testing.T, c *Cluster, _ *client.Client) { c.Away(t, func() {}) },
		"everything is away for a while": func(t *testing.T, c *Cluster, app *client.Client) {
			c.Away(t, func() {
				require.Eventually(t, func() bool { return len(app.Connected()) == 0 }, limit, time.Millisecond)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t)
			c.Publish(t, "shop", "10.0.0.1:80")
			app := c.Client(t)
			w := watch(t, app, "shop")
			w.until(t, "10.0.0.1:80")
			began := time.Now()
			fault(t, c, app)
			c.Publish(t, "shop", "10.0.0.2:80")
			w.until(t, "10.0.0.1:80", "10.0.0.2:80")
			t.Logf("the change arrived %v after the fault began", time.Since(began).Round(time.Millisecond))
			assert.False(t, w.shrunk.Load())
			c.Restart(t)
			before := time.Now()
			c.KillLeader(t) // everything runs again, so that the same can happen once more
			t.Logf("the next leader after %v", time.Since(before).Round(time.Millisecond))
		})
	}
}

func TestKillLeader_OfOneLeavesNoneUntilRestart(t *testing.T) {
	c := start(t, Size(1, 1, 1))
	c.KillLeader(t)
	name, _ := c.nodes.Leader()
	assert.Empty(t, name)
	c.Publish(t, "shop", "10.0.0.1:80") // publishing needs no leader
	c.Restart(t)
	c.KillSession(t, c.Addresses()[0])
	c.Restart(t)
	c.Publish(t, "shop", "10.0.0.2:80")
}

func TestClient_SettingsAreTheTests(t *testing.T) {
	c := start(t)
	app := c.Client(t, func(o *client.Config) { o.Name, o.Sessions = "greeter", o.Sessions[:1] })
	assert.Equal(t, "greeter", app.Name())
	assert.Contains(t, c.Addresses(), c.SessionOf(t, app))
}

// The process is that of the program under test; internal/devdb tests that its log is left alone.
func TestStart_LeavesTheCollectorAlone(t *testing.T) {
	before := debug.SetGCPercent(77)
	c := start(t)
	c.KillLeader(t)
	assert.Equal(t, 77, debug.SetGCPercent(before))
}

// A client whose sessions are all down when the test ends does not delay it.
func TestCleanup_WaitsForNoSessionThatIsDown(t *testing.T) {
	var began time.Time
	t.Run("a test", func(t *testing.T) {
		c := start(t)
		c.Publish(t, "shop", "10.0.0.1:80")
		for _, a := range c.Addresses() {
			c.KillSession(t, a)
		}
		began = time.Now()
	})
	assert.Less(t, time.Since(began), limit/2)
}

// failing is a test whose failure is expected.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Helper() {}
func (f *failing) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	panic(f)
}

func TestFailures_SayWhatIsWrong(t *testing.T) {
	c := start(t)
	var ended *Cluster
	t.Run("another test", func(t *testing.T) { ended = start(t) })
	for name, call := range map[string]func(t testing.TB){
		"Client":      func(t testing.TB) { ended.Client(t) },
		"KillLeader":  func(t testing.TB) { ended.KillLeader(t) },
		"KillSession": func(t testing.TB) { ended.KillSession(t, ended.Addresses()[0]) },
		"Away":        func(t testing.TB) { ended.Away(t, func() {}) },
		"Restart":     func(t testing.TB) { ended.Restart(t) },
	} {
		f := &failing{TB: t}
		assert.PanicsWithValue(t, f, func() { call(f) }, name)
		assert.Equal(t, "conclavetest: the cluster has ended with TestFailures_SayWhatIsWrong/another_test, which has started it", f.text)
	}
	for want, call := range map[string]func(t testing.TB){
		"0 data nodes and 1 sessions: want 1 to 99 each": func(t testing.TB) { Start(t, Size(1, 0, 1)) },
		`no session has the address "127.0.0.1:1"`:       func(t testing.TB) { c.KillSession(t, "127.0.0.1:1") },
		`publish bad=name`:                               func(t testing.TB) { c.Publish(t, "bad=name", "v") },
	} {
		f := &failing{TB: t}
		assert.PanicsWithValue(t, f, func() { call(f) }, want)
		assert.True(t, strings.HasPrefix(f.text, "conclavetest: ") && strings.Contains(f.text, want), f.text)
	}
}
