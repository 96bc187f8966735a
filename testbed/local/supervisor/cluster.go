package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	conclavesql "conclave/sql"
)

// Errors that callers can test for with errors.Is.
var (
	// ErrNone: the folder holds no cluster, or none that is running.
	ErrNone = errors.New("no cluster is running here")
	// ErrBusy: the folder holds a running cluster; the message names its pid.
	ErrBusy = errors.New("a cluster is already running here")
	// ErrNoProcess: the cluster has no process of that name.
	ErrNoProcess = errors.New("no such process")
	// ErrRunning: the process to start is already running.
	ErrRunning = errors.New("it is running")
	// ErrOneProcess: all nodes run inside one process, which cannot suspend one of them.
	ErrOneProcess = errors.New("runs inside one process with the others and cannot be suspended by itself")
	// ErrDown: the process to signal is not running.
	ErrDown = errors.New("it is not running")
)

// Cluster is the supervisor. It owns the processes, and only it writes to the
// folder.
type Cluster struct {
	cfg      Config
	lock     *os.File
	claims   *claims // of its ports
	dsn      string  // of the database, for its migration
	listener net.Listener
	children []*child
	self     ProcessID

	started   chan struct{}      // closed by Run when each process was started once or could not be
	stopping  context.Context    // ends when the stop begins
	hurry     context.Context    // ends when all running processes are to be killed
	beginStop context.CancelFunc // ends stopping
	killAll   context.CancelFunc // ends hurry

	saving   sync.Mutex // serialises the writes of cluster.json; only other writers wait for it
	failed   string     // why the cluster could not be started, or stopped; guarded by saving
	finished bool       // the supervisor has; guarded by saving
}

// New locks the folder and plans the processes without starting them. It
// returns ErrBusy if a cluster is running there, supervised or not.
func New(cfg Config) (*Cluster, error) {
	cfg.StopWait = cmp.Or(cfg.StopWait, DefaultConfig().StopWait)
	if cfg.Migrate == nil {
		cfg.Migrate = migrate
	}
	cfg.OneProcess = cfg.Inside != nil
	cfg.Logger = cmp.Or(cfg.Logger, hclog.NewNullLogger())
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	var err error
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, err
	}
	if err := cfg.programs(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(cfg.Dir, "logs"), 0o700); err != nil {
		return nil, err
	}
	lock, err := lockDir(cfg.Dir)
	if errors.Is(err, errLocked) {
		return nil, busy(cfg.Dir)
	}
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		cfg: cfg, lock: lock, claims: &claims{dir: filepath.Join(os.TempDir(), "conclave-ports"), owner: cfg.Dir},
		started: make(chan struct{}),
	}
	c.stopping, c.beginStop = context.WithCancel(context.Background())
	c.hurry, c.killAll = context.WithCancel(context.Background())
	if err := c.prepare(); err != nil {
		c.claims.release()
		lock.Close()
		return nil, err
	}
	return c, nil
}

// prepare is the part of New that needs the folder's lock.
func (c *Cluster) prepare() error {
	old, err := load(c.cfg.Dir)
	if err == nil {
		if orphans := old.living(); len(orphans) > 0 {
			return fmt.Errorf("%w: its supervisor (pid %d) was killed, but these processes are still running: %s; stop them with `conclave down --dir %s`",
				ErrBusy, old.Supervisor.PID, strings.Join(orphans, ", "), c.cfg.Dir)
		}
	} else if !errors.Is(err, ErrNone) {
		return err
	}
	ports, err := newPorts(&c.cfg, c.claims, old.Processes)
	if err != nil {
		return err
	}
	specs, dsn, err := plan(c.cfg, ports)
	if err != nil {
		return err
	}
	c.dsn = dsn
	for _, s := range specs {
		c.children = append(c.children, newChild(s, c.cfg, c.stopping.Done(), c.save))
	}
	c.self = identify(os.Getpid())
	if c.listener, err = listenControl(c.cfg.Dir); err != nil {
		return err
	}
	if err := c.state().save(c.cfg.Dir); err != nil { // replaces the state of an earlier cluster
		return errors.Join(err, c.listener.Close())
	}
	return nil
}

// busy returns ErrBusy with the pid of the supervisor that holds the folder.
func busy(dir string) error {
	if s, err := load(dir); err == nil && s.supervised() {
		return fmt.Errorf("%w: %s is held by pid %d; stop it with `conclave down --dir %[2]s`, or choose another --dir", ErrBusy, dir, s.Supervisor.PID)
	}
	return fmt.Errorf("%w: %s is held by a process that is starting or stopping a cluster", ErrBusy, dir)
}

// living returns the names and pids of the recorded processes that are running.
func (s state) living() []string {
	var out []string
	for _, r := range s.Processes {
		if r.State == stateRunning && r.alive() {
			out = append(out, fmt.Sprintf("%s (pid %d)", r.Name, r.PID))
		}
	}
	return out
}

// Run starts all processes at once (each waits for what it needs; the metas are
// started when the database has been migrated), serves the control socket, and blocks until the cluster has stopped: by Stop, by a
// `down` command, or gracefully when ctx ends. When it returns, every process
// that it started has ended.
func (c *Cluster) Run(ctx context.Context) error {
	defer c.lock.Close()
	defer c.claims.release()
	var loops sync.WaitGroup
	for _, ch := range c.children {
		loops.Go(ch.run)
	}
	control := c.control()
	loops.Go(func() {
		if err := control.Serve(c.listener); !errors.Is(err, http.ErrServerClosed) {
			c.cfg.Logger.Error("the control socket failed; from now on only signals can stop the cluster", "error", err)
		}
	})
	loops.Go(c.runFolderWatch)

	err := c.startAll(ctx)
	close(c.started)
	select {
	case <-c.stopping.Done():
		err = nil // a process that was not started because of the stop is not a failure
	default:
		if err != nil {
			if serr := c.saveEnd(false, err); serr != nil { // before the processes end because of it
				c.cfg.Logger.Warn("could not write the cluster's state", "error", serr)
			}
			c.Stop(true)
		}
	}
	select {
	case <-ctx.Done():
		c.Stop(false)
	case <-c.stopping.Done():
	}
	err = errors.Join(err, c.stopAll())
	closeControl(control)
	loops.Wait()
	return errors.Join(err, c.saveEnd(true, err))
}

