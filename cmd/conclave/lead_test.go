package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/cli/clitest"
	"conclave/internal/mysqltest"
)

// diary is a file to which commands append a line for each of their actions.
type diary string

func newDiary(t *testing.T) diary { return diary(filepath.Join(t.TempDir(), "diary")) }

func (d diary) lines() []string {
	body, _ := os.ReadFile(string(d)) // not there yet: nothing was written
	return strings.Fields(strings.ReplaceAll(string(body), " ", "_"))
}

// until waits until the file has a line.
func (d diary) until(t *testing.T, line string) {
	t.Helper()
	limit := time.Now().Add(20 * time.Second)
	for !strings.Contains(strings.Join(d.lines(), "\n")+"\n", line+"\n") {
		require.True(t, time.Now().Before(limit), "waited too long for %q in %v", line, d.lines())
		time.Sleep(5 * time.Millisecond)
	}
}

// leadProcess is the tool as a separate process.
type leadProcess struct {
	cmd    *exec.Cmd
	stdout io.Reader // of the tool and its command
	log    *clitest.Output
	end    func() int
}

// follows waits until the process takes part in the election and another one
// leads.
func (p *leadProcess) follows(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(p.log.String(), "the store records: term=1 leader=") },
		20*time.Second, 5*time.Millisecond)
}

// startLead starts `conclave lead ... -- sh -c script`.
func startLead(t *testing.T, dsn, script string, flags ...string) *leadProcess {
	t.Helper()
	args := append([]string{"lead", "--dsn", dsn}, flags...)
	p := &leadProcess{cmd: exec.Command(os.Args[0], append(args, "--", "/bin/sh", "-c", script)...)}
	p.cmd.Env = append(os.Environ(), asTool+"=1")
	p.log = &clitest.Output{}
	log, err := p.cmd.StderrPipe()
	require.NoError(t, err)
	// Not StdoutPipe, because the command has the other end of the pipe as
	// well.
	out, in, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { out.Close() })
	p.cmd.Stdout, p.stdout = in, out
	require.NoError(t, p.cmd.Start())
	in.Close()
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		for scan := bufio.NewScanner(log); scan.Scan(); {
			t.Logf("%d: %s", p.cmd.Process.Pid, scan.Text())
			fmt.Fprintln(p.log, scan.Text())
		}
	}()
	p.end = sync.OnceValue(func() int {
		<-logged
		_ = p.cmd.Wait() // the process state has the result
		return p.cmd.ProcessState.ExitCode()
	})
	t.Cleanup(func() { p.cmd.Process.Kill(); p.end() }) // a command that is still there must have no children
	return p
}

// worked returns a script that writes start and stop to the diary and runs
// until SIGTERM. It is ready for that before it writes start.
func worked(d diary) string {
	return fmt.Sprintf(`trap 'echo stop $CONCLAVE_TERM >> %[1]s; exit 0' TERM
echo start $CONCLAVE_TERM >> %[1]s
while :; do sleep 0.02; done`, d)
}

func TestLeadOnce_ExitsWithTheCommandsCode(t *testing.T) {
	dsn := mysqltest.NewEmbedded(t).DSN
	file := filepath.Join(t.TempDir(), "dsn")
	require.NoError(t, os.WriteFile(file, []byte(dsn+"\n"), 0o600))
	show := "echo $CONCLAVE_TERM $CONCLAVE_DATA_CENTER $CONCLAVE_LOCK $CONCLAVE_OWNER; exit 7"
	r := tool(t, "lead", "--dsn-file", file, "--lock", "nightly", "--once", "--", "sh", "-c", show)
	assert.Equal(t, 7, r.code, r.stderr)
	assert.Regexp(t, `^1 DefaultDataCenter nightly [A-Za-z0-9-]+@[0-9a-f]{16}\n$`, r.stdout)

	r = tool(t, "lead", "--dsn", dsn, "--lock", "nightly", "--once", "--", "sh", "-c", "echo $CONCLAVE_TERM")
	assert.Equal(t, exitDone, r.code, r.stderr)
	assert.Equal(t, "2\n", r.stdout, "handed over: the next one need not wait")

	r = tool(t, "lead", "--dsn", dsn, "--once", "--", "sh", "-c", "kill -INT $$")
	assert.Equal(t, 128+2, r.code, "ended by a signal")
}

