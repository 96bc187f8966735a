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
	return testbed.Snapshot{Leader: "meta-1", Term: 1, Leads: 1, Table: table, Up: []string{"data-1", "data-2", "meta-1", "session-1"}}
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
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := scenario.Parse("storm", "cluster 1 meta 1 session 2 data 2 slots\nscene "+name+"\n"+c.lines+"\nuntil 3s\n")
				require.NoError(t, err)
				r := &runner{cfg: Config{Say: func(string) {}}, cluster: &calm{refuses: c.refuses}, began: time.Now()}
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
