package main

import (
	"bufio"
	stdsql "database/sql"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/mysqltest"
)

// asWorker makes this test binary the example, with these arguments.
const asWorker = "EXAMPLE_WORKER"

func TestMain(m *testing.M) {
	if args := os.Getenv(asWorker); args != "" {
		os.Args = append(os.Args[:1], strings.Fields(args)...)
		main()
		return
	}
	mysqltest.Main(m)
}

// worker is a process of the example. lines has what it prints.
type worker struct {
	cmd   *exec.Cmd
	lines chan string
}

func start(t *testing.T, dsn, name string) *worker {
	w := &worker{cmd: exec.Command(os.Args[0]), lines: make(chan string, 1000)}
	w.cmd.Env = append(os.Environ(), asWorker+"="+dsn+" "+name)
	out, in, err := os.Pipe()
	require.NoError(t, err)
	w.cmd.Stdout, w.cmd.Stderr = in, in
	require.NoError(t, w.cmd.Start())
	in.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(out); s.Scan(); {
			w.lines <- s.Text()
		}
		close(w.lines)
	}()
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill() // fails if it has ended
		_ = w.cmd.Wait()
		<-read
		out.Close()
	})
	return w
}

// until returns how many lines say that the worker has worked, up to one with this text.
func (w *worker) until(t *testing.T, text string) (worked int) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for {
		select {
		case line, more := <-w.lines:
			require.True(t, more, "ended before %q", text)
			if strings.Contains(line, " worked in term ") {
				worked++
			}
			if strings.Contains(line, text) {
				return worked
			}
		case <-limit:
			require.FailNow(t, "waited too long", "for %q", text)
		}
	}
}

// SIGTERM loses nothing: the row of each line that was printed is there and no other one,
// the process succeeds, and the next one works long before the lease has expired.
func TestExample_SIGTERMHandsOver(t *testing.T) {
	server := mysqltest.NewEmbedded(t)
	one := start(t, server.DSN, "worker-1")
	worked := one.until(t, "worker-1 worked in term 1")
	two := start(t, server.DSN, "worker-2")
	two.until(t, "the store records")
	worked += one.until(t, "worker-1 worked in term 1")

	require.NoError(t, one.cmd.Process.Signal(syscall.SIGTERM))
	began := time.Now()
	last := two.until(t, "worker-2 worked in term 2")
	assert.Less(t, time.Since(began), 1500*time.Millisecond, "half of the lease")
	require.NoError(t, one.cmd.Wait())
	for line := range one.lines {
		assert.NotContains(t, line, "level=WARN")
		if strings.Contains(line, " worked in term ") {
			worked++
		}
	}
	db, err := stdsql.Open("mysql", server.DSN)
	require.NoError(t, err)
	defer db.Close()
	var rows [2]int
	require.NoError(t, db.QueryRow("SELECT SUM(term = 1), SUM(term = 2) FROM work").Scan(&rows[0], &rows[1]))
	assert.Equal(t, worked, rows[0])
	assert.GreaterOrEqual(t, rows[1], last)
}