func TestLead_InvalidUsage(t *testing.T) {
	nowhere := "root:secret@tcp(127.0.0.1:1)/x"
	for want, c := range map[string]struct {
		args []string
		code int
	}{
		"lead takes CMD after two dashes":     {[]string{"lead", "--dsn", nowhere}, exitUsage},
		"conclave lead --dsn DSN -- CMD":      {[]string{"lead", "--dsn", nowhere, "sh", "x"}, exitUsage},
		"--dsn or --dsn-file is required":     {[]string{"lead", "--", "sh"}, exitUsage},
		"exclude each other":                  {[]string{"lead", "--dsn", nowhere, "--dsn-file", "x", "--", "sh"}, exitUsage},
		"/nowhere/dsn":                        {[]string{"lead", "--dsn-file", "/nowhere/dsn", "--", "sh"}, exitUsage},
		"bad DSN":                             {[]string{"lead", "--dsn", "mysql://root:secret@db/x", "--", "sh"}, exitUsage},
		"no-such-program":                     {[]string{"lead", "--dsn", nowhere, "--", "no-such-program"}, exitUsage},
		"--lease 10ms: want at least 100ms":   {[]string{"lead", "--dsn", nowhere, "--lease", "10ms", "--", "sh"}, exitUsage},
		"printable ASCII":                     {[]string{"lead", "--dsn", nowhere, "--lock", "schloß", "--", "sh"}, exitUsage},
		"not available within --db-wait 50ms": {[]string{"lead", "--dsn", nowhere, "--db-wait", "50ms", "--", "sh"}, exitTimedOut},
	} {
		r := tool(t, c.args...)
		assert.Equal(t, c.code, r.code, "%v: %s", c.args, r.stderr)
		assert.Contains(t, r.stderr, want)
		assert.NotContains(t, r.stderr, "secret")
	}
	assert.Equal(t, []string{"lead", "--", "kill", "-9", "1"}, signalFlags([]string{"lead", "--", "kill", "-9", "1"}), "CMD's words are its own")
}

// Of two nodes, the leader is stopped. Its command ends before the other's
// begins, and the other does not wait for the lease.
func TestLead_HandsOverWhenStopped(t *testing.T) {
	dsn, d := mysqltest.NewEmbedded(t).DSN, newDiary(t)
	first := startLead(t, dsn, worked(d))
	d.until(t, "start_1")
	second, third := startLead(t, dsn, worked(d)), startLead(t, dsn, worked(d), "--once")
	second.follows(t)
	third.follows(t)
	assert.Equal(t, []string{"start_1"}, d.lines())
	require.NoError(t, third.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, exitFailed, third.end(), "its command was never run")
	require.NoError(t, first.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, exitDone, first.end())
	d.until(t, "start_2")
	require.NoError(t, second.cmd.Process.Signal(syscall.SIGINT))
	assert.Equal(t, exitDone, second.end())
	assert.Equal(t, []string{"start_1", "stop_1", "start_2", "stop_2"}, d.lines())
}

// Without --once a node takes part in the election again when its command has
// ended.
func TestLead_TakesPartAgain(t *testing.T) {
	dsn, d := mysqltest.NewEmbedded(t).DSN, newDiary(t)
	p := startLead(t, dsn, fmt.Sprintf("echo term $CONCLAVE_TERM >> %s; exit 3", d), "--lease", "1s")
	require.Eventually(t, func() bool { return len(d.lines()) >= 3 }, time.Minute, 5*time.Millisecond)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, exitDone, p.end())
	last := 0
	for _, line := range d.lines() { // a win that comes too late on a busy machine is not led: its term has no line
		var term int
		_, err := fmt.Sscanf(line, "term_%d", &term)
		require.NoError(t, err, line)
		assert.Greater(t, term, last)
		last = term
	}
}

