package meta_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
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
	errReadOnly = fmt.Errorf("%w: %w", conclavesql.ErrUnavailable, &mysql.MySQLError{Number: 1290, Message: "--read-only"})
	errLockWait = fmt.Errorf("%w: %w", conclavesql.ErrUnavailable, &mysql.MySQLError{Number: 1205, Message: "Lock wait timeout exceeded"})
	errNoAnswer = fmt.Errorf("%w: %w", conclavesql.ErrUnavailable, context.DeadlineExceeded)
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
				began := time.Now()

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
				assert.Positive(t, c.warned("cannot write "+string(refused.kind)))
				assert.LessOrEqual(t, c.warned("cannot write "+string(refused.kind)), 1+int64(time.Since(began)/(30*time.Second)), "a reason is logged once in ten leases")

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

// lateStore does not answer the first write of a row, and executes it when it is
// told to, as a server in which another transaction holds the row.
type lateStore struct {
	meta.StateStore
	late *late
}

// late is shared by the stores of all metas.
type late struct {
	mu    sync.Mutex // guards the rest
	kind  conclavesql.Kind
	then  error // the answer to later writes of the row; nil: none is held back
	apply func() (conclavesql.Outcome, error)
}

func (l *late) hold(kind conclavesql.Kind, then error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kind, l.then, l.apply = kind, then, nil
}

// execute executes the write that was held back, and answers the later ones.
func (l *late) execute(t *testing.T) {
	l.mu.Lock()
	apply := l.apply
	l.then = nil
	l.mu.Unlock()
	outcome, err := apply()
	require.NoError(t, err)
	require.Equal(t, conclavesql.Written, outcome)
}

func (s *lateStore) Write(ctx context.Context, f conclavesql.Fence, old, next conclavesql.State) (conclavesql.Outcome, error) {
	l := s.late
	l.mu.Lock()
	answer := l.then
	held := answer != nil && old.Kind == l.kind
	if held && l.apply == nil {
		answer = errNoAnswer
		l.apply = func() (conclavesql.Outcome, error) {
			return s.StateStore.Write(context.WithoutCancel(ctx), f, old, next)
		}
	}
	l.mu.Unlock()
	if !held {
		return s.StateStore.Write(ctx, f, old, next)
	}
	time.Sleep(500 * time.Millisecond) // the deadline
	return conclavesql.Unknown, answer
}

// A write that had no answer may be executed later. Its act is not answered as
// not done before that is known or impossible; afterwards the leader's memory is
// the row, and the act can be undone.
func TestWrite_ExecutedLateIsNotAnsweredAsNotDone(t *testing.T) {
	for name, then := range map[string]error{"no answer": errNoAnswer, "refused afterwards": errLockWait} {
		t.Run(name, func(t *testing.T) {
			l := &late{}
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				store := conclavesql.NewStateStore(c.db, lock)
				c.startNodes(2, 2)
				c.stable(10 * time.Second)
				term, admin := c.term(), c.adminOf(c.leader())
				_, err := admin.SetSwitch(t.Context(), wire.SwitchPushWindow, "11")
				require.NoError(t, err)
				agree := func(window string) {
					c.eventually(5*time.Second, func() bool {
						rows, err := store.Read(t.Context())
						require.NoError(t, err)
						row, view := rows[conclavesql.KindSwitches], c.leader().View().State().Switches
						return (conclave.Epoch{Term: row.Term, Seq: row.Seq}) == view.Epoch && strings.Contains(row.Body, window)
					})
				}

				l.hold(conclavesql.KindSwitches, then)
				began, answered := time.Now(), make(chan error, 1)
				go func() {
					_, err := admin.SetSwitch(t.Context(), wire.SwitchPushWindow, "12")
					answered <- err
				}()
				if errors.Is(then, errNoAnswer) {
					time.Sleep(4 * time.Second) // longer than a beat
					l.execute(t)
					require.NoError(t, <-answered)
				} else {
					err := <-answered
					require.ErrorContains(t, err, "may have been done, repeat it")
					assert.ErrorContains(t, err, "Error 1205")
					assert.Less(t, time.Since(began), 4*time.Second)
					_, err = admin.SetSwitch(t.Context(), wire.SwitchPushWindow, "11")
					require.Error(t, err, "nothing is undone while the first write may still be executed")
					l.execute(t)
				}
				agree("1") // 12, or 11 if the arranger had taken the second one, which may be done as well
				_, err = admin.SetSwitch(t.Context(), wire.SwitchPushWindow, "11")
				require.NoError(t, err)
				agree("11")

				l.hold(conclavesql.KindBlacklist, then)
				go func() { answered <- admin.Forbid(t.Context(), "session-2", "test", "me") }()
				if errors.Is(then, errNoAnswer) {
					time.Sleep(4 * time.Second)
					l.execute(t)
					require.NoError(t, <-answered)
				} else {
					require.ErrorContains(t, <-answered, "may have been done, repeat it")
					l.execute(t)
				}
				require.NoError(t, admin.Allow(t.Context(), "session-2"))
				assert.Equal(t, term, c.term(), "the leader is the same")
			}, func(cfg *meta.Config) { cfg.Store = &lateStore{cfg.Store, l} })
		})
	}
}

// After an outage the first refusal does not end an act: the time without an
// answer is no part of the beat for which it is repeated.
func TestWrite_OutageDoesNotCountAsRefusal(t *testing.T) {
	l := &late{}
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(2, 1)
		c.stable(10 * time.Second)
		l.hold(conclavesql.KindConfig, errNoAnswer)
		go func() {
			time.Sleep(4 * time.Second)
			l.hold("", nil) // the first write was lost
		}()
		_, err := c.adminOf(c.leader()).SetConfig(t.Context(), "color", "red")
		require.NoError(t, err)
	}, func(cfg *meta.Config) { cfg.Store = &lateStore{cfg.Store, l} })
}

// Data nodes that could not be listed count when the leader decides whether too
// many were lost: it neither begins protection nor waits for it.
func TestArrange_UnlistedNodesCountForProtection(t *testing.T) {
	r := &refusals{}
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(3, 1)
		c.stable(10 * time.Second)
		r.set(map[conclavesql.Kind]error{conclavesql.KindMembers: errContents})
		for i := range 4 {
			c.startNode(fmt.Sprint("data-", 4+i), conclave.RoleData)
		}
		c.kill("data-2")
		c.kill("data-3")
		took := c.eventually(5*time.Second, func() bool { return c.servedWithout("data-2") && c.servedWithout("data-3") })
		assert.Less(t, took, 2500*time.Millisecond)
		assert.False(t, c.leader().View().State().Freeze.Frozen)
	}, func(cfg *meta.Config) { cfg.Store = &refusingStore{cfg.Store, r} })
}
