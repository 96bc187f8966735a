package fence_test

import (
	"bufio"
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the application's driver
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/elector/fence"
	"conclave/elector/termcas"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// workerEnv makes this test binary a worker process: NAME DSN.
const workerEnv = "FENCE_TEST_WORKER"

func TestMain(m *testing.M) {
	if args := os.Getenv(workerEnv); args != "" {
		name, dsn, _ := strings.Cut(args, " ")
		worker(name, dsn)
		return
	}
	mysqltest.Main(m)
}

var lock = conclavesql.Lock{DataCenter: "test", Name: "shop"}

// shop makes an application's database, with a lock in it.
func shop(t *testing.T, dsn string) *stdsql.DB {
	t.Helper()
	locks, err := conclavesql.Open(dsn, conclavesql.Options{Deadline: 10 * time.Second})
	require.NoError(t, err)
	defer locks.Close()
	require.NoError(t, locks.Migrate(t.Context(), lock))
	db, err := stdsql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	for _, statement := range []string{
		"CREATE TABLE orders (id int PRIMARY KEY, state varchar(20) NOT NULL, term bigint unsigned NOT NULL DEFAULT 0)",
		"INSERT INTO orders (id, state) VALUES (1, 'new'), (2, 'new')",
	} {
		_, err := db.Exec(statement)
		require.NoError(t, err)
	}
	return db
}

// elect makes owner the leader of term, without an election.
func elect(t *testing.T, db *stdsql.DB, owner string, term uint64) fence.Token {
	t.Helper()
	_, err := db.Exec("UPDATE distribute_lock SET owner = ?, term = ? WHERE data_center = ? AND lock_name = ?", owner, term, lock.DataCenter, lock.Name)
	require.NoError(t, err)
	return fence.Token{Lock: lock, Owner: owner, Term: term}
}

// orders returns the table as text.
func orders(t *testing.T, db *stdsql.DB) string {
	t.Helper()
	rows, err := db.Query("SELECT id, state, term FROM orders ORDER BY id")
	require.NoError(t, err)
	defer rows.Close()
	var list []string
	for rows.Next() {
		var id, term int
		var state string
		require.NoError(t, rows.Scan(&id, &state, &term))
		list = append(list, fmt.Sprintf("%d %s %d", id, state, term))
	}
	require.NoError(t, rows.Err())
	return strings.Join(list, ", ")
}

// Every form of statement is executed while the term lasts, and changes nothing afterwards.
func TestExec_EveryStatementFormIsFenced(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		db := shop(t, s.DSN)
		statements := []struct {
			query string
			args  []any
			after string
		}{
			{"UPDATE orders JOIN {fence} SET state = ?, orders.term = fence.term WHERE id = ?", []any{"paid", 1}, "1 paid 7, 2 new 0"},
			{"INSERT INTO orders (id, state, term) SELECT ?, ?, fence.term FROM {fence}", []any{3, "new"}, "1 paid 7, 2 new 0, 3 new 7"},
			{"INSERT IGNORE INTO orders (id, state) SELECT ?, ? FROM {fence}", []any{4, "new"}, "1 paid 7, 2 new 0, 3 new 7, 4 new 0"},
			{"REPLACE INTO orders (id, state) SELECT ?, ? FROM {fence}", []any{4, "sent"}, "1 paid 7, 2 new 0, 3 new 7, 4 sent 0"},
			{"INSERT INTO orders (id, state) SELECT ?, ? FROM {fence} ON DUPLICATE KEY UPDATE state = ?", []any{4, "x", "again"}, "1 paid 7, 2 new 0, 3 new 7, 4 again 0"},
			{"DELETE orders FROM orders JOIN {fence} WHERE id = ?", []any{2}, "1 paid 7, 3 new 7, 4 again 0"},
			{"UPDATE orders, {fence} SET state = 'what? {fence}' WHERE id = ? /* ? */", []any{3}, "1 paid 7, 3 what? {fence} 7, 4 again 0"},
			{"UPDATE orders --\tis it?\n JOIN {fence} SET state = ? WHERE id = ?", []any{"mine", 3}, "1 paid 7, 3 mine 7, 4 again 0"},
		}
		token := elect(t, db, "a@1", 7)
		for _, st := range statements {
			n, err := fence.Exec(t.Context(), db, token, st.query, st.args...)
			require.NoError(t, err, st.query)
			assert.Positive(t, n, st.query)
			assert.Equal(t, st.after, orders(t, db), st.query)
		}
		n, err := fence.Exec(t.Context(), db, token, "UPDATE orders JOIN {fence} SET state = ? WHERE id = ?", "x", 99)
		require.NoError(t, err, "no row matched, but the term has not ended")
		assert.Zero(t, n)

		_, err = db.Exec("DELETE FROM orders")
		require.NoError(t, err)
		_, err = db.Exec("INSERT INTO orders (id, state) VALUES (1, 'new'), (2, 'new'), (3, 'new')")
		require.NoError(t, err)
		elect(t, db, "b@1", 8)
		for _, st := range statements {
			_, err := fence.Exec(t.Context(), db, token, st.query, st.args...)
			require.ErrorIs(t, err, fence.ErrTermEnded, st.query)
			require.Equal(t, "1 new 0, 2 new 0, 3 new 0", orders(t, db), st.query)
		}
		require.ErrorIs(t, token.Check(t.Context(), db), fence.ErrTermEnded)
	})
}

