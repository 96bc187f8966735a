package demo_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/containers"
	"conclave/testbed/demo"
	"conclave/testbed/local"
	"conclave/testbed/scenario"
)

func TestScenario_CanBePlayedWhereItIsMeantFor(t *testing.T) {
	s, err := demo.Scenario(false)
	require.NoError(t, err)
	assert.Empty(t, s.Refusals(local.Capabilities()))
	assert.Empty(t, s.Refusals(containers.Capabilities()))
	s, err = demo.Scenario(true)
	require.NoError(t, err)
	assert.Empty(t, s.Refusals(containers.Capabilities()))
	for _, scene := range s.Scenes {
		if scene.Title == "" {
			continue
		}
		assert.NotEmpty(t, scene.About, scene.Title)
		assert.NotEmpty(t, scene.Look, scene.Title)
	}
}

// cluster is a cluster that succeeds in everything.
type cluster struct {
	testbed.RealCluster
	code            int // with which its process has ended
	stopped, closed bool
}

func (c *cluster) Open(context.Context, testbed.Size, *trace.Gate) error { return nil }
func (c *cluster) AwaitReady(context.Context) error                      { return nil }
func (c *cluster) Stop(context.Context) error                            { c.stopped = true; return nil }
func (c *cluster) Close(context.Context) error                           { c.closed = true; return nil }
func (c *cluster) Processes(context.Context) ([]testbed.Process, error) {
	return []testbed.Process{{Name: "meta-1", Code: c.code}}, nil
}

// narration returns the narration of a scenario with two scenes.
func narration(t *testing.T, c *cluster) (n *demo.Narrator, out *bytes.Buffer) {
	s, err := scenario.Parse("x.txt", "clients 1\nfigure empty\nfigure leaderless\nscene ONE\n# It dies.\nlook at a, b\nat 0s kill leader\nscene TWO\nat 0s start it")
	require.NoError(t, err)
	out = &bytes.Buffer{}
	return demo.New(demo.Config{
		Cluster: c, Scenario: s, Each: "a fake", Tool: func() string { return "tool" }, Database: func() string { return "mysql:8.4" }, Out: out,
	}), out
}

// history has one time without a leader, and a push after it that is empty.
func history() (*check.History, error) {
	return &check.History{Entries: []check.Entry{
		{At: time.Second, Observed: &check.Observation{}},
		{At: 2 * time.Second, Observed: &check.Observation{Leader: "meta-2"}},
		{At: 2 * time.Second, Op: &check.Op{Kind: check.OpPush, Client: "client-1", Name: "a", Version: 1}},
	}}, nil
}

func TestNarrator_TellsScenesWithTheirFigures(t *testing.T) {
	c := &cluster{}
	n, out := narration(t, c)
	require.NoError(t, n.Open(t.Context(), testbed.Size{}, nil))
	now := testbed.Snapshot{Leader: "meta-2", Term: 7, Table: slot.Table{Slots: []slot.Slot{{Leader: conclave.NodeID{Name: "data-1"}}, {Leader: conclave.NodeID{Name: "data-1"}}}}}
	n.Decided(scenario.Expectation{What: "even", Within: time.Second}, now, 30*time.Millisecond, nil)
	n.Begins(scenario.Scene{Title: "ONE", About: "It\ndies.", Look: "a, b"})
	n.Did(testbed.Action{Verb: testbed.Kill, Node: "meta-1"}, nil)
	n.Decided(scenario.Expectation{What: "new leader", Within: time.Second}, now, 1500*time.Microsecond, nil)
	n.Ended(history)
	n.Begins(scenario.Scene{Title: "TWO"})
	n.Decided(scenario.Expectation{What: "down", Who: "meta-1", For: time.Second}, now, time.Second, nil)
	n.Decided(scenario.Expectation{What: "leader", Within: time.Second}, now, time.Second, errors.New("no node leads"))
	n.Did(testbed.Action{Verb: testbed.Start, Node: "meta-1"}, errors.New("no way"))
	n.Ended(history)
	require.NoError(t, n.Close(t.Context()))
	assert.True(t, c.stopped && c.closed)
	for _, want := range []string{
		"3 metas, 3 data nodes, 2 sessions and a MySQL server, each a fake", "mysql:8.4", "look at: as long as this demo runs, in another terminal: tool events -f",
		"30 ms   2 slots, data-1 leads 2", "2. ONE\n         It dies.\n         - kill meta-1\n", "1.5 ms   meta-2, which leads term 7",
		"1000 ms   from the end of one leader's trust", "publishers missing at subscribers            0   0 looked for so far", "look at: tool a, tool b",
		"MISSED   no node leads", "down meta-1                                 1s   meta-1 has ended", "start meta-1: no way", "all processes ended in",
	} {
		assert.Contains(t, out.String(), want)
	}
	scenes := n.Scenes()
	require.Len(t, scenes, 4)
	assert.Equal(t, "tool a, tool b", scenes[1].Look)
	for _, f := range scenes[2].Figures {
		assert.NotEqual(t, "leaderless", f.Name, "it was in the first scene")
	}
}

func TestNarrator_StopsOnlyAfterTheLastSceneAndChecksExitCodes(t *testing.T) {
	c := &cluster{code: 7}
	n, _ := narration(t, c)
	require.NoError(t, n.Close(t.Context()))
	assert.False(t, c.stopped)
	n.Ended(history)
	n.Ended(history)
	assert.ErrorContains(t, n.Close(t.Context()), "meta-1 did not stop: running false, exit code 7")
	assert.True(t, c.stopped && c.closed)
}
