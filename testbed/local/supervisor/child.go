package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
)

// child is one process of the cluster, including its restarts. Only its run
// loop starts and reaps the process; any goroutine may read its record or
// signal it.
type child struct {
	spec    spec
	dir     string
	inside  func(name string, log io.Writer) (Server, error) // nil: a process
	restart time.Duration
	log     hclog.Logger
	saved   func() error // saves the cluster's state; run calls it after each change

	starts   chan chan error // requests to run to start the process
	stopping <-chan struct{} // closed by the cluster: no process is started any more

	mu  sync.Mutex // guards rec
	rec record
}

func newChild(s spec, cfg Config, stopping <-chan struct{}, saved func() error) *child {
	return &child{
		spec: s, dir: cfg.Dir, inside: cfg.Inside, restart: cfg.Restart, log: cfg.Logger.Named(s.Name), saved: saved,
		starts: make(chan chan error), stopping: stopping,
		rec: record{spec: s, State: stateStarting},
	}
}

// run starts the process on request, waits until it has ended, and starts it
// again after the restart time, if one is set. It returns when the cluster is
// stopping and the process has ended.
func (c *child) run() {
	var again <-chan time.Time // set after the process has ended, only if restart is set
	for {
		var answer chan error
		select {
		case answer = <-c.starts:
		case <-again:
		case <-c.stopping:
			return
		}
		wait, err := c.launch()
		if answer != nil {
			answer <- err
		}
		if err != nil {
			c.log.Error("could not be started", "error", err)
		} else {
			c.note(wait())
		}
		if again = nil; c.restart > 0 {
			again = time.After(c.restart)
		}
	}
}

// environ returns the environment of a process with a role. A session and a data node use
// half of the processors unless GOMAXPROCS says how many: a busy one leaves the others to
// the nodes beside it, and an idle one wakes fewer threads. The metas and their database,
// which keep the leader's lease, use all.
func environ(role string) []string {
	if os.Getenv("GOMAXPROCS") != "" || role != roleSession && role != roleData {
		return os.Environ()
	}
	return append(os.Environ(), fmt.Sprint("GOMAXPROCS=", max(1, runtime.GOMAXPROCS(0)/2)))
}

// launch starts the process, or the server inside this one. When it returns, pid and
// start time are on disk. The result waits for its end.
func (c *child) launch() (wait func() record, err error) {
	out, err := os.OpenFile(LogPath(c.dir, c.spec.Name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	rec := record{spec: c.spec, State: stateRunning}
	if c.inside != nil {
		if rec.server, err = c.inside(c.spec.Name, out); err != nil {
			return nil, errors.Join(err, out.Close())
		}
		rec.ProcessID = identify(os.Getpid())
		rec.Inside = c.record().Inside + 1
		wait = func() record { return awaitServer(rec, out) }
	} else {
		defer out.Close() // the process has its own descriptor
		cmd := exec.Command(c.spec.Program, c.spec.Args...)
		cmd.Stdout, cmd.Stderr = out, out
		cmd.Env = environ(c.spec.Role)
		// The process gets its own group, so that Ctrl-C at the terminal reaches
		// only the tool, which then stops the processes in order.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			return nil, fmt.Errorf("start %s: %w", c.spec.Name, err)
		}
		rec.ProcessID = identify(cmd.Process.Pid)
		wait = func() record { return awaitProcess(cmd, rec) }
	}
	c.mu.Lock()
	c.rec = rec
	c.mu.Unlock()
	// A stop that began meanwhile has either read the record or is noticed
	// here.
	select {
	case <-c.stopping:
		_ = rec.signal(syscall.SIGKILL) // fails only if it has ended
	default:
	}
	if err := c.saved(); err != nil {
		c.log.Warn("could not write the cluster's state", "error", err)
	}
	c.log.Debug("started", "process", rec.ProcessID)
	return wait, nil
}

// awaitProcess waits until a process has ended and returns its record with how.
func awaitProcess(cmd *exec.Cmd, rec record) record {
	_ = cmd.Wait() // the process state has the result
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	rec.State, rec.Code = stateExited, status.ExitStatus()
	if status.Signaled() {
		rec.State, rec.Code, rec.Signal = stateKilled, 0, status.Signal().String()
	}
	return rec
}

// awaitServer is awaitProcess for a server inside this process. It closes its log.
func awaitServer(rec record, log io.WriteCloser) record {
	defer log.Close()
	<-rec.server.Done()
	rec.server.Kill() // joins the stop that it may have had
	switch err := rec.server.Err(); {
	case errors.Is(err, context.Canceled):
		rec.State, rec.Signal = stateKilled, syscall.SIGKILL.String()
	case err != nil:
		rec.State, rec.Code = stateExited, 1
		_, _ = fmt.Fprintf(log, "%s: %v\n", rec.Name, err) // as the programs do
	default:
		rec.State = stateExited
	}
	return rec
}

// note records how the process has ended.
func (c *child) note(rec record) {
	c.mu.Lock()
	c.rec = rec
	c.mu.Unlock()
	if err := c.saved(); err != nil {
		c.log.Warn("could not write the cluster's state", "error", err)
	}
	select {
	case <-c.stopping:
	default:
		c.log.Info("is down", "process", rec.ProcessID, "state", rec.State, "code", rec.Code, "signal", rec.Signal)
	}
}

// start starts the process; ErrRunning if it is running.
func (c *child) start(ctx context.Context) error {
	answer := make(chan error, 1)
	for {
		if rec := c.record(); rec.State == stateRunning {
			return fmt.Errorf("%w: %s (%s)", ErrRunning, c.spec.Name, rec.ProcessID)
		}
		select {
		case c.starts <- answer:
			return <-answer
		case <-time.After(20 * time.Millisecond): // it may have been started again meanwhile
		case <-c.stopping:
			return fmt.Errorf("start %s: the cluster is stopping", c.spec.Name)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *child) record() record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rec
}