// A token of the same owner in another term, or of another owner in the same term, is invalid.
func TestExec_RefusesOtherOwnerOrTerm(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		db := shop(t, s.DSN)
		good := elect(t, db, "a@1", 7)
		for _, other := range []fence.Token{
			{Lock: lock, Owner: "a@1", Term: 6}, {Lock: lock, Owner: "a@1", Term: 8}, {Lock: lock, Owner: "a@2", Term: 7}, {Lock: lock, Owner: "A@1", Term: 7},
			{Lock: conclavesql.Lock{DataCenter: "test", Name: "another"}, Owner: "a@1", Term: 7},
		} {
			_, err := fence.Exec(t.Context(), db, other, "UPDATE orders JOIN {fence} SET state = 'x'")
			assert.ErrorIs(t, err, fence.ErrTermEnded, "%s", other)
		}
		n, err := fence.Exec(t.Context(), db, good, "UPDATE orders JOIN {fence} SET state = 'x'")
		require.NoError(t, err)
		assert.Equal(t, int64(2), n)
	})
}

// A statement that would not be fenced is not sent.
func TestExec_RefusesUnfencedStatement(t *testing.T) {
	db, err := stdsql.Open("mysql", "root@tcp(127.0.0.1:1)/nowhere")
	require.NoError(t, err)
	defer db.Close()
	token := fence.Token{Lock: lock, Owner: "a@1", Term: 7}
	for _, query := range []string{
		"UPDATE orders SET state = ?", "UPDATE orders SET state = '{fence}'", "UPDATE o /* {fence} */ SET x = 1", "UPDATE o -- {fence}\n SET x = 1",
		"UPDATE o --\t{fence}\n SET x = 1", "UPDATE o --\r{fence}\n SET x = 1", "UPDATE o --\x01{fence}\n SET x = 1",
		"UPDATE `{fence}` SET x = 1", "UPDATE o # {fence}", `UPDATE o SET x = "\"{fence}"`, "UPDATE a JOIN {fence} JOIN {fence} SET x = 1", "", "'{fence}",
	} {
		_, err := fence.Exec(t.Context(), db, token, query, 1)
		assert.ErrorIs(t, err, fence.ErrUnfenced, query)
	}
	_, err = fence.Exec(t.Context(), db, token, "UPDATE o SET x = ?, y = ? JOIN {fence}", 1)
	assert.ErrorContains(t, err, "1 arguments for 2 question marks")
	for _, invalid := range []fence.Token{{}, {Lock: lock, Owner: "a@1"}, {Lock: lock, Term: 7}, {Lock: lock, Owner: "no-incarnation", Term: 7}} {
		_, err := fence.Exec(t.Context(), db, invalid, "UPDATE orders JOIN {fence} SET state = 'x'")
		assert.Error(t, err, "an invalid token")
		assert.NotErrorIs(t, err, fence.ErrTermEnded)
	}
}

func TestFromEnv_RoundTrip(t *testing.T) {
	token := fence.New(lock, elector.Term{Number: 7, Leader: conclave.NodeID{Name: "a", Incarnation: "1"}})
	_, err := fence.FromEnv()
	assert.ErrorContains(t, err, "conclave lead")
	for _, pair := range token.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
	got, err := fence.FromEnv()
	require.NoError(t, err)
	assert.Equal(t, token, got)
	t.Setenv(fence.EnvOwner, "")
	_, err = fence.FromEnv()
	assert.Error(t, err)
}

// A fenced write and an election wait for each other: the write holds the lock row until
// its transaction ends.
func TestExec_ElectionWaitsForFencedWrite(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		for _, level := range []stdsql.IsolationLevel{stdsql.LevelReadCommitted, stdsql.LevelRepeatableRead} {
			t.Run(level.String(), func(t *testing.T) {
				db := shop(t, mysqltest.New(t, s.Kind).DSN)
				token := elect(t, db, "a@1", 7)
				for _, query := range []string{"INSERT INTO orders (id, state) SELECT 9, 'new' FROM {fence}", "UPDATE orders JOIN {fence} SET state = 'held' WHERE id = 1"} {
					tx, err := db.BeginTx(t.Context(), &stdsql.TxOptions{Isolation: level})
					require.NoError(t, err)
					n, err := fence.Exec(t.Context(), tx, token, query)
					require.NoError(t, err)
					require.Equal(t, int64(1), n)
					elected := make(chan error, 1)
					go func() {
						_, err := db.Exec("UPDATE distribute_lock SET owner = 'b@1', term = term + 1")
						elected <- err
					}()
					select {
					case err := <-elected:
						assert.Fail(t, "the election did not wait", "%v", err)
					case <-time.After(200 * time.Millisecond):
					}
					require.NoError(t, tx.Commit())
					require.NoError(t, <-elected)
					_, err = fence.Exec(t.Context(), db, token, query)
					require.ErrorIs(t, err, fence.ErrTermEnded)
					elect(t, db, "a@1", 7)
				}
			})
		}
	})
}

