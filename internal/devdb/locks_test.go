package devdb_test

import (
	"bufio"
	"database/sql"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/devdb"
)

func TestNamedLocks_AnswerAsMySQLDoes(t *testing.T) {
	s, _ := serve(t, devdb.Config{})
	db := open(t, s)
	a, idA := connect(t, db)
	b, idB := connect(t, db)
	for _, step := range []struct {
		who   *sql.Conn
		query string
		want  any // nil is NULL
	}{
		{a, "SELECT GET_LOCK('l', 0)", 1},
		{b, "SELECT GET_LOCK('l', 0)", 0},
		{b, "SELECT IS_USED_LOCK('l')", idA},
		{b, "SELECT IS_FREE_LOCK('l')", 0},
		{b, "SELECT RELEASE_LOCK('l')", 0},
		{b, "SELECT RELEASE_LOCK('nobody')", nil},
		{b, "SELECT IS_USED_LOCK('nobody')", nil},
		{b, "SELECT IS_FREE_LOCK('nobody')", 1},
		{a, "SELECT GET_LOCK('L', 0)", 1}, // the same lock a second time
		{a, "SELECT RELEASE_LOCK('l')", 1},
		{b, "SELECT GET_LOCK('l', 0)", 0},
		{a, "SELECT RELEASE_LOCK('l')", 1},
		{a, "SELECT RELEASE_LOCK('l')", nil},
		{b, "SELECT GET_LOCK('l', 0)", 1},
		{a, "SELECT IS_USED_LOCK('l')", idB},
		{a, "SELECT GET_LOCK('m', 0) + GET_LOCK('n', 0) + GET_LOCK('n', 0)", 3}, // several at once
		{b, "SELECT GET_LOCK('m', 0)", 0},
		{a, "SELECT RELEASE_ALL_LOCKS()", 3},
		{b, "SELECT GET_LOCK('m', 0)", 1},
		{b, "SELECT IS_USED_LOCK('m') = CONNECTION_ID()", 1},
	} {
		var got sql.NullInt64
		require.NoError(t, step.who.QueryRowContext(t.Context(), step.query).Scan(&got), step.query)
		if step.want == nil {
			assert.False(t, got.Valid, step.query)
		} else {
			assert.EqualValues(t, step.want, got.Int64, step.query)
		}
	}
	for _, query := range []string{"SELECT GET_LOCK(NULL, 0)", "SELECT GET_LOCK('', 0)", "SELECT IS_USED_LOCK(NULL)", "SELECT RELEASE_LOCK(REPEAT('x', 65))"} {
		_, err := a.ExecContext(t.Context(), query)
		assert.EqualValues(t, 3057, number(err), "%s: %v", query, err)
	}
}

// waitFor waits for a lock in the background.
func waitFor(t *testing.T, conn *sql.Conn, name string) <-chan error {
	got := make(chan error, 1)
	go func() {
		var n int
		err := conn.QueryRowContext(t.Context(), "SELECT GET_LOCK(?, 60)", name).Scan(&n)
		if err == nil && n != 1 {
			err = os.ErrDeadlineExceeded
		}
		got <- err
	}()
	return got
}

// awaitWaiting waits until n statements wait without the gate. Reading the
// process list needs the gate, so the statements that it shows as executing do
// not hold it.
func awaitWaiting(t *testing.T, db *sql.DB, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		return n == one[int](t, db, "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT GET_LOCK(%, 60)' OR info LIKE 'SELECT SLEEP(%)'")
	}, 30*time.Second, time.Millisecond)
}

func TestGetLock_IsGrantedOnRelease(t *testing.T) {
	bubble(t, devdb.Config{}, func(t *testing.T, s *devdb.Server, db *sql.DB) {
		a, _ := connect(t, db)
		b, _ := connect(t, db)
		require.Equal(t, 1, one[int](t, a, "SELECT GET_LOCK('l', 0)"))
		got := waitFor(t, b, "l")
		awaitWaiting(t, db, 1)
		start := time.Now()
		require.Equal(t, 1, one[int](t, a, "SELECT RELEASE_LOCK('l')"))
		require.NoError(t, <-got)
		assert.Zero(t, time.Since(start), "in the same instant")
		a.Close()
		b.Close()
	})
}

func TestGetLock_WaitersAreServedInOrderAndBlockNoOther(t *testing.T) {
	s, _ := serve(t, devdb.Config{LockWait: 10 * time.Second})
	db := open(t, s)
	counterTable(t, db)
	holder, _ := connect(t, db)
	require.Equal(t, 1, one[int](t, holder, "SELECT GET_LOCK('l', 0)"))
	var waiters []*sql.Conn
	var got []<-chan error
	for i := range 3 {
		c, _ := connect(t, db)
		waiters, got = append(waiters, c), append(got, waitFor(t, c, "l"))
		awaitWaiting(t, db, i+1)
		run(t, db, "UPDATE counter SET n = n + 1") // passes the waiting statements
		assert.Equal(t, i+1, one[int](t, db, "SELECT n FROM counter"))
	}
	hangUp(t, holder)
	for i := range waiters {
		require.NoError(t, <-got[i], "waiters are served in the order of their arrival")
		for _, later := range got[i+1:] {
			select {
			case <-later:
				t.Fatal("two have the lock")
			default:
			}
		}
		hangUp(t, waiters[i])
	}
}

