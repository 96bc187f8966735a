package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"conclave/testbed/outside"
)

// Handle gives any process access to the cluster of a folder. Without its
// supervisor, processes are still found by their recorded pids, to be killed and
// stopped.
type Handle struct {
	dir string
}

// Open returns the handle of a folder; ErrNone if no cluster was ever started
// there.
func Open(dir string) (*Handle, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if _, err := load(abs); err != nil {
		return nil, err
	}
	return &Handle{dir: abs}, nil
}

// Dir returns the cluster's folder.
func (h *Handle) Dir() string { return h.dir }

// Supervisor returns the pid of the running supervisor, 0 if there is none.
func (h *Handle) Supervisor() int {
	if s, err := load(h.dir); err == nil && s.supervised() {
		return s.Supervisor.PID
	}
	return 0
}

// Running reports whether the supervisor or any process of this cluster is
// running.
func (h *Handle) Running() bool {
	s, err := load(h.dir)
	return err == nil && (s.supervised() || len(s.living()) > 0)
}

// Processes asks each process for its state and returns the rows sorted by
// name.
func (h *Handle) Processes(ctx context.Context) ([]Process, error) {
	s, err := load(h.dir)
	if err != nil {
		return nil, err
	}
	return look(ctx, s.Processes, s.Config), nil
}

// Rows returns the rows as recorded, without asking the processes for their
// state.
func (h *Handle) Rows() ([]Process, error) {
	s, err := load(h.dir)
	out := make([]Process, len(s.Processes))
	for i, r := range s.Processes {
		out[i] = r.row()
		if r.State == stateRunning {
			out[i].PID = r.PID
		}
	}
	slices.SortFunc(out, func(a, b Process) int { return compareNames(a.Name, b.Name) })
	return out, err
}

// Process asks one process for its state.
func (h *Handle) Process(ctx context.Context, name string) (Process, error) {
	s, r, err := h.record(name)
	if err != nil {
		return Process{}, err
	}
	return lookAt(ctx, r, probeClient(s.Config)), nil
}

// Addresses returns the addresses of the processes of a role, running or not.
func (h *Handle) Addresses(role string) ([]string, error) {
	rows, err := h.Rows()
	var out []string
	for _, p := range rows {
		if p.Role == role {
			out = append(out, p.HTTP+p.SQL)
		}
	}
	return out, err
}

// Command returns the command line of a process.
func (h *Handle) Command(name string) (program string, args []string, err error) {
	_, r, err := h.record(name)
	return r.Program, slices.Clone(r.Args), err
}

// Token returns the token with which the cluster is operated, empty if it has none.
func (h *Handle) Token() string {
	s, _ := load(h.dir) // of a cluster that is not known it is empty
	return s.Config.operatorToken(h.dir)
}

// Config returns how the cluster was started.
func (h *Handle) Config() (Config, error) {
	s, err := load(h.dir)
	return s.Config, err
}

// TLSDir returns the folder with the certificates of clients, or "" if the cluster
// does not use TLS.
func (h *Handle) TLSDir() string {
	s, _ := load(h.dir) // of a cluster that is not known it is empty
	return s.Config.tlsDir(roleClient)
}

func (h *Handle) record(name string) (state, record, error) {
	s, err := load(h.dir)
	if err != nil {
		return s, record{}, err
	}
	i := slices.IndexFunc(s.Processes, func(r record) bool { return r.Name == name })
	if i < 0 {
		return s, record{}, noProcess(name, s.Processes)
	}
	return s, s.Processes[i], nil
}

// AwaitReady waits until every process is ready. If one ends before, it returns an
// error with the last line of its log, or the one for which the supervisor gave up. If
// ctx ends, it returns a NotReadyError.
func (h *Handle) AwaitReady(ctx context.Context) error {
	return h.AwaitAll(ctx, h.Processes)
}

// AwaitAll is AwaitReady for the processes that look returns.
func (h *Handle) AwaitAll(ctx context.Context, look func(context.Context) ([]Process, error)) error {
	waiting, err := outside.AwaitReady(ctx, 20*time.Millisecond, func(ctx context.Context) (bool, []string, error) {
		processes, err := look(ctx)
		if err != nil && !errors.Is(err, ErrNone) {
			return false, nil, err
		}
		var waiting []string
		for _, p := range processes {
			switch p.State {
			case stateExited, stateKilled:
				if s, err := load(h.dir); err == nil && s.Failed != "" {
					return false, nil, errors.New(s.Failed)
				}
				return false, nil, fmt.Errorf("%s ended before it was ready (%s): %s", p.Name, p.State, lastLine(LogPath(h.dir, p.Name)))
			case "ready":
			default:
				waiting = append(waiting, p.Name+" ("+cmp.Or(p.Why, p.State)+")")
			}
		}
		return len(processes) > 0 && len(waiting) == 0, waiting, nil
	})
	if err != nil && errors.Is(err, ctx.Err()) {
		return &NotReadyError{Cause: err, Waiting: waiting, Logs: filepath.Join(h.dir, "logs")}
	}
	return err
}

