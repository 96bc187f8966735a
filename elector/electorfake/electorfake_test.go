package electorfake_test

import (
	"context"
	stdsql "database/sql"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/elector/electorfake"
	"conclave/elector/fence"
	_ "conclave/internal/bubble"
	conclavesql "conclave/sql"
)

// start runs a node; stop ends it, and its error is that of Run.
func start(t *testing.T, s *electorfake.Strategy, name string, options ...func(*elector.Config)) (e *elector.Elector, stop func()) {
	cfg := elector.Config{ID: conclave.NodeID{Name: name}, Strategy: s}
	for _, option := range options {
		option(&cfg)
	}
	e, err := elector.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	return e, func() { cancel(); require.NoError(t, <-ended) }
}

func TestElection_IsWonLostAndHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		election := electorfake.New()
		e, stop := start(t, election.Strategy(), "worker")
		synctest.Wait()
		term, leading := e.Leading()
		require.True(t, leading, "it wins at once")
		assert.Equal(t, elector.CauseFirst, term.Cause)

		other := election.Elect("other")
		_, leading = e.Leading()
		assert.True(t, leading, "it believes that it leads until its next beat")
		time.Sleep(time.Second)
		_, leading = e.Leading()
		assert.False(t, leading)
		assert.Equal(t, other.Leader, e.Status().Term.Leader)
		time.Sleep(time.Hour)
		assert.Equal(t, other.Number, election.Term().Number, "the other one renews")

		began := time.Now()
		election.Resign()
		synctest.Wait()
		term, leading = e.Leading()
		require.True(t, leading)
		assert.Equal(t, elector.CauseResigned, term.Cause)
		assert.Equal(t, other.Number+1, term.Number)
		assert.Zero(t, time.Since(began))

		election.Elect("other")
		time.Sleep(10 * time.Second)
		election.Kill()
		time.Sleep(2 * time.Second)
		_, leading = e.Leading()
		assert.False(t, leading, "within the lease of a leader that was killed")
		time.Sleep(2 * time.Second)
		term, leading = e.Leading()
		assert.True(t, leading)
		assert.Equal(t, elector.CauseExpired, term.Cause)

		stop()
		assert.Zero(t, election.Term().Leader, "handed over")
	})
}

func TestElection_AwayEndsTheTermAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		election := electorfake.New()
		e, stop := start(t, election.Strategy(), "worker")
		defer stop()
		time.Sleep(10 * time.Second)
		full := errors.New("disk full")
		back := election.Away(full)
		time.Sleep(2 * time.Second)
		_, leading := e.Leading()
		assert.True(t, leading, "it still trusts its last beat")
		time.Sleep(2 * time.Second)
		status := e.Status()
		assert.Equal(t, elector.Following, status.State)
		assert.ErrorIs(t, status.Err, full)
		back()
		synctest.Wait()
		term, leading := e.Leading()
		assert.True(t, leading)
		assert.EqualValues(t, 2, term.Number)
	})
}

// accounts is a table in memory, and lock a lock.
type accounts struct{ written []uint64 }

func (a *accounts) execute(s electorfake.Statement) (int64, error) {
	a.written = append(a.written, s.Term)
	return 1, nil
}

var lock = conclavesql.Lock{DataCenter: "shop", Name: "nightly"}

// A leader that was paused and wakes after another one has been elected writes nothing.
func TestPause_LeaderThatWakesWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		election, table := electorfake.New(), &accounts{}
		db := election.DB(table.execute)
		defer db.Close()
		write := func(term elector.Term) error {
			_, err := fence.Exec(t.Context(), db, fence.New(lock, term), "UPDATE accounts JOIN {fence} SET paid = ? WHERE name = ?", 7, "a")
			return err
		}
		terms := make(chan elector.Term, 10)
		lead := func(cfg *elector.Config) {
			cfg.Lead = func(ctx context.Context, term elector.Term) error {
				terms <- term
				<-ctx.Done()
				return nil
			}
		}
		first := election.Strategy()
		e, stop := start(t, first, "first", lead)
		defer stop()
		old := <-terms
		require.NoError(t, write(old))
		_, stopSecond := start(t, election.Strategy(), "second", lead)
		defer stopSecond()
		time.Sleep(10 * time.Second)

		wake := first.Pause()
		began := time.Now()
		next := <-terms
		assert.GreaterOrEqual(t, time.Since(began), 2*time.Second)
		assert.LessOrEqual(t, time.Since(began), 4*time.Second)
		require.NoError(t, write(next))
		wake()
		require.ErrorIs(t, write(old), fence.ErrTermEnded)
		assert.Equal(t, []uint64{1, 2}, table.written)
		time.Sleep(5 * time.Second)
		assert.Equal(t, next.Leader, e.Status().Term.Leader, "it follows")
	})
}

