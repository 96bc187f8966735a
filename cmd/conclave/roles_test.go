package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/cli/clitest"
)

// The roles have the flags and exit codes of the programs, and none of the tool's own flags.
func TestRoles_AreThePrograms(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"meta"}, exitUsage, "meta: --name is needed"},
		{[]string{"data", "--name", "data-1"}, exitUsage, "no meta"},
		{[]string{"session", "--nonsense"}, exitUsage, "session: unknown flag: --nonsense"},
		{[]string{"meta", "--name", "m", "--dsn", "root@tcp(127.0.0.1:1)/x", "--db-wait", "1ms"}, exitTimedOut, "--db-wait 1ms"},
		{[]string{"devdb", "--listen", "here"}, exitUsage, `--listen "here"`},
		{[]string{"db", "--listen", "127.0.0.1:0", "--file", "/nowhere/db.sql"}, exitFailed, "/nowhere/db.sql"},
		{[]string{"data", "--help"}, exitDone, "--repair-all"},
		{[]string{"--dir", "x", "data"}, exitUsage, "data: unknown flag: --dir"},
		{[]string{"help", "session"}, exitDone, "--client-lease"},
	} {
		cmd := exec.Command(os.Args[0], c.args...)
		cmd.Env = append(os.Environ(), asTool+"=1")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); c.code != exitDone {
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, c.args)
			assert.Equal(t, c.code, exit.ExitCode(), c.args)
		} else {
			assert.NoError(t, err, c.args)
		}
		assert.Contains(t, out.String(), c.want, c.args)
	}
}

// SIGHUP makes a role read its token file again, as it does the program; SIGTERM stops it.
func TestRoles_SignalsAreThePrograms(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte("first\n"), 0o600))
	var out clitest.Output
	cmd := exec.Command(os.Args[0], "data", "--name", "data-1", "--meta", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--token-file", file)
	cmd.Env = append(os.Environ(), asTool+"=1")
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended
	says := func(text string) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Contains(out.String(), text) }, time.Minute, 5*time.Millisecond, &out)
	}
	says("answers at")
	require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
	says("the token file was read again")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	assert.NoError(t, cmd.Wait(), &out)
}
