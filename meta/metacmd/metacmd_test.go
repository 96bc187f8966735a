package metacmd

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"conclave/elector/termcas"
	_ "conclave/internal/bubble"
	"conclave/internal/cli"
	"conclave/internal/cli/clitest"
	"conclave/internal/devdb"
	"conclave/internal/signal"
	"conclave/meta"
	"conclave/slot"
	conclavesql "conclave/sql"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lines collects what a process prints.
type lines struct {
	clitest.Output
	news signal.Signal // something was printed
}

func newLines() *lines { return &lines{news: signal.New()} }

func (l *lines) Write(p []byte) (int, error) {
	defer l.news.Set()
	return l.Output.Write(p)
}

// until waits for a text to be printed, and returns what follows it on its line.
func (l *lines) until(t *testing.T, text string) string {
	t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	for {
		if _, after, found := strings.Cut(l.String(), text); found && strings.Contains(after, "\n") {
			line, _, _ := strings.Cut(after, "\n")
			return line
		}
		select {
		case <-l.news.C():
		case <-limit.C:
			require.FailNow(t, "never printed", "%q is not in:\n%s", text, l)
		}
	}
}

// serveDB starts an embedded server on a real socket and returns its DSN.
func serveDB(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, err := devdb.New(devdb.Config{Listener: ln})
	require.NoError(t, err)
	ctx, crash := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Run(ctx) })
	t.Cleanup(func() { crash(); running.Wait() })
	return fmt.Sprintf("root@tcp(%s)/conclave", ln.Addr())
}

