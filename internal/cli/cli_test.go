package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"conclave"
	"conclave/internal/cli"
	"conclave/internal/node"
)

// stubborn, in the environment, turns this test binary into a process that
// receives a SIGTERM and then never stops.
const stubborn = "CONCLAVE_CLI_TEST_STUBBORN"

func TestMain(m *testing.M) {
	if os.Getenv(stubborn) != "" {
		s := newServer()
		s.neverStops = true
		p := &process{server: s}
		os.Exit(cli.Main(p.spec(), []string{"--name", "m"}))
	}
	goleak.VerifyTestMain(m)
}

func TestMain_ExitsAtOnceOnASecondSignal(t *testing.T) {
	self := exec.CommandContext(t.Context(), os.Args[0])
	self.Env = append(os.Environ(), stubborn+"=1")
	out, err := self.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, self.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	assert.Equal(t, "m (meta) answers at 127.0.0.1:1", lines.Text())
	require.NoError(t, self.Process.Signal(syscall.SIGTERM))
	require.True(t, lines.Scan())
	assert.Equal(t, "stopping", lines.Text())
	require.NoError(t, self.Process.Signal(syscall.SIGTERM))
	var exit *exec.ExitError
	require.ErrorAs(t, self.Wait(), &exit)
	assert.Equal(t, cli.CodeFailed, exit.ExitCode())
}

// server runs until it is shut down.
type server struct {
	started, stop chan struct{}
	runErr        error
	neverStops    bool // Shutdown prints a line and waits for its context
}

func newServer() *server { return &server{started: make(chan struct{}), stop: make(chan struct{})} }

func (s *server) Run(context.Context) error {
	close(s.started)
	if s.runErr != nil {
		return s.runErr
	}
	<-s.stop
	return nil
}
func (s *server) Shutdown(ctx context.Context) error {
	if s.neverStops {
		fmt.Println("stopping")
		<-ctx.Done()
		return ctx.Err()
	}
	close(s.stop)
	return nil
}
func (s *server) Started() <-chan struct{} { return s.started }
func (s *server) Address() string          { return "127.0.0.1:1" }

// process is a meta with a few flags; got is what New received.
type process struct {
	lease time.Duration
	metas []string
	dsn   string
	got   node.Config
	err   error
	*server
}

func (p *process) spec() cli.Process {
	p.got.Listen = "127.0.0.1:0"
	return cli.Process{
		Role: conclave.RoleMeta, Config: &p.got, Secrets: []string{"dsn"},
		Flags: func(fs *pflag.FlagSet) {
			fs.DurationVar(&p.lease, "lease", 3*time.Second, "lease")
			fs.StringSliceVar(&p.metas, "meta", nil, "metas")
			fs.StringVar(&p.dsn, "dsn", "", "database")
		},
		New: func(context.Context) (cli.Server, error) {
			if err := p.got.WithDefaults().Validate(conclave.RoleMeta); err != nil {
				return nil, err
			}
			if p.server == nil {
				return nil, p.err
			}
			return p.server, nil
		},
	}
}

// errStop is the error of New after all settings have been accepted.
var errStop = errors.New("far enough")

// resolve runs a process until New, which fails with errStop.
func resolve(t *testing.T, environ []string, args ...string) (*process, error) {
	t.Helper()
	p := &process{err: errStop}
	var out bytes.Buffer
	return p, cli.Execute(t.Context(), p.spec(), args, environ, &out, &out)
}

func TestExecute_FlagOverridesEnvironmentOverridesFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "meta.yaml")
	require.NoError(t, os.WriteFile(file, []byte("name: from-file\nlease: 9s\nmeta: [a:1, b:2]\ndsn: file\n"), 0o600))
	p, err := resolve(t, []string{"CONCLAVE_META_LEASE=5s", "CONCLAVE_META_DSN=env", "PATH=/bin", "CONCLAVE_DATA_X=1"}, "--config", file, "--dsn", "flag")
	require.ErrorIs(t, err, errStop)
	assert.Equal(t, "from-file", p.got.Node.Name)
	assert.NotEmpty(t, p.got.Node.Incarnation)
	assert.Equal(t, 5*time.Second, p.lease)
	assert.Equal(t, []string{"a:1", "b:2"}, p.metas)
	assert.Equal(t, "flag", p.dsn)

	p, err = resolve(t, []string{"CONCLAVE_META_CONFIG=" + file, "CONCLAVE_META_META=c:3,d:4"})
	require.ErrorIs(t, err, errStop)
	assert.Equal(t, []string{"c:3", "d:4"}, p.metas)
}

