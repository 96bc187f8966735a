package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// What callers meet.
var (
	// ErrNone: the folder holds no cluster, or none that runs.
	ErrNone = errors.New("no cluster runs here")
	// ErrBusy: the folder holds a cluster that runs; the message names its pid.
	ErrBusy = errors.New("a cluster runs here already")
	// ErrNoProcess: the cluster has no process of that name.
	ErrNoProcess = errors.New("no such process")
	// ErrRunning: the process that should be started runs already.
	ErrRunning = errors.New("it is running")
	// ErrDown: the process that should be signalled does not run.
	ErrDown = errors.New("it is not running")
)

// Cluster is the supervisor: the owner of the processes, and the only one who
// writes the folder.
type Cluster struct {
	cfg      Config
	lock     *os.File
	claims   *claims // of its ports
	listener net.Listener
	children []*child
	self     processID

	started  chan struct{} // closed by Run when every process was started once
	stopping chan struct{} // closed once, when the end begins
	hurry    chan struct{} // closed once, when whatever still runs shall be killed
	stopOnce sync.Once     // closes stopping
	nowOnce  sync.Once     // closes hurry
	saves    chan saveRequest
}

// New takes the folder, lays out the processes, and starts none of them.
// ErrBusy when a cluster lives there, supervised or not.
func New(cfg Config) (*Cluster, error) {
	if cfg.StopWait == 0 {
		cfg.StopWait = DefaultConfig().StopWait
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
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
	for _, dir := range []string{cfg.Dir, filepath.Join(cfg.Dir, "logs"), filepath.Join(cfg.Dir, "pids")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	lock, err := lockDir(cfg.Dir)
	if errors.Is(err, errLocked) {
		return nil, busy(cfg.Dir)
	}
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		cfg: cfg, lock: lock, claims: newClaims(),
		started: make(chan struct{}), stopping: make(chan struct{}),
		hurry: make(chan struct{}), saves: make(chan saveRequest),
	}
	if err := c.prepare(); err != nil {
		c.claims.release()
		lock.Close()
		return nil, err
	}
	return c, nil
}

// prepare does what only the holder of the lock may do.
func (c *Cluster) prepare() error {
	if old, err := load(c.cfg.Dir); err == nil {
		if orphans := old.living(); len(orphans) > 0 {
			return fmt.Errorf("%w: its supervisor was killed (pid %d), but %s still run; `conclave down` stops them",
				ErrBusy, old.Supervisor.PID, strings.Join(orphans, ", "))
		}
	} else if !errors.Is(err, ErrNone) {
		return err
	}
	specs, err := plan(c.cfg, c.claims)
	if err != nil {
		return err
	}
	for _, s := range specs {
		c.children = append(c.children, newChild(s, c.cfg, c.stopping, c.save))
	}
	c.self = identify(os.Getpid())
	if c.listener, err = listenControl(c.cfg.Dir); err != nil {
		return err
	}
	return c.state().save(c.cfg.Dir) // from now on nobody reads what an earlier cluster left
}

// busy names the supervisor that holds the folder.
func busy(dir string) error {
	if s, err := load(dir); err == nil && s.supervised() {
		return fmt.Errorf("%w: %s is held by pid %d; `conclave down` stops it, or choose another --dir", ErrBusy, dir, s.Supervisor.PID)
	}
	return fmt.Errorf("%w: %s is held by another process that is just starting or stopping one", ErrBusy, dir)
}

// living names the recorded processes that still run.
func (s state) living() []string {
	var out []string
	for _, r := range s.Processes {
		if r.alive() {
			out = append(out, fmt.Sprintf("%s (pid %d)", r.Name, r.PID))
		}
	}
	return out
}

// Run starts every process at once (each waits for what it needs), listens at
// the control socket, and blocks until the cluster was stopped: by Stop, by
// somebody's `down`, or by ctx, which stops it gracefully. Nothing that it
// started is left when it returns.
func (c *Cluster) Run(ctx context.Context) error {
	defer c.lock.Close()
	defer c.claims.release()
	var saver, loops sync.WaitGroup
	saverDone := make(chan struct{})
	saver.Go(func() { c.runSaver(saverDone) })
	for _, ch := range c.children {
		loops.Go(ch.run)
	}
	control := newControl(c)
	loops.Go(func() { control.serve(c.listener) })
	loops.Go(c.runFolderWatch)

	err := c.startAll(ctx)
	close(c.started)
	select {
	case <-c.stopping:
		err = nil // what was not started any more is no failure
	default:
		if err != nil {
			c.Stop(true)
		}
	}
	select {
	case <-ctx.Done():
		c.Stop(false)
	case <-c.stopping:
	}
	err = errors.Join(err, c.stopAll())
	control.close()
	loops.Wait()
	err = errors.Join(err, c.saveLast(err))
	close(saverDone)
	saver.Wait()
	return err
}

// runFolderWatch stops the cluster when its folder was removed: nobody could
// find it any more to stop it, and its ports would be taken for ever.
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
		case <-c.stopping:
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
	for i, ch := range c.children {
		all.Go(func() { errs[i] = ch.start(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// stopAll ends what runs. A Stop(true) that comes while it waits cuts it short.
func (c *Cluster) stopAll() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-c.hurry:
			cancel()
		case <-ctx.Done():
		}
	})
	defer watch.Wait()
	defer cancel()
	select {
	case <-c.hurry:
		return stop(context.Background(), c.records(), c.cfg, true)
	default:
		return stop(ctx, c.records(), c.cfg, false)
	}
}

// Stop begins the end and returns at once: gracefully, or with SIGKILL for all.
// Calling it again with now hurries a graceful stop.
func (c *Cluster) Stop(now bool) {
	if now {
		c.nowOnce.Do(func() { close(c.hurry) })
	}
	c.stopOnce.Do(func() { close(c.stopping) })
}

// Started is closed when every process was started once, or could not be.
func (c *Cluster) Started() <-chan struct{} { return c.started }

// Handle is this cluster as others see it.
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
	return fmt.Errorf("%w: %q; there are %s", ErrNoProcess, name, strings.Join(names, ", "))
}

// state is what is to be written down now.
func (c *Cluster) state() state {
	return state{Supervisor: c.self, Control: c.listener.Addr().String(), Config: c.cfg, Processes: c.records()}
}

type saveRequest struct {
	change func(*state)
	answer chan error
}

// save has the state written and waits until it is.
func (c *Cluster) save() error { return c.saveWith(func(*state) {}) }

// saveLast notes that the supervisor is done, and what went wrong.
func (c *Cluster) saveLast(failed error) error {
	return c.saveWith(func(s *state) {
		s.Stopped = true
		for i, r := range s.Processes {
			if r.State == stateStarting {
				s.Processes[i].State = stateExited // it never ran
			}
		}
		if failed != nil {
			s.Failed = failed.Error()
		}
	})
}

func (c *Cluster) saveWith(change func(*state)) error {
	request := saveRequest{change, make(chan error, 1)}
	c.saves <- request
	return <-request.answer
}

// runSaver is the one writer of cluster.json: what it writes is what holds after
// everything that was noted before save was called.
func (c *Cluster) runSaver(done <-chan struct{}) {
	for {
		select {
		case request := <-c.saves:
			s := c.state()
			request.change(&s)
			request.answer <- s.save(c.cfg.Dir)
		case <-done:
			return
		}
	}
}
