package sim

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/chaos"
	"conclave/slot"
)

// Stage is a cluster for a test that is written in Go: what it says ends in
// assertions, and the cluster ends with the test.
type Stage struct {
	*Cluster
	t    *testing.T
	over bool // the story is told: its clients withdraw what they published
}

// Set starts a cluster, all nodes at once, and ends it with the test.
func Set(t *testing.T, size chaos.Cluster) *Stage {
	s := &Stage{Cluster: New(Options{Log: testLog{t}}), t: t}
	t.Cleanup(s.end)
	require.NoError(t, s.Open(context.Background(), size, nil))
	return s
}

func (s *Stage) end() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	if err := s.Close(ctx); err != nil {
		s.t.Logf("close: %v", err)
	}
}

func (s *Stage) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// Kill is kill -9.
func (s *Stage) Kill(names ...string) {
	for _, name := range names {
		s.kill(name)
	}
}

// Stop is SIGTERM, to the end of the graceful stop.
func (s *Stage) Stop(name string) error {
	p := s.stop(name)
	p.stop.Wait()
	return p.err
}

// Start starts what was killed or has stopped.
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

// Await lets virtual time pass until the condition holds, and says how long it
// took; after the limit the test fails with what is waited for.
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

// Leader is who leads, in which term.
type Leader struct {
	Name string
	Term uint64
}

// Leads is the leader by its own word, at this instant; with two at once the
// test fails.
func (s *Stage) Leads() (Leader, bool) {
	sight := s.Look(context.Background())
	assert.LessOrEqual(s.t, sight.Leads, 1, "two leaders at one instant")
	return Leader{sight.Leader, sight.Term}, sight.Leads > 0
}

// Leader waits for one.
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

// table is the slot table that the leader has published.
func (s *Stage) table() (slot.Table, bool) {
	l, ok := s.Leads()
	if !ok {
		return slot.Table{}, false
	}
	t := s.meta(l.Name).View().Table()
	return t, len(t.Slots) > 0
}

// Stable waits until every slot is stable, and led by a node that runs.
func (s *Stage) Stable(limit time.Duration) {
	s.t.Helper()
	s.Await("all slots to be stable", limit, func() bool { return s.ServedWithout("") })
}

// ServedWithout says that every slot is stable, and not led by the named node.
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

// testLog sends the nodes' logs to the test's.
type testLog struct{ t *testing.T }

func (w testLog) Write(p []byte) (int, error) {
	if !strings.Contains(string(p), "[DEBUG]") {
		w.t.Logf("%s", strings.TrimRight(string(p), "\n"))
	}
	return len(p), nil
}
