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
)

// stubborn, in the environment, makes this test binary a process that takes a
// SIGTERM and then never stops.
const stubborn = "CONCLAVE_CLI_TEST_STUBBORN"

func TestMain(m *testing.M) {
	if os.Getenv(stubborn) != "" {
		s := newServer()
		s.deaf = true
		p := &process{server: s}
		os.Args = []string{os.Args[0], "--name", "m"}
		cli.Main(p.spec())
		return
	}
	goleak.VerifyTestMain(m)
}

func TestASecondSignalEndsTheProcessAtOnce(t *testing.T) {
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
	deaf          bool // says that it stops, and does not
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
	if s.deaf {
		fmt.Println("stopping")
		<-ctx.Done()
		return ctx.Err()
	}
	close(s.stop)
	return nil
}
func (s *server) Started() <-chan struct{} { return s.started }
func (s *server) Address() string          { return "127.0.0.1:1" }

// process is a meta with a few flags; got is what New was given.
type process struct {
	lease time.Duration
	metas []string
	dsn   string
	got   cli.Common
	err   error
	*server
}

func (p *process) spec() cli.Process {
	return cli.Process{
		Role: conclave.RoleMeta, Listen: "127.0.0.1:0", Secrets: []string{"dsn"},
		Flags: func(fs *pflag.FlagSet) {
			fs.DurationVar(&p.lease, "lease", 3*time.Second, "lease")
			fs.StringSliceVar(&p.metas, "meta", nil, "metas")
			fs.StringVar(&p.dsn, "dsn", "", "database")
		},
		New: func(_ context.Context, c cli.Common) (cli.Server, error) {
			p.got = c
			if p.server == nil {
				return nil, p.err
			}
			return p.server, nil
		},
	}
}

// start runs a process whose New fails with errStop, after the settings.
var errStop = errors.New("far enough")

func settled(t *testing.T, environ []string, args ...string) (*process, error) {
	t.Helper()
	p := &process{err: errStop}
	var out bytes.Buffer
	return p, cli.Execute(t.Context(), p.spec(), args, environ, &out, &out)
}

func TestTheNearerSettingWins(t *testing.T) {
	file := filepath.Join(t.TempDir(), "meta.yaml")
	require.NoError(t, os.WriteFile(file, []byte("name: from-file\nlease: 9s\nmeta: [a:1, b:2]\ndsn: file\n"), 0o600))
	p, err := settled(t, []string{"CONCLAVE_META_LEASE=5s", "CONCLAVE_META_DSN=env", "PATH=/bin", "CONCLAVE_DATA_X=1"}, "--config", file, "--dsn", "flag")
	require.ErrorIs(t, err, errStop)
	assert.Equal(t, "from-file", p.got.Node.Name)
	assert.NotEmpty(t, p.got.Node.Incarnation)
	assert.Equal(t, 5*time.Second, p.lease)
	assert.Equal(t, []string{"a:1", "b:2"}, p.metas)
	assert.Equal(t, "flag", p.dsn)

	p, err = settled(t, []string{"CONCLAVE_META_CONFIG=" + file, "CONCLAVE_META_META=c:3,d:4"})
	require.ErrorIs(t, err, errStop)
	assert.Equal(t, []string{"c:3", "d:4"}, p.metas)
}

func TestWrongSettingsAreNamedAndExitWithTwo(t *testing.T) {
	dir := t.TempDir()
	write := func(name, body string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(body), 0o600))
		return file
	}
	for name, c := range map[string]struct {
		environ, args []string
		says          string
	}{
		"unknown flag":        {args: []string{"--nope"}, says: "--nope"},
		"argument":            {args: []string{"--name", "m", "start"}, says: "start"},
		"no name":             {says: "--name is needed"},
		"bad name":            {args: []string{"--name", "-"}, says: `node name "-"`},
		"unknown environment": {environ: []string{"CONCLAVE_META_LEESE=1s"}, says: "unknown key CONCLAVE_META_LEESE"},
		"unknown file key":    {args: []string{"--config", write("a.yaml", "leese: 1s\n")}, says: "unknown key leese"},
		"bad file value":      {args: []string{"--config", write("b.yaml", "lease: soon\n")}, says: "lease: "},
		"list for one":        {args: []string{"--config", write("c.yaml", "lease: [1s]\n")}, says: "a list"},
		"no yaml":             {args: []string{"--config", write("d.yaml", "{")}, says: "d.yaml"},
		"no file":             {args: []string{"--config", filepath.Join(dir, "none")}, says: "none"},
		"bad duration":        {args: []string{"--name", "m", "--lease", "3"}, says: "lease"},
		"open without token":  {args: []string{"--name", "m", "--listen", "0.0.0.0:9615"}, says: "without a token"},
		"open, not told where": {
			args: []string{"--name", "m", "--listen", "0.0.0.0:9615", "--insecure"}, says: "--advertise",
		},
		"empty token": {args: []string{"--name", "m", "--token-file", write("t", "\n")}, says: "empty"},
		"log level":   {args: []string{"--name", "m", "--log-level", "loud"}, says: "loud"},
		"of New":      {args: []string{"--name", "m"}, says: "far enough"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := settled(t, c.environ, c.args...)
			require.ErrorContains(t, err, c.says)
			assert.Equal(t, cli.CodeUsage, cli.Code(err))
		})
	}
}

func TestPrintConfigHidesSecrets(t *testing.T) {
	p := &process{}
	var out bytes.Buffer
	err := cli.Execute(t.Context(), p.spec(), []string{"--print-config", "--name", "m", "--dsn", "root:pw@tcp(db)/x", "--meta", "a:1"}, nil, &out, &out)
	require.NoError(t, err)
	assert.Contains(t, out.String(), "dsn: (hidden)")
	assert.NotContains(t, out.String(), "pw")
	assert.Contains(t, out.String(), "lease: 3s")
	assert.Contains(t, out.String(), "name: m\n")
	assert.Contains(t, out.String(), "- a:1")
}

func TestTheEndOfTheContextIsAGracefulStop(t *testing.T) {
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