// NotReadyError reports that a wait for the cluster's processes ended before
// all of them were ready.
type NotReadyError struct {
	Cause   error    // the error of the wait's context
	Waiting []string // the processes that were not ready, each with its state
	Logs    string   // the folder of their logs
}

func (e *NotReadyError) Error() string {
	return fmt.Sprintf("%v: not ready: %s; their logs are in %s", e.Cause, strings.Join(e.Waiting, ", "), e.Logs)
}

func (e *NotReadyError) Unwrap() error { return e.Cause }

// Terminate sends SIGTERM to one process and returns which one that was, for AwaitEnd and
// Runs: another one may be started in its place. It returns ErrDown if the process is not
// running.
func (h *Handle) Terminate(name string) (ProcessID, error) {
	_, r, err := h.signal(context.Background(), name, syscall.SIGTERM)
	return r.ProcessID, err
}

// Kill sends a signal to one process. After SIGKILL it waits until the process
// has ended and the supervisor, if there is one, has recorded it as killed. It
// returns ErrDown if the process is not running.
func (h *Handle) Kill(ctx context.Context, name string, sig syscall.Signal) error {
	s, r, err := h.signal(ctx, name, sig)
	if err != nil || sig != syscall.SIGKILL {
		return err
	}
	if !s.Config.OneProcess {
		if err := awaitEnd(ctx, []record{r}, 5*time.Second); err != nil {
			return err
		}
	}
	_, err = h.AwaitEnd(ctx, name, r.ProcessID)
	return err
}

// signal sends a signal to one process and returns the record of that process.
func (h *Handle) signal(ctx context.Context, name string, sig syscall.Signal) (state, record, error) {
	s, r, err := h.record(name)
	if err != nil {
		return s, r, err
	}
	if r.State != stateRunning {
		return s, r, fmt.Errorf("%w: %s is %s", ErrDown, name, r.State)
	}
	send := r.signal
	if s.Config.OneProcess { // the pid is that of all nodes: the supervisor does it to one of them
		send = func(sig syscall.Signal) error { return h.askToEnd(ctx, s, name, sig) }
	}
	switch err := send(sig); {
	case errors.Is(err, os.ErrProcessDone):
		return s, r, fmt.Errorf("%w: %s (%s) has ended", ErrDown, name, r.ProcessID)
	case errors.Is(err, ErrOneProcess), errors.Is(err, ErrDown):
		return s, r, err
	case err != nil:
		return s, r, fmt.Errorf("signal %s (%s): %w", name, r.ProcessID, err)
	}
	return s, r, nil
}

// askToEnd makes the supervisor kill or stop a node inside its process.
func (h *Handle) askToEnd(ctx context.Context, s state, name string, sig syscall.Signal) error {
	switch {
	case sig != syscall.SIGKILL && sig != syscall.SIGTERM:
		return fmt.Errorf("%s %w; end the cluster, and start one of processes with `conclave up`", name, ErrOneProcess)
	case !s.supervised():
		return os.ErrProcessDone
	}
	return h.ask(ctx, s, fmt.Sprintf("/end/%s?now=%t", name, sig == syscall.SIGKILL))
}

// OneProcess reports whether all nodes run inside the supervisor's process.
func (h *Handle) OneProcess() bool {
	s, err := load(h.dir)
	return err == nil && s.Config.OneProcess
}

// Runs reports whether this process of the name has not ended, as far as its supervisor
// has recorded it.
func (h *Handle) Runs(name string, id ProcessID) bool {
	s, r, err := h.record(name)
	return err == nil && s.runs(r, id)
}

// AwaitEnd waits until this process of the name has ended, and returns the state of the
// process that then has the name.
func (h *Handle) AwaitEnd(ctx context.Context, name string, id ProcessID) (p Process, err error) {
	err = outside.Until(ctx, 2*time.Millisecond, func() (bool, error) {
		s, r, err := h.record(name)
		if err != nil || s.runs(r, id) {
			return false, err
		}
		p = lookAt(ctx, r, probeClient(s.Config))
		return true, nil
	})
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%s (%s) has not ended: %w", name, id, err)
	}
	return p, err
}

