package fence_test

import (
	"bytes"
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector/fence"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// levels are the isolation levels under which a transaction is fenced.
var levels = []stdsql.IsolationLevel{
	stdsql.LevelDefault, stdsql.LevelReadUncommitted, stdsql.LevelReadCommitted, stdsql.LevelRepeatableRead, stdsql.LevelSerializable,
}

// both changes both orders in a transaction under the token, and calls before between
// the last statement and the end of f.
func both(t *testing.T, db *stdsql.DB, token fence.Token, level stdsql.IsolationLevel, state string, before func()) error {
	t.Helper()
	return fence.Tx(t.Context(), db, token, &stdsql.TxOptions{Isolation: level}, func(tx *stdsql.Tx) error {
		var count int // a snapshot, where the level has one
		if err := tx.QueryRow("SELECT COUNT(*) FROM orders").Scan(&count); err != nil {
			return err
		}
		for id := 1; id <= 2; id++ {
			if _, err := tx.Exec("UPDATE orders SET state = ?, term = ? WHERE id = ?", state, token.Term, id); err != nil {
				return err
			}
		}
		before()
		return nil
	})
}

// A transaction takes effect as a whole while the term lasts, also if the leader has
// renewed meanwhile, and changes nothing if another node has won before it, or during it.
func TestTx_TakesEffectUnderTheTermOrNotAtAll(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		db := shop(t, s.DSN)
		for i, level := range levels {
			term := uint64(10 * (i + 1))
			token := elect(t, db, "a@1", term)
			renew := func() {
				_, err := db.Exec("UPDATE distribute_lock SET term_duration = term_duration + 1")
				require.NoError(t, err)
			}
			elsewhere := func(act func()) func() { // the embedded server has no statement beside a transaction
				if s.Kind == mysqltest.Embedded {
					return func() {}
				}
				return act
			}
			require.NoError(t, both(t, db, token, level, "paid", elsewhere(renew)), level)
			paid := fmt.Sprintf("1 paid %d, 2 paid %d", term, term)
			require.Equal(t, paid, orders(t, db), level)

			if s.Kind != mysqltest.Embedded {
				err := both(t, db, token, level, "lost", func() { elect(t, db, "b@1", term+1) })
				require.ErrorIs(t, err, fence.ErrTermEnded, level)
				require.Equal(t, paid, orders(t, db), level)
			}
			elect(t, db, "b@1", term+2)
			require.ErrorIs(t, both(t, db, token, level, "late", func() {}), fence.ErrTermEnded, level)
			require.Equal(t, paid, orders(t, db), level)
		}
		for _, other := range []fence.Token{
			{Lock: lock, Owner: "b@1", Term: 53}, {Lock: lock, Owner: "b@2", Term: 52}, {Lock: conclavesql.Lock{DataCenter: "test", Name: "another"}, Owner: "b@1", Term: 52},
		} {
			assert.ErrorIs(t, both(t, db, other, 0, "x", func() {}), fence.ErrTermEnded, "%s", other)
		}
	})
}

// An error or a panic of f, an invalid token and the end of the context roll back, and the
// connection is as it was.
func TestTx_RollsBackWhatFails(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		db := shop(t, s.DSN)
		db.SetMaxOpenConns(1) // also: none is left behind
		token := elect(t, db, "a@1", 7)
		timeout := func() (seconds int) {
			require.NoError(t, db.QueryRow("SELECT @@SESSION.wait_timeout").Scan(&seconds))
			return seconds
		}
		began := timeout()
		mine := errors.New("mine")
		write := func(tx *stdsql.Tx) {
			_, err := tx.Exec("UPDATE orders SET state = 'x'")
			require.NoError(t, err)
		}
		assert.Equal(t, mine, fence.Tx(t.Context(), db, token, nil, func(tx *stdsql.Tx) error { write(tx); return mine }))
		assert.PanicsWithValue(t, "f", func() {
			_ = fence.Tx(t.Context(), db, token, nil, func(tx *stdsql.Tx) error { write(tx); panic("f") })
		})
		ctx, cancel := context.WithCancel(t.Context())
		err := fence.Tx(ctx, db, token, nil, func(tx *stdsql.Tx) error { write(tx); cancel(); return nil })
		require.ErrorIs(t, err, context.Canceled)
		assert.NotErrorIs(t, err, fence.ErrOutcomeUnknown)
		err = fence.Tx(t.Context(), db, token, nil, func(tx *stdsql.Tx) error { write(tx); return tx.Rollback() })
		require.ErrorIs(t, err, stdsql.ErrTxDone)
		err = fence.Tx(t.Context(), db, fence.Token{Lock: lock}, nil, func(*stdsql.Tx) error { panic("not called") })
		require.ErrorContains(t, err, "invalid token")
		assert.Equal(t, "1 new 0, 2 new 0", orders(t, db))

		require.NoError(t, both(t, db, token, 0, "paid", func() {}))
		assert.Equal(t, began, timeout(), "the session has its own limit again")
		require.ErrorIs(t, both(t, db, fence.Token{Lock: lock, Owner: "a@1", Term: 6}, 0, "late", func() {}), fence.ErrTermEnded)
		assert.Equal(t, began, timeout())
		assert.Equal(t, "1 paid 7, 2 paid 7", orders(t, db))
	})
}

