package devdbcmd

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("DEVDB_TEST_MAIN") != "" { // run as the program
		os.Exit(Main(os.Args[1:]))
	}
	mysql.SetLogger(&mysql.NopLogger{}) // these tests break connections
	goleak.VerifyTestMain(m)
}

// dsnOf waits for the line that reports that the server is ready and returns
// its DSN.
func dsnOf(t *testing.T, out io.Reader) string {
	t.Helper()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	dsn, ok := strings.CutPrefix(strings.TrimSpace(line), "devdb ready ")
	require.True(t, ok, line)
	return dsn
}

func TestRun_ServesUntilContextEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"--listen", "127.0.0.1:0", "--database", "shop"}, nil, in, io.Discard)
	}()
	db, err := sql.Open("mysql", dsnOf(t, out))
	require.NoError(t, err)
	defer db.Close()
	var name string
	require.NoError(t, db.QueryRow("SELECT DATABASE()").Scan(&name))
	assert.Equal(t, "shop", name)
	stop()
	assert.NoError(t, <-ended)
	assert.Error(t, db.Ping())
}

// The parent holds a pipe, which the kernel closes when the parent dies.
func TestWithParent_EndsWithStandardInput(t *testing.T) {
	cmd := exec.Command(os.Args[0], "--listen", "127.0.0.1:0", "--with-parent")
	cmd.Env = append(os.Environ(), "DEVDB_TEST_MAIN=1")
	parent, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	db, err := sql.Open("mysql", dsnOf(t, out))
	require.NoError(t, err)
	defer db.Close()
	assert.NoError(t, db.Ping(), "it serves while its input is open")
	require.NoError(t, parent.Close())
	assert.NoError(t, cmd.Wait(), "exit code 0")
}

func TestRun_ErrorNamesTheInvalidValue(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	for _, c := range []struct {
		args  []string
		want  string
		usage bool
	}{
		{[]string{"--listen", "0.0.0.0:0"}, "--insecure", true},
		{[]string{"--listen", ":3306"}, "--insecure", true},
		{[]string{"--listen", "here"}, `"here"`, true},
		{[]string{"--log-level", "loud"}, `"loud"`, true},
		{[]string{"--nonsense"}, "-nonsense", true},
		{[]string{"extra"}, `"extra"`, true},
		{[]string{"--listen", taken.Addr().String()}, "in use", false},
		{[]string{"--listen", "127.0.0.1:0", "--file", "/nowhere/db.sql"}, "/nowhere/db.sql", false},
	} {
		var stderr bytes.Buffer
		err := run(t.Context(), c.args, nil, io.Discard, &stderr)
		require.Error(t, err, c.args)
		assert.Equal(t, c.usage, errors.Is(err, errUsage), c.args)
		assert.Contains(t, stderr.String()+err.Error(), c.want)
	}
}

func TestPassword_IsRequiredAndNotPrinted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("secret\n"), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"--listen", "127.0.0.1:0", "--password-file", file}, nil, out, io.Discard)
	}()
	line, err := bufio.NewReader(in).ReadString('\n')
	require.NoError(t, err)
	assert.NotContains(t, line, "secret")
	dsn := strings.TrimPrefix(strings.TrimSpace(line), "devdb ready ")
	for password, works := range map[string]bool{"secret": true, "wrong": false, "": false} {
		db, err := sql.Open("mysql", strings.Replace(dsn, ":PASSWORD@", ":"+password+"@", 1))
		require.NoError(t, err)
		err = db.Ping()
		assert.Equal(t, works, err == nil, "%q: %v", password, err)
		db.Close()
	}
	stop()
	require.NoError(t, <-done)
}

// start runs the program as a separate process.
func start(t *testing.T, file string) (*exec.Cmd, *sql.DB) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "--listen", "127.0.0.1:0", "--file", file)
	cmd.Env = append(os.Environ(), "DEVDB_TEST_MAIN=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	began := time.Now()
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	db, err := sql.Open("mysql", dsnOf(t, out))
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	require.NoError(t, db.Ping())
	t.Logf("first ping after %v", time.Since(began).Round(time.Millisecond))
	return cmd, db
}

func TestKill_AcknowledgedRowsSurvive(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db.sql")
	cmd, db := start(t, file)
	_, err := db.Exec("CREATE TABLE term (id int PRIMARY KEY, term int NOT NULL)")
	require.NoError(t, err)
	_, err = db.Exec("INSERT INTO term VALUES (1, 0)")
	require.NoError(t, err)

	acknowledged := 0
	for round := range 4 {
		time.AfterFunc(time.Duration(150+100*round)*time.Millisecond, func() { cmd.Process.Kill() })
		for {
			r, err := db.Exec("UPDATE term SET term = term + 1 WHERE id = 1 AND term = ?", acknowledged)
			if err != nil {
				break // killed meanwhile: the statement may have been executed without an answer
			}
			n, err := r.RowsAffected()
			require.NoError(t, err)
			require.EqualValues(t, 1, n)
			acknowledged++
		}
		cmd.Wait()
		db.Close()
		cmd, db = start(t, file)
		var term int
		require.NoError(t, db.QueryRow("SELECT term FROM term").Scan(&term))
		require.Contains(t, []int{acknowledged, acknowledged + 1}, term, "after kill -9")
		acknowledged = term
	}
	t.Logf("%d swaps over 4 kills", acknowledged)
	assert.Positive(t, acknowledged)
}

func TestSIGTERM_StopsGracefully(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db.sql")
	cmd, db := start(t, file)
	_, err := db.Exec("CREATE TABLE t (id int PRIMARY KEY)")
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), "exit code 0")
	db.Close()
	_, db = start(t, file)
	_, err = db.Exec("INSERT INTO t VALUES (1)")
	assert.NoError(t, err)
}
