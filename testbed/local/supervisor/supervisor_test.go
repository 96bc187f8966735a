package supervisor_test

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/local/supervisor"
)

func newCluster(dir, bin string) (*supervisor.Cluster, error) {
	cfg := supervisor.DefaultConfig() // the default StopWait suits a busy machine: with the race detector a process takes a second to exit
	cfg.Dir, cfg.Bin, cfg.AnyPorts, cfg.Migrate = dir, bin, true, noMigration
	return supervisor.New(cfg)
}

// noMigration takes the place of the migration: the database is no real one.
func noMigration(context.Context, string, func(time.Duration, error)) error { return nil }

// programs returns a folder with links to the test binary under the names of
// the programs.
func programs(t *testing.T, names ...string) string {
	self, err := os.Executable()
	require.NoError(t, err)
	bin := t.TempDir()
	for _, name := range append(names, "meta", "session", "data", "devdb") {
		require.NoError(t, os.Symlink(self, filepath.Join(bin, name)))
	}
	return bin
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// up starts a cluster, waits until it is ready, and stops it when the test
// ends.
func up(t *testing.T, change func(*supervisor.Config)) (*supervisor.Cluster, *supervisor.Handle, <-chan error) {
	cfg := supervisor.DefaultConfig()
	cfg.Dir, cfg.Bin, cfg.AnyPorts, cfg.Migrate = t.TempDir(), programs(t), true, noMigration
	if change != nil {
		change(&cfg)
	}
	c, err := supervisor.New(cfg)
	require.NoError(t, err)
	ended := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		ended <- c.Run(context.Background())
		close(done)
	}()
	t.Cleanup(func() { c.Stop(true); <-done })
	h := c.Handle()
	require.NoError(t, h.AwaitReady(within(t, time.Minute)))
	return c, h, ended
}

// allReady returns the processes when all of them are ready in one look. On a
// busy machine a process may not answer a look in time, even after AwaitReady.
func allReady(t *testing.T, h *supervisor.Handle) (ps []supervisor.Process) {
	t.Helper()
	ctx := within(t, time.Minute)
	for {
		require.NoError(t, h.AwaitReady(ctx))
		var err error
		ps, err = h.Processes(ctx)
		require.NoError(t, err)
		if !slices.ContainsFunc(ps, func(p supervisor.Process) bool { return p.State != "ready" }) {
			return ps
		}
	}
}

func states(t *testing.T, h *supervisor.Handle) map[string]string {
	ps, err := h.Processes(within(t, 5*time.Second))
	require.NoError(t, err)
	out := make(map[string]string)
	for _, p := range ps {
		out[p.Name] = p.State
	}
	return out
}

func TestCluster_StartsShowsProcessesAndStopsInOrder(t *testing.T) {
	t.Setenv("GOMAXPROCS", "") // as without it
	_, h, ended := up(t, nil)
	var names []string
	for _, p := range allReady(t, h) {
		names = append(names, p.Name)
		assert.Equal(t, "ready", p.State, p.Name)
		assert.Positive(t, p.PID)
		if p.Role != "db" {
			assert.Equal(t, "life-"+strconv.Itoa(p.PID), p.Incarnation)
			assert.NotEmpty(t, p.HTTP)
		}
	}
	assert.Equal(t, []string{"data-1", "data-2", "data-3", "db", "meta-1", "meta-2", "meta-3", "session-1", "session-2"}, names)

	require.NoError(t, h.Down(within(t, time.Minute), false))
	require.NoError(t, <-ended)
	assert.ErrorIs(t, h.Down(within(t, time.Second), false), supervisor.ErrNone)

	at := func(name string) int64 {
		log, err := os.ReadFile(supervisor.LogPath(h.Dir(), name))
		require.NoError(t, err)
		if strings.HasPrefix(name, "data") || strings.HasPrefix(name, "session") {
			assert.Contains(t, string(log), "received: the cluster is stopping")
		}
		processors := runtime.GOMAXPROCS(0)
		if strings.HasPrefix(name, "data") || strings.HasPrefix(name, "session") {
			processors = max(1, processors/2)
		}
		assert.Contains(t, string(log), fmt.Sprintf(" processors %d\n", processors), name)
		m := regexp.MustCompile(`stopped at (\d+)`).FindSubmatch(log)
		require.NotNil(t, m, "%s did not stop at SIGTERM: %s", name, log)
		n, err := strconv.ParseInt(string(m[1]), 10, 64)
		require.NoError(t, err)
		return n
	}
	order := []string{"session-1", "data-1", "meta-1", "db"}
	for i := range order[1:] {
		assert.Less(t, at(order[i]), at(order[i+1]), "%s stops before %s", order[i], order[i+1])
	}
}

