package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/local/supervisor"
)

// invalidUp maps invalid flags of `up` to the expected error.
var invalidUp = map[string]string{
	"--db garbage":                      "--db: bad DSN: missing the slash separating the database name; want user:password@tcp(host:port)/database, or embedded",
	"--db mysql://u:secret@h/d":         "--db: bad DSN: it looks like a URL",
	"--db=":                             "db is empty",
	"--meta-nodes 0":                    "meta-nodes is 0: want at least 1",
	"--session-nodes 0":                 "--session-nodes 0: want at least 1",
	"--session-nodes -1":                "--session-nodes is -1: want 0 or more",
	"--restart -1s":                     "--restart is -1s: want 0 or more",
	"--replicas 17":                     "--replicas 17: want 1 to 16",
	"--replicas 0":                      "--replicas 0: want 1 to 16",
	"--slots 0":                         "--slots 0: want a power of two",
	"--lease 0s":                        "--lease 0s: want at least 100ms",
	"--lease -1s":                       "--lease is -1s: want 0 or more",
	"--lease 99ms":                      "--lease 99ms: want at least 100ms",
	"--lease 10s":                       "--node-lease 3s is too short for --lease 10s: want at least 10s",
	"--node-lease 0s":                   "--node-lease 0s: want more than 250ms",
	"--lease 200ms --node-lease 250ms":  "--node-lease 250ms: want more than 250ms",
	"--node-lease 2s":                   "--node-lease 2s is too short for --lease 3s",
	"--profile sofa --lease 2s":         "--lease 2s: want at least 3s with --profile sofa",
	"--profile sofa --node-lease 2s":    "--node-lease 2s is too short for --lease 20s: want at least 3s",
	"--profile sofa --takeover witness": "exclude each other",
	"--profile nacos":                   "profile",
	"--takeover coup":                   "takeover",
	"--slots 100":                       "slots is 100: want a power of two",
}

// unusualUp are valid flags. More copies than data nodes are valid because more
// nodes may join.
var unusualUp = []string{
	"--replicas 16", "--replicas 1", "--slots 1", "--lease 10s --node-lease 10s", "--lease 100ms", "--lease 400ms --node-lease 401ms",
	"--profile sofa --lease 3s --node-lease 3s", "--profile sofa --takeover lease", "--node-lease 1h",
}

func TestUp_RefusesInvalidFlagsBeforeItStartsAnything(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	t.Setenv(binEnv, t.TempDir()) // without programs, valid flags end with that error
	for args, want := range invalidUp {
		for _, how := range [][]string{nil, {"--detach"}} {
			r := tool(t, append(append([]string{"--dir", dir, "up"}, strings.Fields(args)...), how...)...)
			assert.Equal(t, exitUsage, r.code, "%s: %s", args, r.stderr)
			assert.Contains(t, r.stderr, want, args)
			assert.Contains(t, r.stderr, "(see `conclave help up`)", args)
			assert.NotContains(t, r.stderr, "secret", args)
			assert.NoDirExists(t, dir, args)
		}
	}
	for _, args := range unusualUp {
		r := tool(t, append([]string{"--dir", dir, "up"}, strings.Fields(args)...)...)
		assert.Equal(t, exitFailed, r.code, "%s: %s", args, r.stderr)
		assert.Contains(t, r.stderr, `program "meta" is not in`, args)
	}
}

// A database that is not there is named with the reason, without the password, and
// nothing is started.
func TestUp_NamesTheDatabaseThatIsNotThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	for _, how := range [][]string{nil, {"--detach"}, {"--console"}} {
		r := tool(t, append([]string{"--dir", dir, "up", "--db", "u:s3cret@tcp(127.0.0.1:1)/d", "--db-wait", "1ms"}, how...)...)
		assert.Equal(t, exitTimedOut, r.code, r.stderr)
		assert.Contains(t, r.stderr, "database tcp(127.0.0.1:1)/d not available within --db-wait 1ms", how)
		assert.Contains(t, r.stderr, "connection refused", how)
		assert.NotContains(t, r.stderr, "s3cret", how)
		assert.NoDirExists(t, dir, how)
	}
}

// A folder with a cluster that used TLS has one that does, until it is removed.
func TestUp_KeepsTLS(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(binEnv, t.TempDir())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cluster.json"), []byte(`{"stopped":true,"config":{"dir":"/x","tls":true}}`), 0o600))
	for args, want := range map[string]string{
		"":            "uses TLS, as when it was made",
		"--tls":       `program "meta" is not in`,
		"--tls=false": "--tls=false: the cluster in " + dir + " uses TLS",
	} {
		r := tool(t, append([]string{"--dir", dir, "up"}, strings.Fields(args)...)...)
		assert.Contains(t, r.stderr, want, args)
	}
	cfg := supervisor.Config{Dir: dir}
	a := &app{dir: dir, stderr: io.Discard}
	require.NoError(t, a.keepTLS(pflag.NewFlagSet("up", pflag.ContinueOnError), &cfg))
	assert.True(t, cfg.TLS)
}

func TestMigrate_NamesTheFlagOfABadDSN(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	good, empty, bad := file("good", "u:s3cret@tcp(127.0.0.1:1)/d\n"), file("empty", "\n"), file("bad", "u:s3cret@tcp(127.0.0.1:1)\n")
	for _, c := range [][]string{
		{"--dsn-file: open ", "--dsn-file", filepath.Join(dir, "none")},
		{"--dsn-file: bad DSN: ", "--dsn-file", bad},
		{"--dsn: bad DSN: ", "--dsn", "u:s3cret@tcp(h)"},
		{"--metas-dsn-file: open ", "--dsn-file", good, "--metas-dsn-file", filepath.Join(dir, "none")},
		{"--metas-dsn-file: the first line of ", "--dsn-file", good, "--metas-dsn-file", empty},
		{"--metas-dsn-file: bad DSN: ", "--dsn-file", good, "--metas-dsn-file", bad},
	} {
		r := tool(t, append([]string{"migrate"}, c[1:]...)...)
		assert.Equal(t, exitUsage, r.code, r.stderr)
		assert.Contains(t, r.stderr, c[0])
		assert.NotContains(t, r.stderr, "s3cret")
	}
}