func TestProcess_FromStartToStop(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dsn")
	require.NoError(t, os.WriteFile(file, []byte(serveDB(t)+"\n"), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	out, log := newLines(), newLines()
	done := make(chan error, 1)
	go func() {
		done <- cli.Execute(ctx, Process(), []string{"--name", "meta-1", "--listen", "127.0.0.1:0", "--dsn-file", file, "--migrate", "--slots", "16"}, nil, out, log)
	}()
	address := out.until(t, "meta-1 (meta) answers at ")
	log.until(t, "leader: warm:")

	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	get := func(path string, into any) int {
		res, err := client.Get("http://" + address + path)
		require.NoError(t, err)
		defer res.Body.Close()
		if into != nil {
			require.NoError(t, json.NewDecoder(res.Body).Decode(into))
		}
		return res.StatusCode
	}
	var leader struct {
		Leader, Address, Cause string
		Term                   uint64
	}
	assert.Equal(t, http.StatusOK, get("/v1/leader", &leader))
	assert.Equal(t, "meta-1", leader.Leader)
	assert.Equal(t, address, leader.Address)
	assert.Equal(t, "first", leader.Cause)
	assert.Equal(t, uint64(1), leader.Term)
	assert.Equal(t, http.StatusOK, get("/readyz", nil))
	assert.Equal(t, http.StatusOK, get("/leaderz", nil))
	assert.Equal(t, http.StatusOK, get("/metrics", nil))
	assert.Equal(t, http.StatusNotFound, get("/nope", nil))

	stop()
	require.NoError(t, <-done)
	assert.Contains(t, log.String(), "resigned")
}

// A meta creates no table unless it has --migrate.
func TestStart_NeedsAMigratedDatabase(t *testing.T) {
	out := newLines()
	err := cli.Execute(t.Context(), Process(), []string{"--name", "meta-1", "--listen", "127.0.0.1:0", "--dsn", serveDB(t)}, nil, out, out)
	require.ErrorContains(t, err, "conclave migrate")
	assert.ErrorIs(t, err, conclavesql.ErrSchemaOlder)
}

func TestUsage_WrongSettingsAreReported(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
		code int
	}{
		"no database":   {nil, "--dsn or --dsn-file is required", cli.CodeUsage},
		"two databases": {[]string{"--dsn", "a", "--dsn-file", "b"}, "exclude each other", cli.CodeUsage},
		"no such file":  {[]string{"--dsn-file", "/nowhere/dsn"}, "/nowhere/dsn", cli.CodeUsage},
		"bad DSN":       {[]string{"--dsn", "mysql://root:secret@db/x"}, "bad DSN", cli.CodeUsage},
		"beat and lease": {[]string{"--dsn", "root@tcp(127.0.0.1:1)/x", "--lease", "3s", "--beat", "2s"},
			"Beat 2s must be positive and at most a third of Lease 3s", cli.CodeUsage},
		"beat and node lease": {[]string{"--dsn", "root@tcp(127.0.0.1:1)/x", "--node-lease", "2s"}, "NodeLease 2s", cli.CodeUsage},
		"takeover":            {[]string{"--dsn", "root@tcp(127.0.0.1:1)/x", "--takeover", "force"}, "force", cli.CodeUsage},
		"profile":             {[]string{"--dsn", "root@tcp(127.0.0.1:1)/x", "--profile", "zk"}, "zk", cli.CodeUsage},
		"sofa has no witness": {[]string{"--dsn", "root@tcp(127.0.0.1:1)/x", "--profile", "sofa", "--takeover", "witness"}, "exclude each other", cli.CodeUsage},
		"slots":               {[]string{"--dsn", "root@tcp(127.0.0.1:1)/x", "--slots", "100"}, "100", cli.CodeUsage},
		"no database there": {[]string{"--dsn", "root:secret@tcp(127.0.0.1:1)/x", "--db-wait", "50ms"},
			"was not there within --db-wait 50ms", cli.CodeTimedOut},
	} {
		t.Run(name, func(t *testing.T) {
			out := newLines()
			err := cli.Execute(t.Context(), Process(), append([]string{"--name", "meta-1", "--listen", "127.0.0.1:0"}, c.args...), nil, out, out)
			require.ErrorContains(t, err, c.want)
			assert.Equal(t, c.code, cli.Code(err))
			assert.NotContains(t, err.Error()+out.String(), "secret")
		})
	}
}

func TestStop_EndsTheWaitForTheDatabase(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	out, log := newLines(), newLines()
	done := make(chan error, 1)
	go func() {
		done <- cli.Execute(ctx, Process(), []string{"--name", "meta-1", "--listen", "127.0.0.1:0", "--dsn", "root@tcp(127.0.0.1:1)/x"}, nil, out, log)
	}()
	log.until(t, "the database is not there yet")
	stop()
	require.NoError(t, <-done)
}

func TestProfileSofaHasTheOriginalsTimings(t *testing.T) {
	c, takeover, flags := meta.DefaultConfig(), string(termcas.Witness), pflag.NewFlagSet("meta", pflag.ContinueOnError)
	require.NoError(t, applyProfile("sofa", flags, &c, &takeover))
	assert.Equal(t, 20*time.Second, c.Lease)
	assert.Equal(t, time.Second, c.Beat)
	assert.Equal(t, 30*time.Second, c.WarmUp)
	assert.Equal(t, 20*time.Second, c.NodeLease)
	assert.Equal(t, string(termcas.Lease), takeover, "the original has no witness")
	assert.Equal(t, slot.OriginalLimits(), c.Limits)

	// A flag that was set has precedence.
	out, log := newLines(), newLines()
	err := cli.Execute(t.Context(), Process(), []string{"--name", "m", "--dsn", "root@tcp(127.0.0.1:1)/x", "--profile", "sofa", "--beat", "8s"}, nil, out, log)
	require.ErrorContains(t, err, "Lease 20s")
	err = cli.Execute(t.Context(), Process(), []string{"--name", "m", "--dsn", "root@tcp(127.0.0.1:1)/x", "--profile", "sofa", "--lease", "6s", "--beat", "8s"}, nil, out, log)
	require.ErrorContains(t, err, "Lease 6s")
}
