package meta_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/meta/metaclient"
	conclavesql "conclave/sql"
	"conclave/wire"
)

func TestWarmUp_EndsByEvidence(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(3, 2)
		// All members send a beat: the new leader decides at once.
		term := c.term()
		c.kill(c.leader().id.Name)
		c.leaderAfter(term)
		start := time.Now()
		require.NoError(t, c.admin.Forbid(t.Context(), "session-1", "test", "me"))
		assert.Less(t, time.Since(start), 100*time.Millisecond)

		// One sends no beat, but answers at its port: the new leader waits a
		// whole node lease, then dials the node, and keeps it.
		c.nodes["session-2"].mute()
		term = c.term()
		c.kill(c.leader().id.Name)
		c.leaderAfter(term)
		start = time.Now()
		require.NoError(t, c.admin.Allow(t.Context(), "session-1"))
		assert.InDelta(t, 3*time.Second, time.Since(start), float64(100*time.Millisecond))
		_, found := c.nodeInfo("session-2")
		assert.True(t, found)
	})
}

func TestWarmUp_DoesNotWaitForADeadNode(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(3, 2)
		term := c.term()
		start := time.Now()
		c.kill("data-2")
		c.kill(c.leader().id.Name)
		c.leaderAfter(term)
		c.eventually(5*time.Second, func() bool { return c.servedWithout("data-2") })
		t.Log("served again after", time.Since(start))
		assert.Less(t, time.Since(start), 500*time.Millisecond)
	})
}

func TestRestartedCluster_ServesAllSlotsAgain(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(3, 2)
		before, _ := c.stable(time.Second)
		for _, name := range []string{"meta-1", "meta-2", "meta-3", "data-1", "data-2", "data-3", "session-1", "session-2"} {
			c.kill(name)
		}
		time.Sleep(time.Minute)
		start := time.Now()
		for _, name := range c.metaNames() {
			c.startMeta(name)
		}
		c.startNodes(3, 2)
		took := time.Since(start)
		t.Log("served again after", took)
		// The row names a leader that was killed: it is observed for a lease.
		assert.Less(t, took, 3*time.Second+time.Second)
		after, _ := c.stable(time.Second)
		assert.False(t, after.Protected)
		for i := range after.Slots {
			assert.True(t, before.Slots[i].LeaderEpoch.Less(after.Slots[i].LeaderEpoch), "every leader is a new incarnation")
		}
	})
}

// A backup of the database is restored while the nodes continue with what they
// have. Terms and slot epochs still only rise, and the leader continues from
// the table that the nodes hold.
func TestRestoredDatabase_TermsAndEpochsStillRise(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(2, 1)
		c.stable(time.Second)
		store := conclavesql.NewStateStore(c.db, lock)
		backup, err := store.Read(t.Context())
		require.NoError(t, err)

		c.startNode("data-3", conclave.RoleData) // changes after the backup
		c.stable(10 * time.Second)
		require.NoError(t, c.admin.Resign(t.Context()))
		c.leaderAfter(1)
		term := c.term()
		c.stable(10 * time.Second)
		time.Sleep(2 * time.Second)
		held, _ := c.stable(time.Second)
		c.eventually(time.Second, func() bool {
			for _, n := range c.nodes {
				if n.view.TableEpoch() != held.Epoch {
					return false
				}
			}
			return true
		})

		for _, name := range c.metaNames() { // the metas are stopped first, as the docs ask for
			c.kill(name)
		}
		for kind, row := range backup {
			_, err := c.db.Exec(t.Context(), "UPDATE cluster_state SET body = ?, term = ?, seq = ?, nonce = ? WHERE kind = ?",
				row.Body, row.Term, row.Seq, row.Nonce, string(kind))
			require.NoError(t, err)
		}
		_, err = c.db.Exec(t.Context(), "UPDATE distribute_lock SET owner = '', term = 1, term_duration = 3, resigned = 1, nonce = 'old', witness_lock = NULL, witness_conn = NULL")
		require.NoError(t, err)
		_, err = c.db.Exec(t.Context(), "DELETE FROM election_history WHERE term > 1")
		require.NoError(t, err)

		for _, name := range c.metaNames() {
			c.startMeta(name)
		}
		c.leaderAfter(term)
		after, _ := c.stable(20 * time.Second)
		assert.True(t, held.Epoch.Less(after.Epoch))
		for i := range after.Slots {
			assert.False(t, after.Slots[i].LeaderEpoch.Less(held.Slots[i].LeaderEpoch), "slot %d", i)
			assert.Equal(t, held.Slots[i].Leader, after.Slots[i].Leader, "slot %d", i)
		}
		_, found := c.nodeInfo("data-3")
		assert.True(t, found)
		assert.False(t, after.Protected)
		for _, n := range c.nodes {
			c.eventually(time.Second, func() bool { return n.view.TableEpoch() == after.Epoch })
			assert.Equal(t, c.leader().View().Table().Slots, n.view.Table().Slots, "all continue from one table")
		}
	})
}

// The database was emptied, and a node that was cut off meanwhile comes back
// with a table of the same term, newer than any that the leader has written.
func TestJoin_NodeWithANewerTableOfTheSameTerm(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(2, 1)
		time.Sleep(time.Second)
		term := c.term()
		theirs := c.leader().View().State()
		theirs.Table = theirs.Table.At(conclave.Epoch{Term: term, Seq: 1000})
		late := c.startNode("data-3", conclave.RoleData, func(cfg *metaclient.Config) {
			cfg.View.Set(wire.State{Table: theirs.Table, Replicas: theirs.Replicas})
			cfg.Fence.Saw(term)
		})
		c.leaderAfter(term)
		require.NoError(t, late.WaitRegistered(t.Context()))
		c.stable(10 * time.Second)
		c.eventually(time.Second, func() bool { return late.view.TableEpoch() == c.leader().View().TableEpoch() })
		assert.Zero(t, late.view.Refused())
	})
}