// With a token the database has a password, and no secret can be read by others.
func TestSecrets_AreReadableByTheirOwnerOnly(t *testing.T) {
	var dir string
	_, h, _ := up(t, func(cfg *supervisor.Config) {
		dir = filepath.Join(cfg.Dir, "cluster")
		cfg.Dir, cfg.Token = dir, "the-token"
	})
	mode := func(name string) fs.FileMode {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		return info.Mode().Perm()
	}
	assert.Equal(t, fs.FileMode(0o700), mode("."))
	password, err := os.ReadFile(filepath.Join(dir, "db-password"))
	require.NoError(t, err)
	secrets := []string{"the-token", strings.TrimSpace(string(password))}
	dsn, err := os.ReadFile(filepath.Join(dir, "dsn"))
	require.NoError(t, err)
	assert.Contains(t, string(dsn), "root:"+secrets[1]+"@tcp(")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if e.Name() == "control.sock" {
			assert.Equal(t, fs.FileMode(0o600), mode(e.Name()))
			continue
		}
		text, _ := os.ReadFile(filepath.Join(dir, e.Name())) // a folder has none
		for _, secret := range secrets {
			if strings.Contains(string(text), secret) {
				assert.Equal(t, fs.FileMode(0o600), mode(e.Name()), e.Name())
			}
		}
	}
	for _, p := range allReady(t, h) {
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if err != nil {
			t.Skip("the arguments of a process cannot be read here")
		}
		for _, secret := range secrets {
			assert.NotContains(t, string(args), secret, p.Name)
		}
	}
}

func TestKill_ProcessStaysDownUntilStarted(t *testing.T) {
	_, h, _ := up(t, nil)
	ctx := within(t, time.Minute)
	before, err := h.Process(ctx, "data-2")
	require.NoError(t, err)

	require.NoError(t, h.Kill(ctx, "data-2", syscall.SIGKILL))
	p, err := h.Process(ctx, "data-2")
	require.NoError(t, err)
	assert.Equal(t, "killed", p.State)
	assert.Equal(t, "killed", p.Signal)
	assert.Zero(t, p.PID)
	assert.ErrorIs(t, h.Kill(ctx, "data-2", syscall.SIGKILL), supervisor.ErrDown)
	assert.ErrorIs(t, h.Kill(ctx, "data-9", syscall.SIGKILL), supervisor.ErrNoProcess)
	assert.ErrorIs(t, h.Start(ctx, "data-9"), supervisor.ErrNoProcess)
	assert.ErrorIs(t, h.Start(ctx, "data-1"), supervisor.ErrRunning)

	require.NoError(t, h.Start(ctx, "data-2"))
	require.NoError(t, h.AwaitReady(ctx))
	after, err := h.Process(ctx, "data-2")
	require.NoError(t, err)
	assert.NotEqual(t, before.Incarnation, after.Incarnation)
	assert.Equal(t, before.HTTP, after.HTTP, "the address stays")

	id, err := h.Terminate("data-2")
	require.NoError(t, err)
	assert.Equal(t, after.PID, id.PID, "that of the process which was sent the signal")
	ended, err := h.AwaitEnd(ctx, "data-2", id)
	require.NoError(t, err)
	assert.Equal(t, "exited", ended.State)
	_, err = h.Terminate("data-2")
	assert.ErrorIs(t, err, supervisor.ErrDown)
}

