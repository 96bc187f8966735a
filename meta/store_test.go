package meta_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/meta"
	"conclave/meta/metaclient"
	conclavesql "conclave/sql"
	"conclave/wire"
)

// lossyStore loses answers: of every third write after it was applied, of every
// fifth before.
type lossyStore struct {
	meta.StateStore
	mu     sync.Mutex // guards writes
	writes int
}

var errLost = fmt.Errorf("%w: the answer was lost", conclavesql.ErrUnavailable)

func (s *lossyStore) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	return s.writes
}

func (s *lossyStore) Write(ctx context.Context, f conclavesql.Fence, old, next conclavesql.State) (conclavesql.Outcome, error) {
	n := s.count()
	if n%5 == 0 {
		return conclavesql.Unknown, errLost
	}
	outcome, err := s.StateStore.Write(ctx, f, old, next)
	if n%3 == 0 {
		return conclavesql.Unknown, errLost
	}
	return outcome, err
}

func (s *lossyStore) Seal(ctx context.Context, f conclavesql.Fence, seq uint64, nonce string) (conclavesql.Outcome, error) {
	outcome, err := s.StateStore.Seal(ctx, f, seq, nonce)
	if s.count() == 1 {
		return conclavesql.Unknown, errLost
	}
	return outcome, err
}

// Nothing is published that the database does not hold, and no write is lost,
// though many answers are.
func TestWrite_SurvivesLostAnswers(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		store := conclavesql.NewStateStore(c.db, lock)
		c.startNodes(3, 2)
		for i, value := range []string{"11", "12", "13", "14", "15", "16"} {
			sw, err := c.admin.SetSwitch(t.Context(), wire.SwitchPushWindow, value)
			require.NoError(t, err)
			assert.Equal(t, uint64(i+1), sw.Version)
			rows, err := store.Read(t.Context())
			require.NoError(t, err)
			row, view := rows[conclavesql.KindSwitches], c.leader().View().State().Switches
			assert.Equal(t, row.Term, view.Epoch.Term)
			assert.Equal(t, row.Seq, view.Epoch.Seq)
			assert.Contains(t, row.Body, value)
		}
		c.kill("data-2")
		c.eventually(5*time.Second, func() bool { return c.servedWithout("data-2") })
		term := c.term()
		c.kill(c.leader().id.Name)
		c.leaderAfter(term)
		c.stable(10 * time.Second)
	}, func(cfg *meta.Config) { cfg.Store = &lossyStore{StateStore: cfg.Store} })
}

// laggingStore reads, as often as it is set to, what was true at an earlier
// time, like a replica that lags behind. It writes to the present rows.
type laggingStore struct {
	meta.StateStore
	lag *lag
}

// lag is shared by the stores of all metas.
type lag struct {
	mu    sync.Mutex // guards the rest
	rows  map[conclavesql.Kind]conclavesql.State
	reads int // that still return rows
}

func (l *lag) set(rows map[conclavesql.Kind]conclavesql.State, reads int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows, l.reads = rows, reads
}

func (l *lag) remaining() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reads
}

// next returns the rows as they were, or nil if they are read as they are.
func (l *lag) next() map[conclavesql.Kind]conclavesql.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reads == 0 {
		return nil
	}
	l.reads--
	return maps.Clone(l.rows)
}

func (s *laggingStore) Read(ctx context.Context) (map[conclavesql.Kind]conclavesql.State, error) {
	if rows := s.lag.next(); rows != nil {
		return rows, nil
	}
	return s.StateStore.Read(ctx)
}

// A new leader reads the state as it was before the last decisions of the term
// before, once or also after it has sealed its own term. It must not write over
// what it has not read, and its term ends.
func TestSeal_AfterAnOldReadLosesNothing(t *testing.T) {
	for _, reads := range []int{1, 3} {
		t.Run(fmt.Sprint(reads), func(t *testing.T) {
			behind := &lag{}
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				store := conclavesql.NewStateStore(c.db, lock)
				c.startNodes(2, 3)
				c.stable(10 * time.Second)
				rows, err := store.Read(t.Context())
				require.NoError(t, err)
				require.NoError(t, c.admin.Forbid(t.Context(), "session-1", "test", "me"))

				behind.set(rows, reads)
				term := c.term()
				c.kill(c.leader().id.Name)
				c.leaderAfter(term + 1) // the term of the old read has ended
				require.Zero(t, behind.remaining())
				require.NoError(t, c.admin.Forbid(t.Context(), "session-3", "test", "me"))
				rows, err = store.Read(t.Context())
				require.NoError(t, err)
				body := rows[conclavesql.KindBlacklist].Body
				assert.Contains(t, body, "session-1", "forbidden before the failover")
				assert.Contains(t, body, "session-3")
			}, func(cfg *meta.Config) { cfg.Store = &laggingStore{cfg.Store, behind} })
		})
	}
}