// The tool does not check settings of metas from the environment.
func TestUp_LeavesSettingsFromTheEnvironmentToTheMetas(t *testing.T) {
	t.Setenv(binEnv, t.TempDir())
	dir := filepath.Join(t.TempDir(), "c")
	t.Setenv("CONCLAVE_META_NODE_LEASE", "30s")
	for args, want := range map[string]string{
		"--lease 10s": `program "meta" is not in`,
		"--lease 0s":  "--lease 0s: want at least 100ms",
	} {
		r := tool(t, append([]string{"--dir", dir, "up"}, strings.Fields(args)...)...)
		assert.Contains(t, r.stderr, want, args)
	}
}

// A meta accepts and refuses the same flags as the tool.
func TestUp_ChecksFlagsAsAMetaDoes(t *testing.T) {
	if testing.Short() {
		t.Log("short: without real processes")
		return
	}
	realPrograms(t)
	refuses := func(args string) bool {
		meta := exec.Command(filepath.Join(buildDir, "meta"), append([]string{
			"--name", "meta-1", "--listen", "127.0.0.1:0", "--dsn", "root@tcp(127.0.0.1:1)/nowhere", "--db-wait", "1ms",
		}, strings.Fields(args)...)...)
		meta.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CONCLAVE_META_") })
		said, err := meta.CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, args)
		if exit.ExitCode() != exitUsage {
			require.Equal(t, exitTimedOut, exit.ExitCode(), "%s: %s", args, said)
		}
		return exit.ExitCode() == exitUsage
	}
	for args := range invalidUp {
		switch flag, _, _ := strings.Cut(args, " "); flag {
		case "--lease", "--node-lease", "--replicas", "--profile", "--takeover", "--slots":
			if !strings.HasSuffix(args, " 0") && !strings.HasSuffix(args, " 0s") { // which mean the default there
				assert.True(t, refuses(args), args)
			}
		}
	}
	for _, args := range unusualUp {
		assert.False(t, refuses(args), args)
	}
}

func TestUsageError_HintNamesTheCommand(t *testing.T) {
	for args, hint := range map[string]string{
		"up --sloots 3":           "conclave help up",
		"chaos run --frob":        "conclave help chaos run",
		"chaos run f01 --times 0": "conclave help chaos run",
		"chaos":                   "conclave help chaos",
		"blacklist add":           "conclave help blacklist add",
		"frob":                    "conclave help",
		"--frob":                  "conclave help",
		"leader --wait soon":      "conclave help leader",
		"lab elections --rules x": "conclave help lab elections",
	} {
		r := tool(t, strings.Fields(args)...)
		assert.Equal(t, exitUsage, r.code, args)
		assert.Contains(t, r.stderr, "(see `"+hint+"`)", args)
		help := tool(t, strings.Fields(strings.TrimPrefix(hint, "conclave "))...)
		assert.Equal(t, exitDone, help.code, hint)
		assert.Contains(t, help.stdout, "conclave "+strings.TrimSpace(strings.TrimPrefix(hint, "conclave help")), hint)
	}
}

func TestHelp_HidesCommandsForContainers(t *testing.T) {
	root := (&app{}).root()
	shown := tool(t, "help").stdout
	for _, name := range []string{"up", "demo", "chaos", "bench", "lab", "lead"} {
		assert.Regexp(t, `(?m)^  `+name+` +\S`, shown)
	}
	for _, name := range []string{"supervise", "health", "secrets"} {
		assert.NotRegexp(t, `(?m)^  `+name+` `, shown)
		cmd, _, err := root.Find([]string{name})
		require.NoError(t, err)
		assert.True(t, cmd.Hidden, name)
	}
}

// Two commands in containers can run at the same time without removing each
// other's project.
func TestComposeProjects_Differ(t *testing.T) {
	root := (&app{}).root()
	flag := func(name string, path ...string) *pflag.Flag {
		var cmd *cobra.Command
		cmd, _, err := root.Find(path)
		require.NoError(t, err)
		return cmd.Flags().Lookup(name)
	}
	assert.Equal(t, "conclave-demo", flag("project", "demo").DefValue)
	assert.Equal(t, "conclave-chaos", flag("project", "chaos", "run").DefValue)
	assert.Contains(t, flag("logs", "demo").Usage, "demo")
	assert.NotContains(t, flag("logs", "chaos", "run").Usage, "demo")
}

// Without the programs nothing is started and no folder is left.
func TestMissingPrograms_LeaveNoFolder(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv(binEnv, t.TempDir())
	for _, args := range [][]string{{"demo"}, {"bench"}} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var stdout, stderr bytes.Buffer
		assert.Equal(t, exitFailed, run(ctx, args, &stdout, &stderr), args)
		cancel()
		assert.Contains(t, stderr.String(), `program "meta" is not in`, args)
		assert.Contains(t, stderr.String(), "build them with `make build`", args)
		assert.NotContains(t, stderr.String(), temp, args)
		left, err := os.ReadDir(temp)
		require.NoError(t, err)
		assert.Empty(t, left, args)
	}
}