func TestProcesses_SuspendedProcessIsShown(t *testing.T) {
	_, h, _ := up(t, nil)
	ctx := within(t, time.Minute)
	require.NoError(t, h.Kill(ctx, "session-1", syscall.SIGSTOP))
	require.Eventually(t, func() bool { return states(t, h)["session-1"] == "suspended" }, 20*time.Second, 5*time.Millisecond)
	require.NoError(t, h.Kill(ctx, "session-1", syscall.SIGCONT))
	require.NoError(t, h.AwaitReady(ctx))
	require.NoError(t, h.Kill(ctx, "session-1", syscall.SIGSTOP))
	require.NoError(t, h.Down(ctx, false), "a suspended process can be stopped as well")
}

func TestRestart_StartsProcessThatHasEnded(t *testing.T) {
	_, h, _ := up(t, func(c *supervisor.Config) { c.Restart = 20 * time.Millisecond })
	ctx := within(t, time.Minute)
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		before, err := h.Process(ctx, "meta-1")
		require.NoError(t, err)
		require.NoError(t, h.Kill(ctx, "meta-1", sig))
		require.Eventually(t, func() bool {
			p, err := h.Process(ctx, "meta-1")
			return err == nil && p.State == "ready" && p.PID != before.PID
		}, 30*time.Second, 5*time.Millisecond)
	}
}

func TestDown_KillsAndNamesProcessThatDoesNotStop(t *testing.T) {
	t.Setenv("FAKE_STUBBORN", "data-3")
	_, h, ended := up(t, func(c *supervisor.Config) { c.StopWait = 200 * time.Millisecond })
	err := h.Down(within(t, time.Minute), false)
	assert.ErrorContains(t, err, "data-3")
	assert.ErrorContains(t, <-ended, "data-3")
	for name, state := range states(t, h) {
		assert.NotEqual(t, "ready", state, name)
	}
}

func TestDownNow_CutsShortAGracefulStop(t *testing.T) {
	t.Setenv("FAKE_STUBBORN", "session-1")
	c, h, ended := up(t, func(c *supervisor.Config) { c.StopWait = time.Hour })
	c.Stop(false)
	require.NoError(t, h.Down(within(t, time.Minute), true))
	<-ended
	assert.False(t, h.Running() && h.Supervisor() != os.Getpid())
}

func TestFindProgram_OneFileIsEnough(t *testing.T) {
	bin := t.TempDir()
	_, _, err := supervisor.FindProgram(bin, "meta")
	require.ErrorContains(t, err, `program "meta" is not in `+bin)
	tool, meta := filepath.Join(bin, "conclave"), filepath.Join(bin, "meta")
	require.NoError(t, os.WriteFile(tool, nil, 0o700))
	require.NoError(t, os.Mkdir(meta, 0o700), "as in a checkout, beside the sources")
	path, args, err := supervisor.FindProgram(bin, "meta")
	require.NoError(t, err)
	assert.Equal(t, tool, path)
	assert.Equal(t, []string{"meta"}, args)
	require.NoError(t, os.Remove(meta))
	require.NoError(t, os.WriteFile(meta, nil, 0o700))
	path, args, err = supervisor.FindProgram(bin, "meta")
	require.NoError(t, err)
	assert.Equal(t, meta, path)
	assert.Empty(t, args)
}

func TestNew_FolderInUseIsRefused(t *testing.T) {
	_, h, _ := up(t, nil)
	_, err := newCluster(h.Dir(), programs(t))
	require.ErrorIs(t, err, supervisor.ErrBusy)
	assert.ErrorContains(t, err, "pid "+strconv.Itoa(os.Getpid()))
}

