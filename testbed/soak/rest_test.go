package soak

import (
	"context"
	"os"
	"path/filepath"
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

// hand is a client whose acknowledgements and pushes are those of the test.
type hand struct {
	testbed.Client
	testbed.Publication
	push func(conclave.Datum)
}

func (h *hand) Kill()                        {}
func (h *hand) Stored(context.Context) error { return nil }

func (h *hand) Publish(context.Context, string, []string) (testbed.Publication, error) {
	return h, nil
}

func (h *hand) Subscribe(_ string, pushed func(conclave.Datum)) error {
	h.push = pushed
	return nil
}

// At rest there is no change that was not acknowledged, and no list that lost a push.
func TestAgreed_WantsEveryAcknowledgementAndEveryPush(t *testing.T) {
	for name, c := range map[string]struct {
		stored, pushed bool
		heard, agree   blackbox.Count
	}{
		"at rest":            {true, true, blackbox.Count{Checks: 1}, blackbox.Count{Checks: 1}},
		"no acknowledgement": {false, true, blackbox.Count{Checks: 1, Broken: 1}, blackbox.Count{}},
		"no push":            {true, false, blackbox.Count{Checks: 1}, blackbox.Count{Checks: 1, Broken: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &runner{clients: scenario.NewTraffic(scenario.Load{}, nil, nil, 1), began: time.Now()}
				r.oracle = blackbox.New(r.elapsed, bounds, checks...)
				h := &hand{}
				client := r.oracle.Observe("client-1", h)
				require.NoError(t, client.Subscribe("d", func(conclave.Datum) {}))
				p, err := client.Publish(t.Context(), "d", []string{"a#1"})
				require.NoError(t, err)
				if c.stored {
					require.NoError(t, p.Stored(t.Context()))
				}
				h.push(conclave.Datum{Version: 1})
				if c.pushed {
					h.push(conclave.Datum{Version: 2, Values: []string{"a#1"}})
				}
				w := &watch{processes: newProcesses(r.oracle)}
				assert.Equal(t, c.stored && c.pushed, r.agreed(t.Context()))
				c.heard.Name, c.agree.Name = checkHeard, checkAgree
				assert.Equal(t, c.heard, w.count(checkHeard))
				assert.Equal(t, c.agree, w.count(checkAgree))
				assert.NoError(t, r.clients.Pause(t.Context()), "the clients go on")
			})
		})
	}
}

// logging is a cluster with one log.
type logging struct {
	testbed.RealCluster
	file string
}

func (c logging) LogFiles(context.Context) (map[string]string, error) {
	return map[string]string{"data-1": c.file}, nil
}

// Each line is checked once, when it is complete.
func TestCheckLogs_ContinuesWhereItWas(t *testing.T) {
	c := logging{file: filepath.Join(t.TempDir(), "data-1.log")}
	r := &runner{cluster: c, logged: map[string]int{}, began: time.Now()}
	r.oracle = blackbox.New(r.elapsed, bounds, checks...)
	for i, step := range []struct {
		log    string
		broken int
	}{
		{"fine\npanic: 1\n", 1}, {"fine\npanic: 1\npan", 1}, {"fine\npanic: 1\npanic: 2", 1}, {"fine\npanic: 1\npanic: 2\nfine\n", 2}, {"", 2},
	} {
		require.NoError(t, os.WriteFile(c.file, []byte(step.log), 0o600))
		require.NoError(t, r.checkLogs(t.Context()))
		assert.Equal(t, blackbox.Count{Name: checkLog, Checks: i + 1, Broken: step.broken}, (&watch{processes: newProcesses(r.oracle)}).count(checkLog))
	}
}

func TestUnserved_DescribesWhatIsMissing(t *testing.T) {
	nodes := []string{"meta-1", "data-1"}
	now := testbed.Snapshot{Ready: []string{"meta-1"}}
	assert.Equal(t, "data-1 is not ready", unserved(now, nodes))
	now.Ready = nodes
	assert.Equal(t, "there is no slot table", unserved(now, nodes))
	now.Table.Slots = []slot.Slot{{Phase: slot.Stable}, {Phase: slot.Crash}}
	assert.Equal(t, "the slot table is not stable", unserved(now, nodes))
	now.Table.Slots[1].Phase = slot.Stable
	assert.Empty(t, unserved(now, nodes))
	now.Frozen = true
	assert.Equal(t, "the cluster is protected", unserved(now, nodes))
	now.Frozen, now.Forbid = false, []string{"data-1"}
	assert.Equal(t, "on the blacklist: data-1", unserved(now, nodes))
}

func TestFirstBad_FindsTheLine(t *testing.T) {
	assert.Empty(t, firstBad("all is well\nfine\n"))
	assert.Equal(t, "WARNING: DATA RACE", firstBad("all is well\n WARNING: DATA RACE\npanic: no\n"))
}