// A transaction that ends while f runs is reported: what f executes afterwards is not fenced.
func TestTx_ReportsATransactionThatEndedEarly(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		db := shop(t, s.DSN)
		token := elect(t, db, "a@1", 7)
		for _, end := range []string{"COMMIT", "ROLLBACK", "BEGIN", "CREATE TABLE more (id int PRIMARY KEY)"} {
			err := fence.Tx(t.Context(), db, token, nil, func(tx *stdsql.Tx) error {
				for _, statement := range []string{"UPDATE orders SET state = 'x'", end, "UPDATE orders SET state = 'y'"} {
					if _, err := tx.Exec(statement); err != nil {
						return err
					}
				}
				return nil
			})
			assert.ErrorIs(t, err, stdsql.ErrTxDone, end)
			assert.ErrorContains(t, err, "ended while f ran", end)
		}
		require.NoError(t, both(t, db, token, 0, "paid", func() {}))
		assert.Equal(t, "1 paid 7, 2 paid 7", orders(t, db))
	})
}

// commitConn calls before with the connection when the client sends COMMIT.
type commitConn struct {
	net.Conn
	before func(net.Conn)
}

func (c commitConn) Write(b []byte) (int, error) {
	if bytes.HasSuffix(b, []byte("COMMIT")) {
		c.before(c.Conn)
	}
	return c.Conn.Write(b)
}

// atCommit returns a pool whose connections call before when a COMMIT is sent.
func atCommit(t *testing.T, dsn string, before func(net.Conn)) *stdsql.DB {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	require.NoError(t, err)
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return commitConn{conn, before}, err
	}
	connector, err := mysql.NewConnector(cfg)
	require.NoError(t, err)
	db := stdsql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

// A takeover that comes when the transaction has checked its term waits for the COMMIT.
func TestTx_TakeoverWaitsForTheCommit(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		plain := shop(t, s.DSN)
		taken := make(chan error, 1)
		db := atCommit(t, s.DSN, func(net.Conn) {
			go func() {
				_, err := plain.Exec("UPDATE distribute_lock SET owner = 'b@1', term = term + 1")
				taken <- err
			}()
			select {
			case err := <-taken:
				taken <- err
				assert.Fail(t, "the takeover did not wait", "%v", err)
			case <-time.After(200 * time.Millisecond):
			}
		})
		for _, level := range levels {
			token := elect(t, plain, "a@1", 7)
			require.NoError(t, both(t, db, token, level, level.String(), func() {}))
			require.NoError(t, <-taken)
			require.ErrorIs(t, both(t, db, token, level, "late", func() {}), fence.ErrTermEnded)
			require.Equal(t, fmt.Sprintf("1 %[1]s 7, 2 %[1]s 7", level), orders(t, plain))
		}
	})
}