func TestAwaitReady_ProcessEndsWhileStarting(t *testing.T) {
	t.Setenv("FAKE_FAILS", "session-2")
	c, err := newCluster(t.TempDir(), programs(t))
	require.NoError(t, err)
	done := make(chan struct{})
	go func() { _ = c.Run(context.Background()); close(done) }()
	defer func() { c.Stop(true); <-done }()
	err = c.Handle().AwaitReady(within(t, time.Minute))
	assert.ErrorContains(t, err, "session-2")
	assert.ErrorContains(t, err, "requested by the test")
}

func TestMigration_ComesBeforeTheMetas(t *testing.T) {
	begun, goOn := make(chan string), make(chan error)
	cfg := supervisor.DefaultConfig()
	cfg.Dir, cfg.Bin, cfg.AnyPorts = t.TempDir(), programs(t), true
	cfg.Migrate = func(_ context.Context, dsn string, _ func(time.Duration, error)) error {
		begun <- dsn
		return <-goOn
	}
	c, err := supervisor.New(cfg)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(context.Background()) }()
	assert.Contains(t, <-begun, "root@tcp(127.0.0.1:")
	for _, name := range []string{"db", "data-3", "session-2"} {
		require.Eventually(t, func() bool { return states(t, c.Handle())[name] == "ready" }, time.Minute, 10*time.Millisecond)
	}
	assert.Equal(t, "starting", states(t, c.Handle())["meta-1"])

	goOn <- fmt.Errorf("no such privilege")
	assert.ErrorContains(t, c.Handle().AwaitReady(within(t, time.Minute)), "no such privilege")
	assert.ErrorContains(t, <-ended, "no such privilege")
	assert.NoFileExists(t, supervisor.LogPath(cfg.Dir, "meta-1"))
}

// A cluster that is stopped while its database is waited for starts no meta.
func TestMigration_EndsWithTheCluster(t *testing.T) {
	begun := make(chan bool)
	cfg := supervisor.DefaultConfig()
	cfg.Dir, cfg.Bin, cfg.AnyPorts = t.TempDir(), programs(t), true
	cfg.Migrate = func(ctx context.Context, _ string, _ func(time.Duration, error)) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}
	c, err := supervisor.New(cfg)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(context.Background()) }()
	<-begun
	c.Stop(true)
	require.NoError(t, <-ended)
	assert.NoFileExists(t, supervisor.LogPath(cfg.Dir, "meta-1"))
}

// When the supervisor is killed, its processes continue. They are still shown,
// can be killed and stopped, and a second cluster is refused.
func TestHandle_SupervisorWasKilled(t *testing.T) {
	bin, dir := programs(t, "orphaner"), t.TempDir()
	sup := exec.Command(filepath.Join(bin, "orphaner"))
	sup.Env = append(os.Environ(), "ORPHANER_DIR="+dir, "ORPHANER_BIN="+bin)
	require.NoError(t, sup.Start())
	var h *supervisor.Handle
	require.Eventually(t, func() bool {
		var err error
		h, err = supervisor.Open(dir)
		return err == nil
	}, 30*time.Second, 5*time.Millisecond)
	ctx := within(t, 2*time.Minute)
	defer func() { _ = h.Down(context.Background(), true) }()
	require.NoError(t, h.AwaitReady(ctx))
	assert.Equal(t, sup.Process.Pid, h.Supervisor())

	require.NoError(t, sup.Process.Kill())
	_ = sup.Wait()
	assert.Zero(t, h.Supervisor())
	assert.True(t, h.Running())
	_, err := newCluster(dir, bin)
	require.ErrorIs(t, err, supervisor.ErrBusy)
	assert.ErrorContains(t, err, "meta-1 (pid ")

	require.NoError(t, h.Kill(ctx, "data-1", syscall.SIGKILL))
	assert.Equal(t, "exited", states(t, h)["data-1"], "nothing has recorded how it ended")
	assert.ErrorContains(t, h.Start(ctx, "data-1"), "`conclave down --dir "+dir+"`")
	assert.ErrorContains(t, h.MayStart(), "the supervisor (pid ", "roll asks before it stops a node")

	require.NoError(t, h.Down(ctx, false))
	for name, state := range states(t, h) {
		assert.Equal(t, "exited", state, name)
	}
	assert.False(t, h.Running())
	require.ErrorIs(t, h.Start(ctx, "data-1"), supervisor.ErrNone, "nobody would stop it")
	c, err := newCluster(dir, bin)
	require.NoError(t, err, "the folder can be used again")
	done := make(chan struct{})
	go func() { _ = c.Run(context.Background()); close(done) }()
	c.Stop(true)
	<-done
}