func TestExecute_ReportsWrongSettingsWithCodeUsage(t *testing.T) {
	dir := t.TempDir()
	write := func(name, body string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(body), 0o600))
		return file
	}
	for name, c := range map[string]struct {
		environ, args []string
		want          string
	}{
		"unknown flag":        {args: []string{"--nope"}, want: "--nope"},
		"argument":            {args: []string{"--name", "m", "start"}, want: "start"},
		"no name":             {want: "--name is needed"},
		"bad name":            {args: []string{"--name", "-"}, want: `node name "-"`},
		"unknown environment": {environ: []string{"CONCLAVE_META_LEESE=1s"}, want: "unknown key CONCLAVE_META_LEESE"},
		"not a setting":       {environ: []string{"CONCLAVE_META_VERSION=true"}, want: "unknown key CONCLAVE_META_VERSION"},
		"nested file key":     {args: []string{"--config", write("n.yaml", "name: {a: b}\n")}, want: "name: nested settings are given, want one value"},
		"unknown file key":    {args: []string{"--config", write("a.yaml", "leese: 1s\n")}, want: "unknown key leese"},
		"bad file value":      {args: []string{"--config", write("b.yaml", "lease: soon\n")}, want: "lease: "},
		"list for one":        {args: []string{"--config", write("c.yaml", "lease: [1s]\n")}, want: "a list"},
		"no yaml":             {args: []string{"--config", write("d.yaml", "{")}, want: "d.yaml"},
		"no file":             {args: []string{"--config", filepath.Join(dir, "none")}, want: "none"},
		"bad duration":        {args: []string{"--name", "m", "--lease", "3"}, want: "lease"},
		"open without token":  {args: []string{"--name", "m", "--listen", "0.0.0.0:9615"}, want: "without a token"},
		"open, no --advertise": {
			args: []string{"--name", "m", "--listen", "0.0.0.0:9615", "--insecure"}, want: "--advertise",
		},
		"empty token":  {args: []string{"--name", "m", "--token-file", write("t", "\n")}, want: "empty"},
		"bad token":    {args: []string{"--name", "m", "--token-file", write("u", "# rights\nroot amy t\n")}, want: "u: line 2: unknown right"},
		"log level":    {args: []string{"--name", "m", "--log-level", "loud"}, want: "loud"},
		"error of New": {args: []string{"--name", "m"}, want: "far enough"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := resolve(t, c.environ, c.args...)
			require.ErrorContains(t, err, c.want)
			assert.Equal(t, cli.CodeUsage, cli.Code(err))
		})
	}
}

func TestExecute_PrintConfigHidesSecrets(t *testing.T) {
	p := &process{}
	var out bytes.Buffer
	err := cli.Execute(t.Context(), p.spec(), []string{"--print-config", "--name", "m", "--dsn", "root:pw@tcp(db)/x", "--meta", "a:1"}, nil, &out, &out)
	require.NoError(t, err)
	assert.Contains(t, out.String(), "dsn: (hidden)")
	assert.NotContains(t, out.String(), "pw")
	assert.Contains(t, out.String(), "lease: 3s")
	assert.Contains(t, out.String(), "name: m\n")
	assert.Contains(t, out.String(), "- a:1")
	assert.NotContains(t, out.String(), "version")
}

func TestExecute_PrintsVersion(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, cli.Execute(t.Context(), (&process{}).spec(), []string{"--version"}, nil, &out, &out))
	assert.Equal(t, "meta version "+cli.Version()+"\n", out.String())
}

func TestExecute_StopsGracefullyWhenContextEnds(t *testing.T) {
	p := &process{server: newServer()}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	var out, log bytes.Buffer
	go func() { done <- cli.Execute(ctx, p.spec(), []string{"--name", "m"}, nil, &out, &log) }()
	<-p.started
	cancel()
	require.NoError(t, <-done)
}

func TestExitCodes(t *testing.T) {
	p := &process{server: newServer()}
	p.runErr = errStop
	var out bytes.Buffer
	err := cli.Execute(t.Context(), p.spec(), []string{"--name", "m"}, nil, &out, &out)
	assert.Equal(t, cli.CodeFailed, cli.Code(err))
	assert.Equal(t, cli.CodeDone, cli.Code(nil))

	p = &process{err: cli.TimedOut(errStop)}
	err = cli.Execute(t.Context(), p.spec(), []string{"--name", "m"}, nil, &out, &out)
	assert.Equal(t, cli.CodeTimedOut, cli.Code(err))
	p = &process{err: cli.Failed(errStop)}
	err = cli.Execute(t.Context(), p.spec(), []string{"--name", "m"}, nil, &out, &out)
	assert.Equal(t, cli.CodeFailed, cli.Code(err))
}

// Editors of Windows begin a file with a byte order mark.
func TestDSNFile_ByteOrderMarkIsNotOfTheUser(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dsn")
	require.NoError(t, os.WriteFile(file, []byte("\ufeffc:p@tcp(db:3306)/c\r\n"), 0o600))
	dsn, err := cli.DSNFile("dsn-file", file)
	require.NoError(t, err)
	assert.Equal(t, "c:p@tcp(db:3306)/c", dsn)
}