// What MariaDB's limits of an idle transaction do to a function that pauses: nothing is written.
func TestTx_IdleTransactionOfMariaDB(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		if s.Kind != mysqltest.MariaDB {
			return // it has no such limits
		}
		plain := shop(t, s.DSN)
		config, err := mysql.ParseDSN(s.DSN)
		require.NoError(t, err)
		config.Params = map[string]string{"idle_write_transaction_timeout": "2"}
		db, err := stdsql.Open("mysql", config.FormatDSN())
		require.NoError(t, err)
		defer db.Close()
		token := elect(t, plain, "a@1", 7)
		err = both(t, db, token, 0, "late", func() { time.Sleep(4 * time.Second) })
		require.Error(t, err)
		assert.NotErrorIs(t, err, fence.ErrOutcomeUnknown)
		assert.Equal(t, "1 new 0, 2 new 0", orders(t, plain))
		require.NoError(t, both(t, db, token, 0, "paid", func() {}))
		var limit int
		require.NoError(t, db.QueryRow("SELECT @@SESSION.idle_write_transaction_timeout").Scan(&limit))
		assert.Equal(t, 2, limit, "the session has its own limit again")
	})
}

// A process that is stopped before its COMMIT prevents elections for a second, and changes
// nothing when it continues.
func TestTx_StoppedBeforeItsCommitHoldsElectionsForASecond(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		plain := shop(t, s.DSN)
		config, err := mysql.ParseDSN(s.DSN)
		require.NoError(t, err)
		limits := []string{""}
		if s.Kind == mysqltest.MariaDB { // it has others for transactions
			limits = append(limits, "idle_transaction_timeout", "idle_write_transaction_timeout")
		}
		for _, limit := range limits {
			if limit != "" {
				config.Params = map[string]string{limit: "30"}
			}
			took := time.Duration(0)
			db := atCommit(t, config.FormatDSN(), func(net.Conn) {
				began := time.Now()
				elect(t, plain, "b@1", 8) // it waits until the server ends the connection
				took = time.Since(began)
			})
			err := both(t, db, elect(t, plain, "a@1", 7), 0, "late", func() {})
			require.ErrorIs(t, err, fence.ErrOutcomeUnknown)
			assert.GreaterOrEqual(t, took, 500*time.Millisecond, limit)
			assert.LessOrEqual(t, took, 4*time.Second, limit)
			assert.Equal(t, "1 new 0, 2 new 0", orders(t, plain))
		}
	})
}

// After a COMMIT without an answer the outcome is unknown: here it was executed.
func TestTx_LostAnswerOfTheCommitIsUnknown(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		plain := shop(t, s.DSN)
		db := atCommit(t, s.DSN, func(conn net.Conn) {
			_, err := conn.Write([]byte("\x07\x00\x00\x00\x03COMMIT")) // the client's own write comes too late
			assert.NoError(t, err)
			assert.NoError(t, conn.(*net.TCPConn).CloseWrite())
			one := make([]byte, 1)
			_, err = conn.Read(one)
			assert.NoError(t, err, "the answer, which the client does not get")
			conn.Close()
		})
		err := both(t, db, elect(t, plain, "a@1", 7), 0, "paid", func() {})
		require.ErrorIs(t, err, fence.ErrOutcomeUnknown)
		assert.NotErrorIs(t, err, fence.ErrTermEnded)
		assert.Equal(t, "1 paid 7, 2 paid 7", orders(t, plain))
	})
}

