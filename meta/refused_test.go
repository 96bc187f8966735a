package meta_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/meta"
	conclavesql "conclave/sql"
	"conclave/wire"
)

// refusingStore answers writes of some kinds with an error, as a database that
// refuses them.
type refusingStore struct {
	meta.StateStore
	refusals *refusals
}

// refusals is shared by the stores of all metas.
type refusals struct {
	mu   sync.Mutex // guards the rest
	of   map[conclavesql.Kind]error
	sent int // writes that were refused
}

func (r *refusals) set(of map[conclavesql.Kind]error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of = of
}

func (s *refusingStore) Write(ctx context.Context, f conclavesql.Fence, old, next conclavesql.State) (conclavesql.Outcome, error) {
	s.refusals.mu.Lock()
	err := s.refusals.of[old.Kind]
	if err != nil {
		s.refusals.sent++
	}
	s.refusals.mu.Unlock()
	if err != nil {
		return conclavesql.Unknown, err
	}
	return s.StateStore.Write(ctx, f, old, next)
}

var (
	errContents = fmt.Errorf("%w: Error 1366 (HY000): Incorrect string value", conclavesql.ErrStatement)
	errPacket   = fmt.Errorf("%w: Error 1153 (08S01): Got a packet bigger than 'max_allowed_packet' bytes", conclavesql.ErrTooLarge)
	errReadOnly = fmt.Errorf("%w: Error 1290 (HY000): --read-only", conclavesql.ErrUnavailable)
)

// The database refuses every write of one row. The act fails with its error, all
// other acts succeed, and a killed data node's slots are served in the usual time.
// When it is over, what was refused is accepted.
func TestWrite_RefusedRowStopsNothingElse(t *testing.T) {
	for _, refused := range []struct {
		kind conclavesql.Kind
		why  error
		code wire.Code
	}{
		{conclavesql.KindConfig, errContents, wire.CodeInternal},
		{conclavesql.KindConfig, errPacket, wire.CodeTooLarge},
		{conclavesql.KindConfig, errReadOnly, wire.CodeUnavailable},
		{conclavesql.KindMembers, errContents, ""},
		{conclavesql.KindMembers, errReadOnly, ""},
		{conclavesql.KindTable, errContents, ""},
	} {
		t.Run(fmt.Sprint(refused.kind, " ", refused.code), func(t *testing.T) {
			r := &refusals{}
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				c.startNodes(3, 2)
				term := c.term()
				r.set(map[conclavesql.Kind]error{refused.kind: refused.why})

				for i := range 20 {
					began := time.Now()
					_, err := c.admin.SetConfig(t.Context(), "color", fmt.Sprint("red", i))
					if refused.code == "" {
						require.NoError(t, err)
						continue
					}
					require.Equal(t, refused.code, wire.CodeOf(err))
					assert.ErrorContains(t, err, "Error 1")
					assert.Less(t, time.Since(began), 5*time.Second) // each of three metas is asked
					assert.Empty(t, c.leader().View().State().Config.List, "it is not published")
				}
				c.kill("data-2")
				if refused.kind == conclavesql.KindTable {
					time.Sleep(5 * time.Second)
				} else {
					took := c.eventually(5*time.Second, func() bool { return c.servedWithout("data-2") })
					assert.Less(t, took, 4*time.Second)
				}
				c.startNode("data-9", conclave.RoleData) // not to be given slots while no node knows it
				_, err := c.admin.SetSwitch(t.Context(), wire.SwitchPushWindow, "12")
				require.NoError(t, err)
				require.NoError(t, c.admin.Forbid(t.Context(), "session-2", "test", "me"))
				time.Sleep(5 * time.Second)
				assert.Equal(t, term, c.term(), "the leader is the same")
				for _, s := range c.leader().View().State().Table.Slots {
					if refused.kind == conclavesql.KindMembers {
						assert.NotEqual(t, "data-9", s.Leader.Name)
						assert.NotEqual(t, "data-9", s.Successor.Name)
					}
				}
				assert.Equal(t, int64(1), c.warned("cannot write "+string(refused.kind)), "a reason is logged once")

				r.set(nil)
				_, err = c.admin.SetConfig(t.Context(), "color", "green")
				require.NoError(t, err)
				c.stable(10 * time.Second)
				c.eventually(5*time.Second, func() bool { return c.servedWithout("data-2") })
			}, func(cfg *meta.Config) { cfg.Store = &refusingStore{cfg.Store, r} })
		})
	}
}

// Protection that cannot be written is tried again at a bounded pace, and no slot
// moves without it while the losses count (for a node lease).
func TestProtect_RefusedMovesNoSlot(t *testing.T) {
	r := &refusals{}
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(4, 1)
		before, _ := c.stable(10 * time.Second)
		r.set(map[conclavesql.Kind]error{conclavesql.KindFreeze: errContents})
		c.kill("data-2")
		c.kill("data-3")
		time.Sleep(2500 * time.Millisecond)
		assert.Equal(t, before.Epoch, c.leader().View().State().Table.Epoch)
		r.mu.Lock()
		defer r.mu.Unlock()
		assert.Positive(t, r.sent)
		assert.Less(t, r.sent, 30)
	}, func(cfg *meta.Config) { cfg.Store = &refusingStore{cfg.Store, r} })
}