// A write may use the pool again, as a table with a trigger does, and no node wins
// meanwhile.
func TestDB_WriteMayUseThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		election := electorfake.New()
		term := election.Elect("me")
		var db *stdsql.DB
		db = election.DB(func(s electorfake.Statement) (int64, error) {
			if s.Fenced {
				go election.Elect("other")
				synctest.Wait()
				_, err := db.ExecContext(t.Context(), "INSERT INTO log VALUES (1)")
				assert.NoError(t, err)
				assert.Equal(t, term.Number, election.Term().Number)
			}
			return 1, nil
		})
		defer db.Close()
		_, err := fence.Exec(t.Context(), db, fence.New(lock, term), "DELETE a FROM a JOIN {fence}")
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, term.Number+1, election.Term().Number)
	})
}

// What the program under test gives to fence.Exec reaches the test as it was, and what it
// does without a fence can be told apart.
func TestDB_GivesStatementsToTheTest(t *testing.T) {
	election := electorfake.New()
	var got []electorfake.Statement
	db := election.DB(func(s electorfake.Statement) (int64, error) {
		got = append(got, s)
		return int64(len(got)) - 1, nil
	})
	defer db.Close()
	term := election.Elect("me")
	token := fence.New(lock, term)
	ctx := t.Context()
	n, err := fence.Exec(ctx, db, token, "INSERT INTO a SELECT ?, fence.term FROM {fence} WHERE ? > 0", "x", 3)
	require.NoError(t, err, "no row was changed, and the term lasts")
	assert.Zero(t, n)
	n, err = fence.Exec(ctx, db, token, "DELETE a FROM a JOIN {fence}")
	require.NoError(t, err)
	assert.EqualValues(t, 1, n)
	_, err = db.ExecContext(ctx, "DELETE FROM a WHERE id = ?", 4)
	require.NoError(t, err)
	assert.Equal(t, []electorfake.Statement{
		{Query: "INSERT INTO a SELECT ?, fence.term FROM {fence} WHERE ? > 0", Args: []any{"x", int64(3)}, Term: 1, Fenced: true},
		{Query: "DELETE a FROM a JOIN {fence}", Args: []any{}, Term: 1, Fenced: true},
		{Query: "DELETE FROM a WHERE id = ?", Args: []any{int64(4)}},
	}, got)

	election.Elect("other")
	require.ErrorIs(t, token.Check(ctx, db), fence.ErrTermEnded)
	_, err = fence.Exec(ctx, db, token, "DELETE a FROM a JOIN {fence}")
	require.ErrorIs(t, err, fence.ErrTermEnded)
	assert.Len(t, got, 3, "it did not reach the table")

	back := election.Away(nil)
	_, err = fence.Exec(ctx, db, token, "DELETE a FROM a JOIN {fence}")
	require.ErrorIs(t, err, electorfake.ErrAway)
	require.ErrorIs(t, token.Check(ctx, db), electorfake.ErrAway)
	back()
	var one int
	assert.ErrorContains(t, db.QueryRowContext(ctx, "SELECT 1").Scan(&one), "queries")
}

// The statements of fence.Tx reach the test with its outcome. No node wins between the
// check of its term and its COMMIT, and one that won before makes it roll back.
func TestDB_Transactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		election := electorfake.New()
		var got []electorfake.Statement
		refusal := error(nil)
		db := election.DB(func(s electorfake.Statement) (int64, error) {
			if got = append(got, s); s.Query != "COMMIT" {
				return 1, nil
			}
			before := election.Term()
			go election.Elect("other")
			synctest.Wait()
			assert.Equal(t, before, election.Term())
			return 0, refusal
		})
		defer db.Close()
		token := fence.New(lock, election.Elect("me"))
		write := func() error {
			return fence.Tx(t.Context(), db, token, &stdsql.TxOptions{Isolation: stdsql.LevelSerializable}, func(tx *stdsql.Tx) error {
				if _, err := tx.Exec("DELETE FROM a WHERE id = ?", 4); err != nil {
					return err
				}
				_, err := fence.Exec(t.Context(), tx, token, "DELETE b FROM b JOIN {fence}")
				return err
			})
		}
		require.NoError(t, write())
		assert.Equal(t, []electorfake.Statement{
			{Query: "DELETE FROM a WHERE id = ?", Args: []any{int64(4)}, Tx: 1},
			{Query: "DELETE b FROM b JOIN {fence}", Args: []any{}, Term: 1, Fenced: true, Tx: 1},
			{Query: "COMMIT", Tx: 1},
		}, got)
		synctest.Wait()
		assert.EqualValues(t, 2, election.Term().Number)
		require.ErrorIs(t, write(), fence.ErrTermEnded)
		assert.Equal(t, electorfake.Statement{Query: "ROLLBACK", Tx: 2}, got[len(got)-1])

		token = fence.New(lock, election.Elect("me"))
		refusal = errors.New("no answer")
		require.ErrorIs(t, write(), fence.ErrOutcomeUnknown)
		synctest.Wait()
		assert.EqualValues(t, 4, election.Term().Number)
	})
}