// runFolderWatch stops the cluster when its folder is removed. Without the
// folder no command could find the cluster to stop it, and its ports would stay
// in use.
func (c *Cluster) runFolderWatch() {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	mine, err := c.lock.Stat()
	if err != nil {
		return
	}
	for {
		select {
		case <-tick.C:
		case <-c.stopping.Done():
			return
		}
		there, err := os.Stat(c.lock.Name())
		if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(mine, there) {
			c.cfg.Logger.Error("the cluster's folder was removed: stopping", "dir", c.cfg.Dir)
			c.Stop(false)
			return
		}
	}
}

func (c *Cluster) startAll(ctx context.Context) error {
	errs := make([]error, len(c.children))
	var all sync.WaitGroup
	start := func(metas bool) {
		for i, ch := range c.children {
			if metas == (ch.spec.Role == roleMeta) {
				all.Go(func() { errs[i] = ch.start(ctx) })
			}
		}
	}
	start(false)
	err := c.migrated(ctx)
	if err == nil {
		start(true)
	}
	all.Wait()
	return errors.Join(append(errs, err)...)
}

// stopAll stops the running processes. A Stop(true) during a graceful stop
// makes it kill them.
func (c *Cluster) stopAll() error {
	if c.hurry.Err() != nil {
		return stop(context.Background(), c.records(), c.cfg, true)
	}
	return stop(c.hurry, c.records(), c.cfg, false)
}

// Stop begins to stop the cluster and returns at once. The stop is graceful, or
// with now by SIGKILL for all processes. A call with now also cuts short a
// graceful stop that is in progress.
func (c *Cluster) Stop(now bool) {
	if now {
		c.killAll()
	}
	c.beginStop()
}

// Started returns a channel that is closed when each process was started once
// or could not be.
func (c *Cluster) Started() <-chan struct{} { return c.started }

// Handle returns a handle of this cluster.
func (c *Cluster) Handle() *Handle { return &Handle{dir: c.cfg.Dir} }

func (c *Cluster) records() []record {
	out := make([]record, len(c.children))
	for i, ch := range c.children {
		out[i] = ch.record()
	}
	return out
}

func (c *Cluster) find(name string) (*child, error) {
	i := slices.IndexFunc(c.children, func(ch *child) bool { return ch.spec.Name == name })
	if i < 0 {
		return nil, noProcess(name, c.records())
	}
	return c.children[i], nil
}

func noProcess(name string, records []record) error {
	names := make([]string, len(records))
	for i, r := range records {
		names[i] = r.Name
	}
	slices.SortFunc(names, compareNames)
	return fmt.Errorf("%w: %q (want one of %s)", ErrNoProcess, name, strings.Join(names, ", "))
}

// state returns the state to save.
func (c *Cluster) state() state {
	s := state{Supervisor: c.self, Control: c.listener.Addr().String(), Config: c.cfg, Stopped: c.finished, Failed: c.failed, Processes: c.records()}
	for i, r := range s.Processes {
		if c.finished && r.State == stateStarting {
			s.Processes[i].State = stateExited // it never ran
		}
	}
	return s
}

// save writes the present state: every change that was recorded before it was called.
func (c *Cluster) save() error {
	c.saving.Lock()
	defer c.saving.Unlock()
	return c.state().save(c.cfg.Dir)
}

// saveEnd records why the cluster has failed, if it has, and whether the supervisor has
// finished.
func (c *Cluster) saveEnd(finished bool, failed error) error {
	c.saving.Lock()
	c.finished = finished
	if failed != nil {
		c.failed = failed.Error()
	}
	c.saving.Unlock()
	return c.save()
}

// dbWait is how long a starting cluster waits for its database, as a meta does.
const dbWait = time.Minute

// lock is that of the metas, whose names the supervisor leaves at their defaults.
var lock = conclavesql.Lock{DataCenter: "default", Name: conclavesql.DefaultLockName}

// migrate brings the database's schema up to date, so that no meta needs the rights
// to create or change tables. If there is nothing to do it only reads: a user with
// the rights of a meta is enough then.
func migrate(ctx context.Context, dsn string, waiting func(time.Duration, error)) error {
	db, err := conclavesql.Open(dsn, conclavesql.Options{})
	if err != nil {
		return err
	}
	defer db.Close()
	err = db.CheckWithin(ctx, lock, dbWait, waiting)
	if errors.Is(err, conclavesql.ErrSchemaOlder) {
		err = db.MigrateWithin(ctx, lock, dbWait, waiting)
	}
	if errors.Is(err, conclavesql.ErrUnavailable) {
		return fmt.Errorf("the database at %s was not there within %v: %w", db.Addr(), dbWait, err)
	}
	if err != nil {
		return fmt.Errorf("database %s: %w", db.Addr(), err)
	}
	return nil
}

// migrated calls Config.Migrate; it ends early when the cluster is stopping.
func (c *Cluster) migrated(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.stopping, cancel)()
	return c.cfg.Migrate(ctx, c.dsn, func(waited time.Duration, why error) {
		if waited > 0 { // its own database needs a moment
			c.cfg.Logger.Warn("the database is not there yet", "waited", waited, "error", why)
		}
	})
}