// workerLease is longer than any stall of a busy machine.
const workerLease = 6 * time.Second

// worker is the main function of an application's process. While it leads, each line on
// its standard input makes it check that it leads; after a second line it writes. The test
// stops it in between.
func worker(name, dsn string) {
	check := func(err error) {
		if err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
	}
	locks, err := conclavesql.Open(dsn, conclavesql.Options{Deadline: workerLease / 6})
	check(err)
	db, err := stdsql.Open("mysql", dsn)
	check(err)
	strategy, err := termcas.New(termcas.Config{DB: locks, Lock: lock, Takeover: termcas.Lease})
	check(err)
	var e *elector.Elector
	input := bufio.NewScanner(os.Stdin)
	e, err = elector.New(elector.Config{
		ID: conclave.NodeID{Name: name, Incarnation: "1"}, Strategy: strategy, Lease: workerLease,
		Lead: func(ctx context.Context, term elector.Term) error {
			token := fence.New(lock, term)
			fmt.Println("leading", term.Number)
			for input.Scan() {
				if _, leading := e.Leading(); !leading { // the check before the act, which is not enough
					fmt.Println("not leading")
					continue
				}
				fmt.Println("about to write")
				input.Scan() // here the process is stopped and continued
				n, refused := fence.Exec(context.Background(), db, token, "UPDATE orders JOIN {fence} SET state = ?, orders.term = fence.term WHERE id = 1", name)
				// The same statement unfenced, on another row, for comparison.
				_, err := db.Exec("UPDATE orders SET state = ? WHERE id = 2", name)
				check(err)
				fmt.Println("wrote", n, errors.Is(refused, fence.ErrTermEnded))
			}
			return nil
		},
	})
	check(err)
	check(e.Run(context.Background()))
}

// workerProcess is a running worker.
type workerProcess struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out chan string
}

func start(t *testing.T, name, dsn string) *workerProcess {
	p := &workerProcess{cmd: exec.Command(os.Args[0]), out: make(chan string, 100)}
	p.cmd.Env = append(os.Environ(), workerEnv+"="+name+" "+dsn)
	var err error
	p.in, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.out)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			p.out <- scan.Text()
		}
	}()
	t.Cleanup(sync.OnceFunc(func() {
		p.cmd.Process.Kill()
		for range p.out {
		}
		p.cmd.Wait()
	}))
	return p
}

func (p *workerProcess) proceed(t *testing.T) {
	t.Helper()
	_, err := fmt.Fprintln(p.in, "go")
	require.NoError(t, err)
}

// line waits for the next line of output.
func (p *workerProcess) line(t *testing.T) (line string) {
	t.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	select {
	case line = <-p.out:
	case <-limit.C:
		require.FailNow(t, "waited too long")
	}
	return line
}

// expect waits for the next line of output, and checks it.
func (p *workerProcess) expect(t *testing.T, want string) {
	t.Helper()
	require.Equal(t, want, p.line(t))
}

// leads waits until the process leads, and returns its term. It is not always the next
// number: on a busy machine a term may be skipped.
func (p *workerProcess) leads(t *testing.T) (term string) {
	t.Helper()
	term, leads := strings.CutPrefix(p.line(t), "leading ")
	require.True(t, leads)
	return term
}

// A leader is stopped (SIGSTOP) between the check and the write, and another one leads and
// writes. When the first is continued, its write changes nothing.
func TestExec_RefusesWriteOfLeaderStoppedBeforeIt(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		db := shop(t, s.DSN)
		old := start(t, "old", s.DSN)
		first := old.leads(t)
		old.proceed(t)
		old.expect(t, "about to write") // it has checked that it leads
		require.NoError(t, old.cmd.Process.Signal(syscall.SIGSTOP))

		next := start(t, "next", s.DSN)
		second := next.leads(t)
		require.NotEqual(t, first, second)
		next.proceed(t)
		next.expect(t, "about to write")
		next.proceed(t)
		next.expect(t, "wrote 1 false")

		old.proceed(t) // it is between the check and the write
		require.NoError(t, old.cmd.Process.Signal(syscall.SIGCONT))
		old.expect(t, "wrote 0 true")
		assert.Equal(t, "1 next "+second+", 2 old 0", orders(t, db), "the old leader's unfenced write has overwritten the new one's")
	})
}
