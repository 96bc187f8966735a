package scenario

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"conclave/slot"
	"conclave/testbed"
)

func TestStateLine(t *testing.T) {
	s := testbed.Snapshot{Leader: "meta-2", Term: 7, Leads: 2, Up: []string{"data-1", "meta-2"}, Ready: []string{"meta-2"}, Frozen: true,
		Table: slot.Table{Slots: []slot.Slot{{Phase: slot.Crash}, {Phase: slot.Stable}}}}
	assert.Equal(t, "meta-2 leads term 7, 2 report that they lead, 1 of 2 up are ready, slots without a leader: 1, protected; active: data-3 is down, cut meta-1 from db",
		stateLine(s, []testbed.Action{{Verb: testbed.Kill, Node: "data-3"}, {Verb: testbed.Cut, Node: "meta-1", Peer: "db"}}))
	assert.Equal(t, "no leader, 0 of 0 up are ready", stateLine(testbed.Snapshot{}, nil))
}

// refusing is a cluster that refuses every action.
type refusing struct{ testbed.Cluster }

func (refusing) Do(context.Context, testbed.Action) error {
	return errors.Join(errors.New("no"), errors.New("never"))
}
func (refusing) Observe(context.Context) testbed.Snapshot { return testbed.Snapshot{} }

func TestTimeline_PrintsActionsAndChanges(t *testing.T) {
	var out strings.Builder
	c := NewTimeline(refusing{}, &out)
	c.Observe(t.Context())
	c.Observe(t.Context())
	assert.Error(t, c.Do(t.Context(), testbed.Action{Verb: testbed.Kill, Node: "meta-1"}))
	c.Did(testbed.Action{Verb: testbed.Hold, Node: "meta-2", Point: "writing"}, nil)
	assert.Equal(t, "   0.0 s    no leader, 0 of 0 up are ready\n   0.0 s  > kill meta-1\n   0.0 s    refused: no; never\n   0.0 s  > hold meta-2 at writing\n", out.String())
}