func TestCluster_StopsWhenFolderIsRemoved(t *testing.T) {
	_, h, ended := up(t, nil)
	ps, err := h.Processes(within(t, 5*time.Second))
	require.NoError(t, err)
	// RemoveAll fails if a process writes a file into the folder meanwhile.
	require.Eventually(t, func() bool { return os.RemoveAll(h.Dir()) == nil }, 10*time.Second, time.Millisecond)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the cluster is still running without a folder")
	}
	for _, p := range ps {
		assert.Error(t, syscall.Kill(p.PID, 0), "%s is still running", p.Name)
	}
}

// A second cluster does not use the first one's ports, not even that of a
// process that was killed, because it will be started again.
func TestPorts_SecondClusterGetsOthers(t *testing.T) {
	well := func(c *supervisor.Config) { c.AnyPorts = false }
	_, one, _ := up(t, well)
	ctx := within(t, time.Minute)
	require.NoError(t, one.Kill(ctx, "data-2", syscall.SIGKILL))
	_, two, _ := up(t, well)
	first, err := one.Config()
	require.NoError(t, err)
	cfg, err := two.Config()
	require.NoError(t, err)
	if first.Moved == "" { // otherwise another cluster of this machine had those ports, and may have ended since
		assert.Contains(t, cfg.Moved, "is in use by ")
	}
	for _, role := range []string{"meta", "data", "session", "db"} {
		mine, err := one.Addresses(role)
		require.NoError(t, err)
		theirs, err := two.Addresses(role)
		require.NoError(t, err)
		for _, address := range theirs {
			assert.NotContains(t, mine, address)
		}
	}
	require.NoError(t, one.Start(ctx, "data-2"))
	require.NoError(t, one.AwaitReady(ctx))
}

func TestConfigValidate_NamesTheInvalidField(t *testing.T) {
	for field, change := range map[string]func(*supervisor.Config){
		"meta-nodes": func(c *supervisor.Config) { c.Metas = 0 },
		"data-nodes": func(c *supervisor.Config) { c.Datas = -1 },
		"slots":      func(c *supervisor.Config) { c.Slots = 100 },
		"takeover":   func(c *supervisor.Config) { c.Takeover = "coup" },
		"profile":    func(c *supervisor.Config) { c.Profile = "nacos" },
		"db":         func(c *supervisor.Config) { c.DB = "" },
	} {
		cfg := supervisor.DefaultConfig()
		change(&cfg)
		err := cfg.Validate()
		require.ErrorIs(t, err, supervisor.ErrConfig, field)
		assert.ErrorContains(t, err, field)
	}
	_, err := newCluster(t.TempDir(), t.TempDir())
	assert.ErrorContains(t, err, `"meta"`)
}

// When the wait times out, the error names the processes that were not ready,
// and not those that could not be asked any more.
func TestAwaitReady_TimeoutNamesProcessesThatAreNotReady(t *testing.T) {
	_, h, _ := up(t, nil)
	require.NoError(t, h.Kill(within(t, 5*time.Second), "data-1", syscall.SIGSTOP))
	require.Eventually(t, func() bool { return states(t, h)["data-1"] == "suspended" }, 20*time.Second, 5*time.Millisecond) // until then it answers
	err := h.AwaitReady(within(t, 2*time.Second))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "data-1 (suspended)")
	assert.ErrorContains(t, err, "; their logs are in "+filepath.Join(h.Dir(), "logs"))
	assert.Less(t, strings.Count(err.Error(), " ("), 9, "a last look that was cut short does not count")
}

