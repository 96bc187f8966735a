package sql_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	conclavesql "conclave/sql"
)

func TestWrite_AppliedOnlyUnderItsTerm(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		db, lock := migrated(t, dsn)
		store := conclavesql.NewStateStore(db, lock)
		ctx := t.Context()
		read := func() conclavesql.State {
			states, err := store.Read(ctx)
			require.NoError(t, err)
			return states[conclavesql.KindTable]
		}
		write := func(fence conclavesql.Fence, old conclavesql.State, seq uint64, body string) conclavesql.Outcome {
			outcome, err := store.Write(ctx, fence, old, conclavesql.State{Body: body, Seq: seq, Nonce: fmt.Sprint(fence.Term, seq)})
			require.NoError(t, err)
			return outcome
		}

		unwritten := read()
		mine := elect(t, db, lock, "a@1", 1)
		assert.Equal(t, conclavesql.Written, write(mine, unwritten, 1, `{"slots":["ä"]}`))
		first := read()
		assert.Equal(t, `{"slots":["ä"]}`, first.Body)
		assert.Equal(t, [2]uint64{1, 1}, [2]uint64{first.Term, first.Seq})

		// Another incarnation of the same name is a different owner.
		assert.Equal(t, conclavesql.Deposed, write(conclavesql.Fence{Owner: "a@2", Term: 1}, first, 2, "{}"))
		// A state that is not as read comes from an earlier write of this node
		// that was applied late.
		assert.Equal(t, conclavesql.Conflict, write(mine, unwritten, 2, "{}"))
		assert.Equal(t, first, read(), "neither write has changed anything")

		// A new leader seals the state; from then on the old one matches
		// nothing.
		next := elect(t, db, lock, "b@1", 2)
		outcome, err := store.Seal(ctx, next, 1, "sealed")
		require.NoError(t, err)
		assert.Equal(t, conclavesql.Written, outcome)
		sealed := read()
		assert.Equal(t, first.Body, sealed.Body)
		assert.Equal(t, [2]uint64{2, 1}, [2]uint64{sealed.Term, sealed.Seq})
		assert.Equal(t, conclavesql.Deposed, write(mine, first, 2, "{}"))
		assert.Equal(t, conclavesql.Deposed, write(mine, sealed, 2, "{}"))
	})
}

func TestSettle_ComparesNonces(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		db, lock := migrated(t, dsn)
		store := conclavesql.NewStateStore(db, lock)
		ctx := t.Context()
		fence := elect(t, db, lock, "a@1", 1)
		states, err := store.Read(ctx)
		require.NoError(t, err)
		old := states[conclavesql.KindMembers]
		lost := conclavesql.State{Body: "A", Seq: 1, Nonce: "late"} // its answer was lost
		again := conclavesql.State{Body: "B", Seq: 1, Nonce: "second try"}

		outcome, _, err := store.Settle(ctx, fence, old, lost)
		require.NoError(t, err)
		assert.Equal(t, conclavesql.Unwritten, outcome, "the old decision is unchanged: the write may be repeated from it")

		written, err := store.Write(ctx, fence, old, lost) // it is applied late
		require.NoError(t, err)
		require.Equal(t, conclavesql.Written, written)
		outcome, present, err := store.Settle(ctx, fence, old, lost)
		require.NoError(t, err)
		assert.Equal(t, conclavesql.Written, outcome)
		assert.Equal(t, "A", present.Body)

		written, err = store.Write(ctx, fence, old, again) // the second try arrives after it
		require.NoError(t, err)
		assert.Equal(t, conclavesql.Conflict, written, "one of the two is applied, though both have the epoch (1, 1)")
		outcome, present, err = store.Settle(ctx, fence, old, again)
		require.NoError(t, err)
		assert.Equal(t, conclavesql.Conflict, outcome)
		assert.Equal(t, "late", present.Nonce)

		elect(t, db, lock, "b@1", 2)
		outcome, _, err = store.Settle(ctx, fence, old, again)
		require.NoError(t, err)
		assert.Equal(t, conclavesql.Deposed, outcome)
	})
}