// Start starts one process that is down, without waiting until it is ready. It
// returns ErrNone if the cluster was stopped. Only the supervisor starts processes:
// it records each of them, so that none is left behind by Down.
func (h *Handle) Start(ctx context.Context, name string) error {
	s, _, err := h.record(name)
	if err == nil {
		err = s.mayStart(h.dir)
	}
	if err != nil {
		return err
	}
	return h.ask(ctx, s, "/start/"+name)
}

// MayStart returns the error with which Start would refuse any process: ErrNone if the
// cluster was stopped, another one if its supervisor has ended.
func (h *Handle) MayStart() error {
	s, err := load(h.dir)
	if err != nil {
		return err
	}
	return s.mayStart(h.dir)
}

func (s state) mayStart(dir string) error {
	switch {
	case s.Stopped:
		return fmt.Errorf("%w: it was stopped, in %s", ErrNone, dir)
	case !s.supervised():
		return fmt.Errorf("the supervisor (pid %d) has ended, and nothing else starts processes; stop what it has left with `conclave down --dir %s`", s.Supervisor.PID, dir)
	}
	return nil
}

// Down stops the cluster and waits until all its processes have ended. It
// returns ErrNone if none is running.
func (h *Handle) Down(ctx context.Context, now bool) error {
	s, err := load(h.dir)
	if err != nil {
		return err
	}
	supervised := s.supervised()
	if !supervised && len(s.living()) == 0 {
		return ErrNone
	}
	if !supervised {
		return h.downByPids(ctx, now)
	}
	asked := h.ask(ctx, s, fmt.Sprintf("/stop?now=%t", now))
	limit := time.Second
	if asked == nil {
		limit = killedLimit
	}
	switch {
	case asked == nil && !now, h.finishes(ctx, limit):
	case !now:
		return fmt.Errorf("supervisor (pid %d) does not answer: %w; kill it and all processes with `conclave down --now --dir %s`", s.Supervisor.PID, asked, h.dir)
	default:
		_ = s.Supervisor.signal(syscall.SIGKILL) // fails only if it has ended
		limited, cancel := context.WithTimeout(ctx, killedLimit)
		defer cancel()
		if err := h.awaitStopped(limited); err != nil { // its last thread unlocks the folder
			return err
		}
		return h.downByPids(ctx, true)
	}
	if err := h.awaitStopped(ctx); err != nil {
		return err
	}
	if s, err = load(h.dir); err == nil && s.Failed != "" {
		err = errors.New(s.Failed)
	}
	return err
}

// killedLimit is how long the end of what was killed is waited for.
const killedLimit = 5 * time.Second

// finishes reports whether the supervisor ends by itself within a limit, also if it does
// not answer: at its end it closes its socket before it unlocks the folder.
func (h *Handle) finishes(ctx context.Context, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return h.awaitStopped(ctx) == nil
}

// awaitStopped waits until the supervisor has unlocked the folder, which is the
// last thing it does. Its process may continue (a benchmark, a test).
func (h *Handle) awaitStopped(ctx context.Context) error {
	err := outside.Until(ctx, 10*time.Millisecond, func() (bool, error) {
		lock, err := lockDir(h.dir)
		if err == nil {
			return true, lock.Close()
		}
		if errors.Is(err, errLocked) {
			err = nil
		}
		return false, err
	})
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("the cluster is still stopping: %w", err)
	}
	return err
}

// downByPids stops the processes of a supervisor that was killed. It holds the
// folder's lock, so that no new supervisor starts meanwhile.
func (h *Handle) downByPids(ctx context.Context, now bool) error {
	lock, err := lockDir(h.dir)
	if errors.Is(err, errLocked) {
		return busy(h.dir)
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	s, err := load(h.dir)
	if err != nil {
		return err
	}
	err = stop(ctx, s.Processes, s.Config, now)
	for i, r := range s.Processes {
		if r.State == stateRunning && !r.alive() {
			s.Processes[i].State = stateExited
		}
	}
	s.Stopped = err == nil
	return errors.Join(err, s.save(h.dir))
}

// ask sends a POST request to the supervisor's socket.
func (h *Handle) ask(ctx context.Context, s state, path string) error {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", s.Control)
	}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://supervisor"+path, nil)
	if err != nil {
		return err
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return answerOf(res)
}

// lastLine returns the last line of a log, which is usually the reason why the
// process has ended.
func lastLine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "no log"
	}
	defer f.Close()
	_, _ = f.Seek(-4096, io.SeekEnd) // a shorter one is read from the start
	body, _ := io.ReadAll(f)
	return cmp.Or(outside.LastLine(string(body)), "no log")
}