// Clusters that are planned before any of their processes listens, one after
// another or at the same moment, get different ports.
func TestPorts_ClustersPlannedAtOnceShareNone(t *testing.T) {
	start := func() (*supervisor.Cluster, error) {
		cfg := supervisor.DefaultConfig()
		cfg.Dir, cfg.Bin = t.TempDir(), programs(t)
		return supervisor.New(cfg)
	}
	for range 5 {
		clusters := make([]*supervisor.Cluster, 4)
		errs := make([]error, len(clusters))
		var starting sync.WaitGroup
		for i := range clusters[1:] {
			starting.Go(func() { clusters[i], errs[i] = start() })
		}
		starting.Wait()
		clusters[3], errs[3] = start()
		used := map[string]bool{}
		for i, c := range clusters {
			require.NoError(t, errs[i])
			for _, role := range []string{"meta", "data", "session", "db"} {
				addresses, err := c.Handle().Addresses(role)
				require.NoError(t, err)
				for _, a := range addresses {
					assert.False(t, used[a], "port of %s was given twice", a)
					used[a] = true
				}
			}
		}
		for _, c := range clusters { // none was run; Run releases the ports
			c.Stop(true)
			require.NoError(t, c.Run(t.Context()))
		}
	}
}

// Clients find a cluster again that was stopped and started.
func TestPorts_FolderKeepsThem(t *testing.T) {
	bin, dir, other := programs(t), t.TempDir(), t.TempDir()
	start := func(dir string, change func(*supervisor.Config)) (*supervisor.Cluster, map[string]string, error) {
		cfg := supervisor.DefaultConfig()
		cfg.Dir, cfg.Bin = dir, bin
		if change != nil {
			change(&cfg)
		}
		c, err := supervisor.New(cfg)
		if err != nil {
			return nil, nil, err
		}
		rows, err := c.Handle().Rows()
		require.NoError(t, err)
		at := map[string]string{}
		for _, p := range rows {
			at[p.Name] = p.HTTP + p.SQL
		}
		return c, at, nil
	}
	stop := func(c *supervisor.Cluster) {
		c.Stop(true)
		require.NoError(t, c.Run(t.Context()))
	}
	const base = 32_100 // above those that clusters of other tests draw, below those that the kernel gives
	chosen := func(cfg *supervisor.Config) { cfg.Ports = base }
	c, at, err := start(dir, chosen)
	require.NoError(t, err)
	assert.Equal(t, []string{"127.0.0.1:32100", "127.0.0.1:32104", "127.0.0.1:32115", "127.0.0.1:32124"}, []string{at["db"], at["session-2"], at["meta-1"], at["data-3"]})
	_, _, err = start(other, chosen)
	assert.EqualError(t, err, fmt.Sprintf("port 32122 of data-1 is in use by the cluster in %q: choose other ports than those from 32100 on with --ports", dir))
	stop(c)

	c, again, err := start(dir, func(cfg *supervisor.Config) { cfg.Datas, cfg.Sessions = 4, 1 })
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1:32125", again["data-4"], "a new one")
	delete(again, "data-4")
	delete(at, "session-2")
	assert.Equal(t, at, again)
	stop(c)

	ln, err := net.Listen("tcp", at["session-1"])
	require.NoError(t, err)
	_, _, err = start(dir, nil)
	assert.ErrorContains(t, err, "port 32103 of session-1 is in use by another program, and clients know the ports that the cluster in "+dir+" has had")
	require.NoError(t, ln.Close())
	c, _, err = start(dir, func(cfg *supervisor.Config) { cfg.Ports = base + 100 })
	require.NoError(t, err)
	stop(c)
}