func TestWrite_RefusesBodyThatIsNotUTF8(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		db, lock := migrated(t, dsn)
		fence := elect(t, db, lock, "a@1", 1)
		_, err := conclavesql.NewStateStore(db, lock).Write(t.Context(), fence, conclavesql.State{Kind: conclavesql.KindTable},
			conclavesql.State{Body: "\xff\xfe", Seq: 1})
		assert.ErrorContains(t, err, "UTF-8")
	})
}

// Racing leaders depose each other while each writes under the term it won. No
// write of an older term may be applied after one of a newer.
func TestWrite_NoneOfOlderTermAmongRacingLeaders(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		_, lock := migrated(t, dsn)
		const leaders, tries = 6, 40
		var wins, writes, refused atomic.Int64
		var mu sync.Mutex // guards applied
		applied := map[[2]uint64]string{}
		var group sync.WaitGroup
		for l := range leaders {
			group.Go(func() {
				db := open(t, dsn)
				store := conclavesql.NewStateStore(db, lock)
				me := fmt.Sprintf("n%d@1", l)
				random := rand.New(rand.NewPCG(uint64(l), 1))
				for range tries {
					var owner string
					var term uint64
					if !assert.NoError(t, db.QueryRow(t.Context(), conclavesql.StateOwner, []any{lock.DataCenter, lock.Name}, &owner, &term)) {
						return
					}
					n, err := db.Exec(t.Context(), conclavesql.LockWinOwn, me, "", term, 3000, "", nil, nil,
						lock.DataCenter, lock.Name, owner, term, "", nil, nil, "cv:none")
					if !assert.NoError(t, err) {
						return
					}
					if n == 0 {
						continue
					}
					wins.Add(1)
					fence := conclavesql.Fence{Owner: me, Term: term + 1}
					for seq := uint64(1); seq <= 2; seq++ {
						states, err := store.Read(t.Context())
						if !assert.NoError(t, err) {
							return
						}
						old := states[conclavesql.KindTable]
						outcome, err := store.Write(t.Context(), fence, old, conclavesql.State{Body: me, Seq: seq, Nonce: conclavesql.NewNonce(random)})
						assert.NoError(t, err)
						if outcome != conclavesql.Written {
							refused.Add(1)
							break
						}
						writes.Add(1)
						assert.LessOrEqual(t, old.Term, fence.Term, "a newer term's decision was overwritten")
						mu.Lock()
						epoch := [2]uint64{fence.Term, seq}
						assert.Empty(t, applied[epoch], "an epoch was written twice")
						applied[epoch] = me
						mu.Unlock()
					}
				}
			})
		}
		group.Wait()
		t.Logf("%d wins, %d writes, %d refused", wins.Load(), writes.Load(), refused.Load())
		assert.Positive(t, writes.Load())
	})
}

func TestHistory_FencedAndNewestFirst(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		db, lock := migrated(t, dsn)
		history := conclavesql.NewHistory(db, lock)
		record := func(e conclavesql.Election) bool {
			written, err := history.Record(t.Context(), e)
			require.NoError(t, err)
			return written
		}
		elect(t, db, lock, "a@1", 1)
		assert.True(t, record(conclavesql.Election{Term: 1, Owner: "a@1", Cause: "first"}))
		assert.False(t, record(conclavesql.Election{Term: 1, Owner: "a@1", Cause: "first"}), "repeated, it is written once")
		elect(t, db, lock, "b@1", 2)
		assert.False(t, record(conclavesql.Election{Term: 1, Owner: "a@1", Cause: "first"}), "too late")
		assert.True(t, record(conclavesql.Election{Term: 2, Owner: "b@1", Previous: "a@1", Cause: "killed", Leaderless: 7e6}))
		list, err := history.List(t.Context(), 10)
		require.NoError(t, err)
		require.Len(t, list, 2)
		assert.Equal(t, uint64(2), list[0].Term)
		assert.Equal(t, "a@1", list[0].Previous)
		assert.Equal(t, int64(7), list[0].Leaderless.Milliseconds())
		assert.False(t, list[0].At.IsZero())
		list, err = history.List(t.Context(), 1)
		require.NoError(t, err)
		assert.Len(t, list, 1)
		list, err = history.Before(t.Context(), 2, 10)
		require.NoError(t, err)
		require.Len(t, list, 1)
		assert.Equal(t, uint64(1), list[0].Term)
	})
}
