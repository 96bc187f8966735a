package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Handle reaches the cluster of a folder from any process: through its
// supervisor, or, when that was killed, by the recorded pids.
type Handle struct {
	dir string
}

// Open returns the handle of a folder; ErrNone when there never was a cluster.
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

// Dir is the cluster's folder.
func (h *Handle) Dir() string { return h.dir }

// Supervisor is the pid of the living supervisor, 0 when there is none.
func (h *Handle) Supervisor() int {
	if s, err := load(h.dir); err == nil && s.supervised() {
		return s.Supervisor.PID
	}
	return 0
}

// Running says that something of this cluster runs.
func (h *Handle) Running() bool {
	s, err := load(h.dir)
	return err == nil && (s.supervised() || len(s.living()) > 0)
}

// Processes is the table of ps, sorted by name: what each process does now.
func (h *Handle) Processes(ctx context.Context) ([]Process, error) {
	s, err := load(h.dir)
	if err != nil {
		return nil, err
	}
	return look(ctx, s.Processes), nil
}

// Rows is the table as it is written down: who runs, without asking any process
// what it is doing.
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

// Process is one row of ps.
func (h *Handle) Process(ctx context.Context, name string) (Process, error) {
	_, r, err := h.record(name)
	if err != nil {
		return Process{}, err
	}
	return lookAt(ctx, r), nil
}

