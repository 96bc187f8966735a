package simulated_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/meta/metaclient"
	"conclave/testbed"
	"conclave/testbed/simulated"
)

// do executes one action of an operator.
func (s *testCluster) do(t *testing.T, verb testbed.Verb, node string) {
	require.NoError(t, s.Do(t.Context(), testbed.Action{Verb: verb, Node: node}), "%s %s", verb, node)
}

// Resign, quit and rejoin.
func TestOperator_MovesLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startCluster(t, testbed.Size{Seed: 11})
		first := s.Leader()
		s.do(t, testbed.Resign, first.Name)
		second, _ := s.NextLeader(first.Term, time.Second)
		assert.NotEqual(t, first.Name, second.Name)
		s.do(t, testbed.Resign, first.Name) // does nothing, because it does not lead any more
		s.do(t, testbed.Quit, second.Name)
		third, _ := s.NextLeader(second.Term, time.Second)
		s.do(t, testbed.Quit, third.Name)
		last, _ := s.NextLeader(third.Term, time.Second)
		assert.NotContains(t, []string{second.Name, third.Name}, last.Name, "observers do not compete")
		s.do(t, testbed.Join, second.Name)
		s.do(t, testbed.Join, third.Name)
		s.Kill(last.Name)
		s.NextLeader(last.Term, 5*time.Second) // by lease: no follower waited for its witness yet
		s.checkService("all that", time.Second)
	})
}

// Forbid, allow, and suspend the arranger.
func TestOperator_MovesSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startCluster(t, testbed.Size{Seed: 12})
		s.Stable(10 * time.Second)
		s.do(t, testbed.Forbid, "data-1")
		s.Await("the slots to leave data-1", 10*time.Second, func() bool { return s.ServedWithout("data-1") })
		assert.Equal(t, []string{"data-1"}, s.Observe(t.Context()).Forbid)
		s.do(t, testbed.Allow, "data-1")
		s.do(t, testbed.Allow, "data-1") // does nothing, because it is not on the list any more
		s.Stable(20 * time.Second)
		s.do(t, testbed.Freeze, "")
		epoch := s.Observe(t.Context()).Table.Epoch
		s.do(t, testbed.Forbid, "data-2")
		time.Sleep(5 * time.Second)
		assert.Equal(t, epoch, s.Observe(t.Context()).Table.Epoch, "the arranger is suspended")
		s.do(t, testbed.Unfreeze, "")
		s.Await("the slots to leave data-2", 10*time.Second, func() bool { return s.ServedWithout("data-2") })
		s.checkService("all that", time.Second)
	})
}

// What the tool reads, and the HTTP endpoints of every role.
func TestOperator_ReadsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startCluster(t, testbed.Size{Seed: 13})
		s.Stable(10 * time.Second)
		leader := s.Leader()
		require.NoError(t, s.Operate(t.Context(), "", func(ctx context.Context, tool *metaclient.Admin) error {
			l, err := tool.Leader(ctx)
			require.NoError(t, err)
			assert.Equal(t, leader, simulated.Leader{Name: l.Leader, Term: l.Term})
			elections, err := tool.Elections(ctx)
			require.NoError(t, err)
			assert.Equal(t, leader.Name, elections[0].Owner)
			slots, err := tool.Slots(ctx)
			require.NoError(t, err)
			assert.Len(t, slots.Slots, 16)
			assert.True(t, slots.Stable)
			nodes, err := tool.Nodes(ctx, "")
			require.NoError(t, err)
			assert.Len(t, nodes, 8)
			black, err := tool.Blacklist(ctx)
			require.NoError(t, err)
			assert.Empty(t, black)
			switches, err := tool.Switches(ctx)
			require.NoError(t, err)
			assert.Len(t, switches, 5)
			return nil
		}))
		transport := &http.Transport{DialContext: s.Net().Host("reader").DialContext, DisableKeepAlives: true}
		client := http.Client{Transport: transport}
		for _, url := range []string{
			"meta-1:9615/leaderz", "meta-1:9615/healthz", "meta-2:9615/readyz", "meta-3:9615/metrics", "meta-1:9615/version",
			"data-1:9622/readyz", "data-1:9622/v1/slots", "data-1:9622/metrics",
			"session-1:9603/readyz", "session-1:9603/metrics", "session-1:9603/v1/clients", "session-1:9603/v1/publishers", "session-1:9603/v1/subscribers",
		} {
			res, err := client.Get("http://" + url)
			if assert.NoError(t, err, url) {
				body, err := io.ReadAll(res.Body)
				assert.NoError(t, err, url)
				assert.NotEmpty(t, body, url)
				res.Body.Close()
				if url != "meta-1:9615/leaderz" || leader.Name == "meta-1" {
					assert.Equal(t, http.StatusOK, res.StatusCode, "%s: %s", url, body)
				}
			}
		}
		s.Net().Kill("reader")
	})
}