// Leaders of old and new terms execute transactions at random moments while terms change.
// Once a node has won, no transaction of an older term takes effect any more; each has
// both of its rows or none, as its error says.
func TestTx_NoOldTransactionAfterAWin(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		db := shop(t, s.DSN)
		_, err := db.Exec("CREATE TABLE entries (id bigint AUTO_INCREMENT PRIMARY KEY, tx bigint NOT NULL, term bigint unsigned NOT NULL)")
		require.NoError(t, err)
		var current, transactions atomic.Uint64
		current.Store(elect(t, db, "a@1", 1).Term)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var mu sync.Mutex
		outcomes := map[uint64]error{}   // by transaction
		effect := make(chan struct{}, 1) // one has taken effect
		var workers sync.WaitGroup
		for i := range 6 {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			workers.Go(func() {
				for ctx.Err() == nil {
					token, id := fence.Token{Lock: lock, Owner: "a@1", Term: current.Load()}, transactions.Add(1)
					pause := func() { time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond) }
					pause()
					opts := &stdsql.TxOptions{Isolation: levels[random.IntN(len(levels))]}
					err := fence.Tx(context.Background(), db, token, opts, func(tx *stdsql.Tx) error {
						for range 2 {
							if _, err := tx.Exec("INSERT INTO entries (tx, term) VALUES (?, ?)", id, token.Term); err != nil {
								return err
							}
							pause()
						}
						return nil
					})
					mu.Lock()
					outcomes[id] = err
					mu.Unlock()
					if err == nil {
						select {
						case effect <- struct{}{}:
						default:
						}
					}
				}
			})
		}
		older := func(term uint64) (count int) {
			require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM entries WHERE term < ?", term).Scan(&count))
			return count
		}
		after := map[uint64]int{} // by term: the entries of older ones, right after its win
		for term := uint64(2); term < 60; term++ {
			if time.Sleep(5 * time.Millisecond); term%2 == 0 {
				select { // however slow the machine is
				case <-effect:
				case <-time.After(time.Minute):
				}
			}
			elect(t, db, "a@1", term)
			after[term] = older(term)
			current.Store(term)
		}
		stop()
		workers.Wait()
		for term, count := range after {
			assert.Equal(t, count, older(term), "after term %d was won, a transaction of an older one took effect", term)
		}
		done, refused := 0, 0
		for id, err := range outcomes {
			var count int
			require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM entries WHERE tx = ?", id).Scan(&count))
			switch {
			case err == nil:
				done++
				assert.Equal(t, 2, count, "transaction %d", id)
			case errors.Is(err, fence.ErrTermEnded):
				refused++
				assert.Zero(t, count, "transaction %d", id)
			default: // a deadlock
				assert.NotErrorIs(t, err, fence.ErrOutcomeUnknown)
				assert.Zero(t, count, "transaction %d: %v", id, err)
			}
		}
		t.Logf("%d transactions: %d took effect, %d were refused", len(outcomes), done, refused)
		assert.Positive(t, done)
		assert.Positive(t, refused)
	})
}

// With innodb_snapshot_isolation a renewal since the first read ends a transaction at
// REPEATABLE READ, and none at READ COMMITTED.
func TestTx_SnapshotIsolationOfMariaDB(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		if s.Kind != mysqltest.MariaDB {
			return // it has no such setting
		}
		plain := shop(t, s.DSN)
		token := elect(t, plain, "a@1", 7)
		config, err := mysql.ParseDSN(s.DSN)
		require.NoError(t, err)
		config.Params = map[string]string{"innodb_snapshot_isolation": "ON"}
		db, err := stdsql.Open("mysql", config.FormatDSN())
		require.NoError(t, err)
		defer db.Close()
		renew := func() {
			_, err := plain.Exec("UPDATE distribute_lock SET term_duration = term_duration + 1")
			require.NoError(t, err)
		}
		var refused *mysql.MySQLError
		require.ErrorAs(t, both(t, db, token, stdsql.LevelRepeatableRead, "x", renew), &refused)
		assert.EqualValues(t, 1020, refused.Number)
		assert.Equal(t, "1 new 0, 2 new 0", orders(t, plain))
		require.NoError(t, both(t, db, token, stdsql.LevelReadCommitted, "paid", renew))
		require.NoError(t, both(t, db, token, stdsql.LevelRepeatableRead, "sent", func() {}))
		assert.Equal(t, "1 sent 7, 2 sent 7", orders(t, plain))
	})
}

// A program needs SELECT on the lock row, besides its rights on its own tables.
func TestTx_Privileges(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		plain := shop(t, s.DSN)
		token := elect(t, plain, "a@1", 7)
		config, err := mysql.ParseDSN(s.DSN)
		require.NoError(t, err)
		name := fmt.Sprintf("shop_%d", os.Getpid())
		s.Exec(t, "CREATE USER '"+name+"'@'%' IDENTIFIED BY 'secret'")
		t.Cleanup(func() { s.Exec(t, "DROP USER '"+name+"'@'%'") })
		s.Exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+config.DBName+".orders TO '"+name+"'@'%'")
		s.Exec(t, "GRANT SELECT ON "+config.DBName+".distribute_lock TO '"+name+"'@'%'")
		config.User, config.Passwd = name, "secret"
		db, err := stdsql.Open("mysql", config.FormatDSN())
		require.NoError(t, err)
		defer db.Close()
		assert.NoError(t, both(t, db, token, 0, "paid", func() {}))
		_, err = fence.Exec(t.Context(), db, token, "UPDATE orders JOIN {fence} SET state = ?", "sent")
		assert.NoError(t, err)
		assert.Equal(t, "1 sent 7, 2 sent 7", orders(t, plain))
	})
}
