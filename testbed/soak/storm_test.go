package soak

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/slot"
	"conclave/testbed"
	"conclave/testbed/check/blackbox"
	"conclave/testbed/scenario"
)

// calm is a cluster that is at rest whatever is done to it, and refuses one verb.
type calm struct {
	fake
	refuses testbed.Verb
	leader  string
}

func (c *calm) Do(_ context.Context, a testbed.Action) error {
	if a.Verb == c.refuses {
		return errors.New("refused")
	}
	return nil
}

func (c *calm) Capabilities() *testbed.Capabilities { return &testbed.Capabilities{} }

func (c *calm) Observe(context.Context) testbed.Snapshot {
	table := slot.Table{Slots: []slot.Slot{{Phase: slot.Stable, Leader: conclave.NodeID{Name: "data-1"}}, {Phase: slot.Stable, Leader: conclave.NodeID{Name: "data-2"}}}}
	return testbed.Snapshot{Leader: c.leader, Term: 1, Leads: 1, Table: table, Up: []string{"data-1", "data-2", "meta-1", "session-1"}}
}

func TestPlay_ChecksCommandsAndHealing(t *testing.T) {
	for name, c := range map[string]struct {
		lines                  string
		refuses                testbed.Verb
		serves, served, healed int // checks of checkServes, those that were broken, and those of checkHeals that were
	}{
		"a command and a kill":             {"at 0s forbid data-1 for 1s\nat 0s kill data-2 for 2s", "", 1, 1, 0},
		"a command and a pause":            {"at 0s forbid data-1 for 1s\nat 0s pause data-2 for 2s", "", 0, 0, 0},
		"a refused command":                {"at 0s forbid data-1 for 1s", testbed.Forbid, 1, 1, 0}, // its end is accepted
		"a kill":                           {"at 0s kill data-2 for 1s", "", 0, 0, 0},
		"a command that is not taken back": {"at 0s forbid data-1 for 1s", testbed.Allow, 1, 1, 1},
		"a node that is not started again": {"at 0s kill data-2 for 1s", testbed.Start, 0, 0, 1},
		"a kill that fails":                {"at 0s kill data-2 for 1s", testbed.Kill, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := scenario.Parse("storm", "cluster 1 meta 1 session 2 data 2 slots\nscene "+name+"\n"+c.lines+"\nuntil 3s\n")
				require.NoError(t, err)
				r := &runner{cfg: Config{Say: func(string) {}}, cluster: &calm{refuses: c.refuses, leader: "meta-1"}, clients: scenario.NewTraffic(scenario.Load{}, nil, nil, 1), began: time.Now()}
				r.oracle = blackbox.New(r.elapsed, bounds, checks...)
				r.processes = newProcesses(r.oracle)
				steps, err := r.play(t.Context(), s)
				require.NoError(t, err)
				assert.NotEmpty(t, steps)
				w := &watch{processes: r.processes}
				assert.Equal(t, blackbox.Count{Name: checkServes, Checks: c.serves, Broken: c.served}, w.count(checkServes), strings.Join(steps, "\n"))
				assert.Equal(t, blackbox.Count{Name: checkHeals, Checks: 1, Broken: c.healed}, w.count(checkHeals), strings.Join(steps, "\n"))
			})
		})
	}
}

// The player never waits for a leader, whose faults end when they are due.
func TestAimed_NamesTheLeaderOrAnyMeta(t *testing.T) {
	s, err := scenario.Parse("storm", "cluster 3 meta 1 session 2 data 2 slots\nscene the leader\nat 0s kill leader for 1s\nat 0s cut leader from db for 1s\nat 0s cut data-1 from leader for 1s\nuntil 2s\n")
	require.NoError(t, err)
	before := s.String()
	for leader, want := range map[string]string{"meta-2": "meta-2", "": "meta-1"} {
		r := &runner{cluster: &calm{leader: leader}}
		aimed := r.aimed(t.Context(), s).String()
		assert.NotContains(t, aimed, "kill leader")
		for _, line := range []string{"kill " + want + " for", "cut " + want + " from db", "cut data-1 from " + want} {
			assert.Contains(t, aimed, line)
		}
	}
	assert.Equal(t, before, s.String(), "the storm itself is as it was")
}

func TestDepartures_AreAroundHandOvers(t *testing.T) {
	s, err := scenario.Parse("storm", "cluster 1 meta 2 session 2 data 2 slots\nscene all\nat 2s forbid data-1 for 5s\nat 3s stop session-1 for 1s\nat 4s kill data-2 for 1s\nuntil 9s\n")
	require.NoError(t, err)
	assert.Equal(t, []time.Duration{1300 * time.Millisecond, 2100 * time.Millisecond, 6300 * time.Millisecond}, departures(s.Lines))
}
