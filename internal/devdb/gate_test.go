package devdb_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/devdb"
)

func counterTable(t *testing.T, q querier) {
	run(t, q, "CREATE TABLE counter (id int PRIMARY KEY, n int NOT NULL)")
	run(t, q, "INSERT INTO counter VALUES (1, 0)")
}

// In virtual time, because on a machine that pauses for LockWait the eviction
// and the timeout would come at once.
func TestIdleTransaction_IsRolledBackWhenOthersWait(t *testing.T) {
	bubble(t, devdb.Config{LockWait: 200 * time.Millisecond}, func(t *testing.T, s *devdb.Server, db *sql.DB) {
		stuck, _ := connect(t, db)
		run(t, stuck, "BEGIN")
		run(t, stuck, "UPDATE counter SET n = 100")

		assert.EqualValues(t, 1, run(t, db, "UPDATE counter SET n = n + 1"), "the waiting statement is executed")
		assert.Equal(t, 1, one[int](t, db, "SELECT n FROM counter"), "the idle transaction was rolled back")
		_, err := stuck.ExecContext(t.Context(), "COMMIT")
		assert.Error(t, err, "its client gets an error")
		assert.Equal(t, 1, one[int](t, db, "SELECT n FROM counter"))
		stuck.Close()
	})
}

// In virtual time, because on a machine that pauses a busy client would be
// idle.
func TestBusyTransaction_OthersFailWith1205(t *testing.T) {
	bubble(t, devdb.Config{LockWait: 100 * time.Millisecond}, func(t *testing.T, s *devdb.Server, db *sql.DB) {
		busy, _ := connect(t, db)
		run(t, busy, "BEGIN")
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Millisecond):
					run(t, busy, "UPDATE counter SET n = n + 1")
				}
			}
		}()
		_, err := db.Exec("UPDATE counter SET n = -1")
		close(stop)
		<-stopped
		assert.EqualValues(t, 1205, number(err), "%v", err)
		run(t, busy, "COMMIT")
		assert.Positive(t, one[int](t, db, "SELECT n FROM counter"), "the refused statement was not executed")
		busy.Close()
	})
}

func TestAutocommitOff_IsATransaction(t *testing.T) {
	s, _ := serve(t, devdb.Config{LockWait: 10 * time.Second})
	db := open(t, s)
	counterTable(t, db)
	for _, end := range []struct {
		statement string
		left      int
	}{{"COMMIT", 1}, {"SET autocommit = 1", 2}, {"ROLLBACK", 2}} {
		c, _ := connect(t, db)
		run(t, c, "SET autocommit = 0")
		run(t, c, "UPDATE counter SET n = n + 1")
		read := make(chan int, 1)
		go func() {
			var n int
			if err := db.QueryRow("SELECT n FROM counter").Scan(&n); err != nil {
				n = -1
			}
			read <- n
		}()
		select {
		case n := <-read:
			t.Fatalf("another connection read %d in the middle of a transaction", n)
		case <-time.After(50 * time.Millisecond):
		}
		run(t, c, end.statement)
		assert.Equal(t, end.left, <-read, end.statement)
		run(t, c, "SET autocommit = 1")
		c.Close()
	}
}

func TestClosedConnection_RollsBackAtOnce(t *testing.T) {
	s, _ := serve(t, devdb.Config{LockWait: time.Minute})
	db := open(t, s)
	counterTable(t, db)
	c, _ := connect(t, db)
	run(t, c, "BEGIN")
	run(t, c, "UPDATE counter SET n = 7")
	start := time.Now()
	hangUp(t, c)
	assert.Equal(t, 0, one[int](t, db, "SELECT n FROM counter"))
	assert.Less(t, time.Since(start), 10*time.Second, "less than half of LockWait")
}

func TestKill_DoesNotWaitForTheGate(t *testing.T) {
	s, _ := serve(t, devdb.Config{LockWait: time.Minute})
	db := open(t, s)
	counterTable(t, db)
	stuck, id := connect(t, db)
	killer, _ := connect(t, db)
	run(t, stuck, "BEGIN")
	run(t, stuck, "UPDATE counter SET n = 7")
	start := time.Now()
	run(t, killer, "KILL ?", id)
	assert.Equal(t, 0, one[int](t, db, "SELECT n FROM counter"))
	assert.Less(t, time.Since(start), 10*time.Second, "less than half of LockWait")
}

// A client that does not read a large answer fills its socket, and must not
// block others.
func TestUnreadAnswer_DoesNotBlockOthers(t *testing.T) {
	network := newPipes()
	s, _ := serve(t, devdb.Config{Listener: network, LockWait: 10 * time.Second})
	stopper := network.stopper()
	slow, quick := openOver(t, s, stopper.dial), openOver(t, s, network.dial)
	counterTable(t, quick)
	conn, _ := connect(t, slow)
	before := s.Statements()
	stopper.stop() // the client stops reading
	go conn.ExecContext(t.Context(), "SELECT REPEAT('x', 1000000), n FROM counter")
	require.Eventually(t, func() bool { return s.Statements() > before }, 30*time.Second, time.Millisecond)
	for range 10 {
		run(t, quick, "UPDATE counter SET n = n + 1")
	}
	assert.Equal(t, 10, one[int](t, quick, "SELECT n FROM counter"))
}

func TestNew_ChecksConfig(t *testing.T) {
	_, err := devdb.New(devdb.Config{})
	assert.ErrorContains(t, err, "Listener")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, err = devdb.New(devdb.Config{Listener: l, LockWait: -time.Second})
	assert.ErrorContains(t, err, "LockWait")
}

func TestPassword_IsRequired(t *testing.T) {
	s, _ := serve(t, devdb.Config{User: "meta", Password: "it's secret"})
	assert.Equal(t, "meta@%", one[string](t, open(t, s), "SELECT CURRENT_USER()"))
	cfg := parsed(t, s)
	cfg.Passwd = "wrong"
	err := openConfig(t, cfg).Ping()
	assert.EqualValues(t, 1045, number(err), "%v", err)
}

func TestShutdown_AnswersStatementsInProgress(t *testing.T) {
	s, ended := serveUntil(t)
	db := open(t, s)
	counterTable(t, db)
	waiting, _ := connect(t, db)
	holder, _ := connect(t, db)
	require.Equal(t, 1, one[int](t, holder, "SELECT GET_LOCK('l', 0)"))
	answer := make(chan error, 1)
	go func() {
		_, err := waiting.ExecContext(t.Context(), "SELECT GET_LOCK('l', 60)")
		answer <- err
	}()
	awaitWaiting(t, db, 1)

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, s.Shutdown(ctx))
	assert.NoError(t, <-ended, "Run returns nil")
	err := <-answer
	assert.EqualValues(t, 1053, number(err), "a waiting statement fails: %v", err)
	assert.Error(t, db.Ping())
	assert.NoError(t, s.Shutdown(ctx), "Shutdown may be called twice")
}

func TestShutdown_BeforeRunClosesListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s, err := devdb.New(devdb.Config{Listener: l})
	require.NoError(t, err)
	require.NoError(t, s.Shutdown(t.Context()))
	assert.NoError(t, s.Run(t.Context()))
	_, err = l.Accept()
	assert.True(t, errors.Is(err, net.ErrClosed), "%v", err)
}
