package live

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/testbed"
	"conclave/testbed/console"
)

// host is a cluster on which clients do nothing but note what they are asked for.
type host struct {
	testbed.Cluster
	full error // why no client can start

	mu      sync.Mutex // guards the rest
	names   []string
	dataIDs map[string]bool
	open    int
}

func (h *host) Capabilities() *testbed.Capabilities { return &testbed.Capabilities{} }

func (h *host) Client(name string) (testbed.Client, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.full != nil {
		return nil, h.full
	}
	h.names = append(h.names, name)
	h.open++
	return &idle{of: h}, nil
}

func (h *host) id(dataID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dataIDs == nil {
		h.dataIDs = map[string]bool{}
	}
	h.dataIDs[dataID] = true
}

type idle struct {
	testbed.Client
	of *host
}

func (c *idle) Publish(_ context.Context, dataID string, _ []string) (testbed.Publication, error) {
	c.of.id(dataID)
	return stored{}, nil
}

func (c *idle) Subscribe(dataID string, _ func(conclave.Datum)) error {
	c.of.id(dataID)
	return nil
}

func (c *idle) Connected() []conclave.NodeID { return nil }

func (c *idle) Close(context.Context) error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.open--
	return nil
}

type stored struct{ testbed.Publication }

func (stored) Update([]string) error        { return nil }
func (stored) Withdraw() error              { return nil }
func (stored) Stored(context.Context) error { return nil }

// Without clients nothing is checked, and nothing is shown as good.
func TestRecord_ChecksNothingWithoutClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{full: errors.New("a network has at most 254 hosts")}
		s := New(Config{Cluster: h, HTTP: http.DefaultClient})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.record.run(ctx) })
		defer running.Wait()
		defer cancel()
		time.Sleep(9 * time.Second)
		synctest.Wait()
		var out console.State
		s.record.show(&out)
		assert.Contains(t, out.Watching, "a network has at most 254 hosts")
		assert.Nil(t, out.Load, "that no publisher is missing is not known")
		assert.Nil(t, out.Checking)
		assert.Empty(t, out.Promises)
		assert.Error(t, s.record.setLevel(1))

		h.mu.Lock()
		h.full = nil
		h.mu.Unlock()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		out = console.State{}
		s.record.show(&out)
		assert.Empty(t, out.Watching)
		require.NotNil(t, out.Load)
		assert.Equal(t, 4, out.Load.Clients)
		assert.Contains(t, out.Promises, "I1")
		assert.Contains(t, out.Promises, "L4", "how the slots came to be led was recorded without clients too")
		cancel()
		running.Wait()
		assert.Zero(t, h.open, "each client was closed")
	})
}

// In whatever way a client of a scenario is started, its name is of the group.
func TestScoped_EachStartOfAClientHasThePrefix(t *testing.T) {
	h := &host{}
	group := newScoped(h, "group.", &testbed.Capabilities{
		Lingering: func(name string, _ time.Duration) (testbed.Client, error) { return h.Client(name) }, ByHTTP: h.Client,
	})
	can := group.Capabilities()
	for name, start := range map[string]func(string) (testbed.Client, error){
		"client-1":  group.Client,
		"release-1": func(name string) (testbed.Client, error) { return can.Lingering(name, time.Minute) },
		"http-1":    can.ByHTTP,
	} {
		c, err := start(name)
		require.NoError(t, err)
		require.NoError(t, c.Subscribe("service-1", nil))
	}
	assert.ElementsMatch(t, []string{"group.client-1", "group.release-1", "group.http-1"}, h.names)
	assert.Equal(t, map[string]bool{"group.service-1": true}, h.dataIDs)
	var killed testbed.Action
	group.do = func(_ context.Context, a testbed.Action) error { killed = a; return nil }
	require.NoError(t, group.Do(t.Context(), testbed.Action{Verb: testbed.Kill, Node: "release-1"}))
	assert.Equal(t, "group.release-1", killed.Node)
	require.NoError(t, group.Close(t.Context()))
	assert.Zero(t, h.open)
}

// Two consoles on one cluster share no name.
func TestRecord_NamesDifferBetweenConsoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for range 2 {
			s := New(Config{Cluster: h, HTTP: http.DefaultClient})
			running.Go(func() { s.record.run(ctx) })
			group := newScoped(h, s.group(1), nil)
			c, err := group.Client("client-1")
			require.NoError(t, err)
			require.NoError(t, c.Subscribe("service-1", nil))
		}
		time.Sleep(time.Second)
		cancel()
		running.Wait()
		seen := map[string]bool{}
		for _, name := range h.names {
			assert.False(t, seen[name], name)
			seen[name] = true
			assert.Regexp(t, "^client-", name)
		}
		assert.Len(t, h.dataIDs, 2*3+2)
	})
}

// cutOff is a client that withdraws only when its fault is healed.
type cutOff struct{ testbed.Client }

func (cutOff) Close(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// A scenario that was stopped is healed soon, though its clients reach no session.
func TestScoped_StoppedScenarioDoesNotAwaitItsClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		playing, stop := context.WithCancel(t.Context())
		group := newScoped(&host{}, "x", nil)
		group.until = playing
		group.clients = []testbed.Client{cutOff{}}
		stop()
		began := time.Now()
		assert.ErrorIs(t, group.Close(t.Context()), context.DeadlineExceeded)
		assert.Equal(t, stoppedClose, time.Since(began))
	})
}