func TestGetLock_TimesOut(t *testing.T) {
	bubble(t, devdb.Config{}, func(t *testing.T, s *devdb.Server, db *sql.DB) {
		a, _ := connect(t, db)
		b, _ := connect(t, db)
		require.Equal(t, 1, one[int](t, a, "SELECT GET_LOCK('l', 0)"))
		start := time.Now()
		assert.Equal(t, 0, one[int](t, b, "SELECT GET_LOCK('l', 1)"))
		assert.Equal(t, time.Second, time.Since(start))
		assert.Equal(t, 0, one[int](t, b, "SELECT GET_LOCK('l', 0.4)"))
		assert.Equal(t, time.Second, time.Since(start), "seconds are rounded: this does not wait")
		a.Close()
		b.Close()
	})
}

func TestGetLock_CycleIsRefused(t *testing.T) {
	s, _ := serve(t, devdb.Config{})
	db := open(t, s)
	a, _ := connect(t, db)
	b, _ := connect(t, db)
	require.Equal(t, 1, one[int](t, a, "SELECT GET_LOCK('x', 0)"))
	require.Equal(t, 1, one[int](t, b, "SELECT GET_LOCK('y', 0)"))
	got := waitFor(t, a, "y")
	awaitWaiting(t, db, 1)
	require.Eventually(t, func() bool {
		_, err := b.ExecContext(t.Context(), "SELECT GET_LOCK('x', 1)")
		return number(err) == 3058
	}, 30*time.Second, time.Millisecond)
	require.Equal(t, 1, one[int](t, b, "SELECT RELEASE_LOCK('y')"))
	assert.NoError(t, <-got)
}

func TestKillQuery_EndsAWait(t *testing.T) {
	s, _ := serve(t, devdb.Config{})
	db := open(t, s)
	a, _ := connect(t, db)
	b, idB := connect(t, db)
	require.Equal(t, 1, one[int](t, a, "SELECT GET_LOCK('l', 0)"))
	got := waitFor(t, b, "l")
	awaitWaiting(t, db, 1)
	run(t, a, "KILL QUERY ?", idB)
	err := <-got
	assert.EqualValues(t, 1317, number(err), "%v", err)
	got = waitFor(t, b, "l") // the connection stays open and can wait again
	awaitWaiting(t, db, 1)
	require.Equal(t, 1, one[int](t, a, "SELECT RELEASE_LOCK('l')"))
	assert.NoError(t, <-got)
}

func TestSleep_BlocksNoOther(t *testing.T) {
	s, _ := serve(t, devdb.Config{LockWait: 10 * time.Second})
	db := open(t, s)
	counterTable(t, db)
	sleeper, id := connect(t, db)
	slept := make(chan error, 1)
	go func() {
		_, err := sleeper.ExecContext(t.Context(), "SELECT SLEEP(60)")
		slept <- err
	}()
	awaitWaiting(t, db, 1)
	run(t, db, "UPDATE counter SET n = n + 1")
	run(t, db, "KILL ?", id)
	assert.Error(t, <-slept)
}

// process is a client in a separate process.
type process struct {
	cmd   *exec.Cmd
	lines *bufio.Reader
}

func spawn(t *testing.T, s *devdb.Server, statement string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], statement)
	cmd.Env = append(os.Environ(), "DEVDB_TEST_CLIENT="+s.DSN())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &process{cmd, bufio.NewReader(out)}
	t.Cleanup(p.kill)
	p.expect(t, "ready")
	return p
}

// expect reads the process's next line.
func (p *process) expect(t *testing.T, want string) {
	t.Helper()
	line, err := p.lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, want, strings.TrimSpace(line))
}

func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	}
}

// When a leader is killed, the kernel closes its socket, and the follower that
// waits for its lock gets it long before the 60 s have passed.
func TestKilledProcess_FreesItsLock(t *testing.T) {
	s, _ := serve(t, devdb.Config{})
	db := open(t, s)
	waiter, _ := connect(t, db)
	leader := spawn(t, s, "SELECT GET_LOCK('witness', 0)")
	leader.expect(t, "done")
	got := waitFor(t, waiter, "witness")
	awaitWaiting(t, db, 1)
	at := time.Now()
	require.NoError(t, leader.cmd.Process.Kill())
	require.NoError(t, <-got)
	took := time.Since(at)
	t.Logf("the waiter had the lock %v after kill -9", took)
	assert.Less(t, took, 10*time.Second)
}

// A killed follower must not be granted the lock.
func TestKilledWaiter_LeavesTheQueue(t *testing.T) {
	s, _ := serve(t, devdb.Config{})
	db := open(t, s)
	leader, _ := connect(t, db)
	second, _ := connect(t, db)
	require.Equal(t, 1, one[int](t, leader, "SELECT GET_LOCK('witness', 0)"))
	first := spawn(t, s, "SELECT GET_LOCK('witness', 60)")
	awaitWaiting(t, db, 1)
	got := waitFor(t, second, "witness")
	awaitWaiting(t, db, 2)
	first.kill()
	awaitWaiting(t, db, 1) // long before the lock is released or the 60 s have passed
	at := time.Now()
	hangUp(t, leader)
	require.NoError(t, <-got)
	assert.Less(t, time.Since(at), 10*time.Second)
}

func TestGetLock_ExcludesManyClients(t *testing.T) {
	s, _ := serve(t, devdb.Config{})
	db := open(t, s)
	var all sync.WaitGroup
	var inside, most int // guarded by the named lock
	failed := make(chan error, 8)
	for range 8 {
		c, _ := connect(t, db)
		all.Go(func() {
			for range 50 {
				if err := <-waitFor(t, c, "one"); err != nil {
					failed <- err
					return
				}
				inside++
				most = max(most, inside)
				runtime.Gosched()
				inside--
				if _, err := c.ExecContext(t.Context(), "SELECT RELEASE_LOCK('one')"); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failed)
	require.NoError(t, <-failed)
	assert.Equal(t, 1, most)
}