// adminOf returns a client of one meta only: its successor may lead at the same
// moment.
func (c *cluster) adminOf(m *metaNode) *metaclient.Admin {
	return metaclient.NewAdmin(metaclient.AdminConfig{Metas: []string{m.Address()}, HTTP: c.peers.HTTP()})
}

// A write of another leader under a higher term ends a leadership: the next
// write matches no row.
func TestDeposedLeader_WritesNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(2, 1)
		old := c.leader()
		epoch := old.View().State().Switches.Epoch
		// Change the lock row without the leader, as a restore or an operator
		// might.
		_, err := c.db.Exec(t.Context(), "UPDATE distribute_lock SET owner = 'ghost@0', term = term + 5, term_duration = 0, nonce = 'ghost', witness_lock = NULL, witness_conn = NULL")
		require.NoError(t, err)
		ask, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err = c.adminOf(old).SetSwitch(ask, wire.SwitchArrange, "off")
		require.Error(t, err)
		assert.Equal(t, epoch, old.View().State().Switches.Epoch, "it published nothing")
		c.leaderAfter(6) // after the ghost's lease has expired
		c.stable(10 * time.Second)
	})
}

// A command that is refused because its leader was deposed ends that leadership at
// once: the next renewal, which would show it as well, is a beat away.
func TestDeposedLeader_EndsWithTheCommandThatShowsIt(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		c.startNodes(1, 1)
		old := c.leader()
		before, err := c.admin.Leader(t.Context())
		require.NoError(t, err)
		c.eventually(2*time.Second, func() bool {
			now, err := c.admin.Leader(t.Context())
			return err == nil && now.Beat > before.Beat
		})
		_, err = c.db.Exec(t.Context(), "UPDATE distribute_lock SET owner = 'ghost@0', term = term + 5, nonce = 'ghost', witness_lock = NULL, witness_conn = NULL")
		require.NoError(t, err)
		require.False(t, c.has("leader.lost"))
		_, err = c.adminOf(old).SetSwitch(t.Context(), wire.SwitchArrange, "off")
		require.Error(t, err)
		c.eventually(200*time.Millisecond, func() bool { return c.has("leader.lost") })
	})
}

// The rows of the state are deleted under running metas. No part of the old
// table may be lost: the leader notices it with its next write and starts a new
// term, which continues from what the nodes hold.
func TestEmptiedState_IsAdoptedFromTheNodes(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(3, 1)
		before, _ := c.stable(10 * time.Second)
		term := c.term()
		_, err := c.admin.SetConfig(t.Context(), "color", "red")
		require.NoError(t, err)
		_, err = c.db.Exec(t.Context(), "DELETE FROM cluster_state")
		require.NoError(t, err)

		ask, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.adminOf(c.leader()).SetSwitch(ask, wire.SwitchPushWindow, "7")
		require.Error(t, err, "this write found no row")
		c.leaderAfter(term)
		after, _ := c.stable(10 * time.Second)
		require.Len(t, after.Slots, len(before.Slots))
		for i := range after.Slots {
			assert.Equal(t, before.Slots[i].Leader, after.Slots[i].Leader, "slot %d stays where its data is", i)
		}
		c.eventually(5*time.Second, func() bool {
			_, err := c.admin.SetSwitch(t.Context(), wire.SwitchPushWindow, "8")
			return err == nil
		})
		list, err := c.admin.Config(t.Context())
		require.NoError(t, err)
		assert.Empty(t, list, "only operators know it")
		assert.Equal(t, int64(1), c.warned("must be set again: kind=config"))
	})
}