// The second signal kills a command that ignores SIGTERM, with its child
// processes.
func TestLead_SecondSignalKills(t *testing.T) {
	dsn, d := mysqltest.NewEmbedded(t).DSN, newDiary(t)
	p := startLead(t, dsn, fmt.Sprintf(`trap 'echo deaf >> %[1]s' TERM; sleep 1000 & echo start >> %[1]s; while :; do sleep 0.02; done`, d), "--once")
	d.until(t, "start")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	d.until(t, "deaf")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 128+9, p.end(), "the command's own end")
	_, err := io.ReadAll(p.stdout) // ends when no process holds the pipe
	assert.NoError(t, err)
}

// cutter is a proxy between a tool and the database that can be cut.
type cutter struct {
	listener net.Listener
	mu       sync.Mutex // guards conns and cut
	conns    []net.Conn
	isCut    bool
	group    sync.WaitGroup
}

func newCutter(t *testing.T, dsn string) (c *cutter, through string) {
	t.Helper()
	config, err := mysql.ParseDSN(dsn)
	require.NoError(t, err)
	behind := config.Addr
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	config.Addr = listener.Addr().String()
	c = &cutter{listener: listener}
	c.group.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", behind)
			if err != nil {
				near.Close()
				continue
			}
			c.mu.Lock()
			c.conns = append(c.conns, near, far)
			if c.isCut {
				near.Close()
				far.Close()
			}
			c.mu.Unlock()
			c.group.Go(func() { _, _ = io.Copy(near, far); near.Close() })
			c.group.Go(func() { _, _ = io.Copy(far, near); far.Close() })
		}
	})
	t.Cleanup(func() { c.cut(); c.group.Wait() })
	return c, config.FormatDSN()
}

func (c *cutter) cut() {
	c.listener.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = true
	for _, conn := range c.conns {
		conn.Close()
	}
}

// A leader is cut off from the database. Its command ignores SIGTERM and is
// killed before the other node's begins.
func TestLead_KillsBeforeTrustEnds(t *testing.T) {
	dsn, d := mysqltest.NewEmbedded(t).DSN, newDiary(t)
	cut, through := newCutter(t, dsn)
	alive := filepath.Join(t.TempDir(), "alive")
	first := startLead(t, through, fmt.Sprintf(`trap 'echo asked >> %[1]s' TERM; echo start >> %[1]s; while :; do date +%%s%%N >> %[2]s; sleep 0.01; done`, d, alive), "--lease", "3s")
	d.until(t, "start")
	second := startLead(t, dsn, fmt.Sprintf(`date +%%s%%N > %[1]s.next; echo next $CONCLAVE_TERM >> %[1]s; exec sleep 1000`, d), "--lease", "3s")
	second.follows(t)
	began := time.Now()
	cut.cut()
	d.until(t, "next_2")
	assert.Less(t, time.Since(began), 9*time.Second, "after one lease, not three")
	assert.Equal(t, []string{"start", "asked", "next_2"}, d.lines())

	nanos := func(file string) int64 {
		body, err := os.ReadFile(file)
		require.NoError(t, err)
		lines := strings.Fields(string(body))
		n, err := strconv.ParseInt(lines[len(lines)-1], 10, 64)
		require.NoError(t, err)
		return n
	}
	gap := time.Duration(nanos(string(d)+".next") - nanos(alive))
	t.Logf("from the old command's last sign of life to the new one's first: %v", gap)
	assert.Positive(t, gap)
	require.NoError(t, first.cmd.Process.Signal(syscall.SIGTERM)) // it stands, without a database
	assert.Equal(t, exitDone, first.end())
}

// kill -9 of the tool kills its command as well.
func TestLead_KilledToolKillsTheCommand(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills a command with its parent")
	}
	dsn, d := mysqltest.NewEmbedded(t).DSN, newDiary(t)
	p := startLead(t, dsn, fmt.Sprintf("echo start >> %s; exec sleep 1000", d))
	d.until(t, "start")
	require.NoError(t, p.cmd.Process.Kill())
	gone := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(p.stdout) // ends when no process holds the pipe
		gone <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	select {
	case err := <-gone:
		assert.NoError(t, err)
	case <-ctx.Done():
		assert.Fail(t, "the command lives on")
	}
}