// Addresses lists where the processes of a role answer, living or not.
func (h *Handle) Addresses(role string) ([]string, error) {
	s, err := load(h.dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, r := range s.Processes {
		if r.Role == role {
			out = append(out, r.Address)
		}
	}
	return out, nil
}

// Command is what a process of the cluster is started as.
func (h *Handle) Command(name string) (program string, args []string, err error) {
	_, r, err := h.record(name)
	return r.Program, slices.Clone(r.Args), err
}

// Token is what the cluster asks for.
func (h *Handle) Token() string {
	s, err := load(h.dir)
	if err != nil {
		return ""
	}
	return s.Config.Token
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

// AwaitReady waits until every process is ready. It fails when one ends before,
// with the last line of its log, and names those that were not ready when ctx
// ended.
func (h *Handle) AwaitReady(ctx context.Context) error { return h.awaitReady(ctx, h.Processes) }

// awaitReady is AwaitReady by another's looks.
func (h *Handle) awaitReady(ctx context.Context, look func(context.Context) ([]Process, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var waiting []string
	for {
		processes, err := look(ctx)
		if err != nil && !errors.Is(err, ErrNone) {
			return err
		}
		before := waiting
		waiting = nil
		for _, p := range processes {
			switch p.State {
			case stateExited, stateKilled:
				return fmt.Errorf("%s ended while the cluster was starting (%s): %s", p.Name, p.State, lastLine(LogPath(h.dir, p.Name)))
			case "ready":
			default:
				waiting = append(waiting, p.Name+" ("+orElse(p.Why, p.State)+")")
			}
		}
		if len(processes) > 0 && len(waiting) == 0 {
			return nil
		}
		if ctx.Err() != nil && before != nil { // nobody was asked to the end: who waited before counts
			waiting = before
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return &NotReadyError{Cause: ctx.Err(), Waiting: waiting, Logs: filepath.Join(h.dir, "logs")}
		}
	}
}

// NotReadyError reports that a wait for the cluster's processes ended before all
// of them were ready.
type NotReadyError struct {
	Cause   error    // the error of the wait's context
	Waiting []string // the processes that were not ready, each with its state
	Logs    string   // the folder of their logs
}

func (e *NotReadyError) Error() string {
	return fmt.Sprintf("%v: not ready: %s; their logs are in %s", e.Cause, strings.Join(e.Waiting, ", "), e.Logs)
}

func (e *NotReadyError) Unwrap() error { return e.Cause }

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// Kill sends a signal to one process; after SIGKILL it returns when the process
// is gone and noted as killed. ErrDown when it does not run.
func (h *Handle) Kill(ctx context.Context, name string, sig syscall.Signal) error {
	s, r, err := h.record(name)
	if err != nil {
		return err
	}
	if r.State != stateRunning {
		return fmt.Errorf("%w: %s is %s", ErrDown, name, r.State)
	}
	switch err := r.signal(sig); {
	case errors.Is(err, os.ErrProcessDone):
		return fmt.Errorf("%w: %s, once pid %d, is gone", ErrDown, name, r.PID)
	case err != nil:
		return fmt.Errorf("signal %s (pid %d): %w", name, r.PID, err)
	}
	if sig != syscall.SIGKILL {
		return nil
	}
	if err := awaitEnd(ctx, []record{r}, 5*time.Second); err != nil {
		return err
	}
	if s.supervised() {
		return h.awaitNoted(ctx, r)
	}
	return h.update(func(kept *record) {
		if kept.processID == r.processID {
			kept.State, kept.Signal = stateKilled, sig.String()
		}
	}, name)
}

// awaitNoted waits until the supervisor has reaped that life and written it down.
func (h *Handle) awaitNoted(ctx context.Context, was record) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		_, now, err := h.record(was.Name)
		if err != nil || now.State != stateRunning || now.processID != was.processID {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// AwaitEnd waits until the life of a process that had this pid is over, and
// returns what is there then.
func (h *Handle) AwaitEnd(ctx context.Context, name string, pid int) (Process, error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		_, r, err := h.record(name)
		if err != nil {
			return Process{}, err
		}
		if r.PID != pid || r.State != stateRunning || !r.alive() && h.Supervisor() == 0 {
			return lookAt(ctx, r), nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return Process{}, fmt.Errorf("%s (pid %d) has not ended: %w", name, pid, ctx.Err())
		}
	}
}

// Start starts one process that is down. It does not wait until it is ready.
func (h *Handle) Start(ctx context.Context, name string) error {
	s, r, err := h.record(name)
	if err != nil {
		return err
	}
	if s.supervised() {
		return h.ask(ctx, s, "/start/"+name)
	}
	if r.alive() {
		return fmt.Errorf("%w: %s runs as pid %d", ErrRunning, name, r.PID)
	}
	out, err := os.OpenFile(LogPath(h.dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(r.Program, r.Args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // nobody supervises it: it must outlive this tool
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	id := identify(cmd.Process.Pid)
	if err := writePid(h.dir, name, id.PID); err != nil {
		return err
	}
	return h.update(func(kept *record) {
		*kept = record{spec: r.spec, processID: id, State: stateRunning}
	}, name)
}

// Down stops the cluster and returns when nothing of it is left. ErrNone when
// nothing runs.
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
		return h.downByPids(ctx, s, now)
	}
	if err := h.ask(ctx, s, fmt.Sprintf("/stop?now=%t", now)); err != nil {
		if !now {
			return fmt.Errorf("the supervisor (pid %d) does not answer: %w; `conclave down --now` kills it and all processes", s.Supervisor.PID, err)
		}
		_ = s.Supervisor.signal(syscall.SIGKILL) // gone already is what we want
		return h.downByPids(ctx, s, true)
	}
	if err := h.awaitStopped(ctx); err != nil {
		return err
	}
	if s, err = load(h.dir); err == nil && s.Failed != "" {
		err = errors.New(s.Failed)
	}
	return err
}

// awaitStopped waits until the supervisor has let go of the folder, which it
// does last; its process may live on (a benchmark, a test).
func (h *Handle) awaitStopped(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		lock, err := lockDir(h.dir)
		if err == nil {
			return lock.Close()
		}
		if !errors.Is(err, errLocked) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the cluster is still stopping: %w", ctx.Err())
		}
	}
}

// downByPids stops the processes of a supervisor that was killed.
func (h *Handle) downByPids(ctx context.Context, s state, now bool) error {
	lock, err := lockDir(h.dir)
	if errors.Is(err, errLocked) {
		return busy(h.dir)
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	err = stop(ctx, s.Processes, s.Config, now)
	for i, r := range s.Processes {
		if r.State == stateRunning && !r.alive() {
			s.Processes[i].State = stateExited
			_ = os.Remove(pidPath(h.dir, r.Name)) // it may never have been written
		}
	}
	s.Stopped = err == nil
	return errors.Join(err, s.save(h.dir))
}

// update changes one record of a cluster that nobody supervises.
func (h *Handle) update(change func(*record), name string) error {
	lock, err := lockDir(h.dir)
	if errors.Is(err, errLocked) {
		return busy(h.dir)
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	s, _, err := h.record(name)
	if err != nil {
		return err
	}
	for i := range s.Processes {
		if s.Processes[i].Name == name {
			change(&s.Processes[i])
		}
	}
	return s.save(h.dir)
}

// ask posts to the supervisor's socket.
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
	var out refusal
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		return err
	}
	return out.err()
}
