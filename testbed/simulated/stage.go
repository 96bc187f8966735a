package simulated

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/slot"
	"conclave/testbed"
)

// Stage is a cluster for a test that is written in Go: its methods fail the
// test, and it is closed when the test ends.
type Stage struct {
	*Cluster
	t       *testing.T
	closing bool // the clients withdraw what they published
}

// Set starts a cluster, all nodes at the same instant, and closes it when the
// test ends.
func Set(t *testing.T, size testbed.Size) *Stage {
	s := &Stage{Cluster: New(Options{Log: testLog{t}}), t: t}
	t.Cleanup(s.end)
	require.NoError(t, s.Open(context.Background(), size, nil))
	return s
}

func (s *Stage) end() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	if err := s.Close(ctx); err != nil {
		s.t.Logf("close: %v", err)
	}
}

func (s *Stage) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// Kill ends the nodes as kill -9 does.
func (s *Stage) Kill(names ...string) {
	for _, name := range names {
		s.kill(name)
	}
}

// Stop stops a node gracefully, as SIGTERM does, and returns when it has ended.
func (s *Stage) Stop(name string) error {
	p := s.stop(name)
	p.stop.Wait()
	return p.err
}

// Start starts nodes that were killed or have stopped.
func (s *Stage) Start(names ...string) {
	for _, name := range names {
		require.NoError(s.t, s.start(name, name))
	}
}

// Client starts a client that knows every session.
func (s *Stage) Client(name string) *Client {
	cl, err := s.newClient(name)
	require.NoError(s.t, err)
	return cl
}

// Await waits in virtual time until the condition holds and returns how long
// that took. After the limit the test fails.
func (s *Stage) Await(what string, limit time.Duration, holds func() bool) time.Duration {
	s.t.Helper()
	start := time.Now()
	for !holds() {
		if time.Since(start) > limit {
			s.t.Fatalf("after %s still waiting for %s", limit, what)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(start)
}

// Leader is the name and the term of a leader.
type Leader struct {
	Name string
	Term uint64
}

// Leads returns the node that believes it leads at this instant, and whether
// there is one. If there are several the test fails.
func (s *Stage) Leads() (Leader, bool) {
	snapshot := s.Observe(context.Background())
	assert.LessOrEqual(s.t, snapshot.Leads, 1, "more than one leader at one instant")
	return Leader{snapshot.Leader, snapshot.Term}, snapshot.Leads > 0
}

// Leader waits for a leader.
func (s *Stage) Leader() Leader {
	var l Leader
	s.Await("a leader", 10*time.Second, func() (ok bool) { l, ok = s.Leads(); return ok })
	return l
}

// NextLeader waits for a leader of a term above the given one.
func (s *Stage) NextLeader(after uint64, limit time.Duration) (Leader, time.Duration) {
	var l Leader
	took := s.Await("the next leader", limit, func() (ok bool) { l, ok = s.Leads(); return ok && l.Term > after })
	return l, took
}

// table returns the slot table that the leader has published.
func (s *Stage) table() (slot.Table, bool) {
	l, ok := s.Leads()
	if !ok {
		return slot.Table{}, false
	}
	t := s.meta(l.Name).View().Table()
	return t, len(t.Slots) > 0
}

// Stable waits until every slot is stable and led by a node that runs.
func (s *Stage) Stable(limit time.Duration) {
	s.t.Helper()
	s.Await("all slots to be stable", limit, func() bool { return s.ServedWithout("") })
}

// ServedWithout reports whether every slot is stable and led by a node that
// runs and that is not the named one.
func (s *Stage) ServedWithout(name string) bool {
	t, ok := s.table()
	if !ok || !t.StableAll() {
		return false
	}
	for _, x := range t.Slots {
		if x.Leader.Name == name || s.process(x.Leader.Name) == nil {
			return false
		}
	}
	return true
}

// testLog writes the nodes' logs to the test's log.
type testLog struct{ t *testing.T }

func (w testLog) Write(p []byte) (int, error) {
	if !strings.Contains(string(p), "[DEBUG]") {
		w.t.Logf("%s", strings.TrimRight(string(p), "\n"))
	}
	return len(p), nil
}
