package main

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

func TestDB_IsTheEmbeddedServer(t *testing.T) {
	r := tool(t, "db", "--listen", "here")
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.stderr, `--listen "here"`)
	r = tool(t, "db", "--listen", "127.0.0.1:0", "--file", "/nowhere/db.sql")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, "/nowhere/db.sql")
}
