package live

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/slot"
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

// In whatever way a client of a scenario is started, its name is of the group, and it is the
// cluster's own: it can be killed, and what it has registered may have a lease.
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
		assert.IsType(t, &idle{}, c)
	}
	assert.ElementsMatch(t, []string{"group.client-1", "group.release-1", "group.http-1"}, h.names)
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
			_, err := newScoped(h, s.group(1), nil).Client("client-1")
			require.NoError(t, err)
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
		assert.Len(t, h.dataIDs, 2*3)
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

// gone is a client that has been closed before, with an error.
type gone struct {
	testbed.Client
	err error
}

func (c gone) Close(context.Context) error { return c.err }

// A guest that has left while no session was there has not failed its scenario.
func TestScoped_CountsTheGoodByesWithoutAnAnswer(t *testing.T) {
	group := newScoped(&host{}, "x", nil)
	group.clients = []testbed.Client{gone{err: fmt.Errorf("close guest-1: %w", context.DeadlineExceeded)}, gone{}, gone{err: context.Canceled}}
	require.NoError(t, group.Close(t.Context()))
	assert.Equal(t, 2, group.unheard)
	refused := errors.New("409: another one has it")
	group.clients = []testbed.Client{gone{err: refused}}
	assert.ErrorIs(t, group.Close(t.Context()), refused)
}

// The slot of a datum is that of the cluster, which may have had no table when the console began.
func TestScenario_HasAsManySlotsAsTheCluster(t *testing.T) {
	s := source(&cluster{})
	s.record.look(testbed.Snapshot{Table: slot.Table{Slots: make([]slot.Slot, 16)}})
	of, err := s.scenario(console.Request{Do: "storm", Value: "1354"})
	require.NoError(t, err)
	assert.Equal(t, 16, of.Cluster.Slots)
}
