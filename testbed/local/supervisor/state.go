package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/prometheus/procfs"
)

// record is the stored state of one process.
type record struct {
	spec
	ProcessID
	State  string `json:"state"`            // starting, running, exited, killed
	Code   int    `json:"code,omitempty"`   // exit code, when exited
	Signal string `json:"signal,omitempty"` // the signal, when killed

	server Server // in the supervisor that runs it inside; nil for a process
}

// alive reports whether the process, or the server inside this one, is running.
func (r record) alive() bool {
	if r.server == nil {
		return r.ProcessID.alive()
	}
	select {
	case <-r.server.Done():
		return false
	default:
		return true
	}
}

// suspended reports whether the process was stopped with SIGSTOP.
func (r record) suspended() bool { return r.server == nil && r.ProcessID.suspended() }

// signal sends a signal to the process, or does to the server inside this one what
// SIGTERM and SIGKILL do.
func (r record) signal(sig syscall.Signal) error {
	if r.server == nil {
		return r.ProcessID.signal(sig)
	}
	switch {
	case !r.alive():
		return os.ErrProcessDone
	case sig == syscall.SIGKILL, sig == syscall.SIGTERM && r.server.Asked(): // a second SIGTERM ends a program, too
		r.server.Kill()
	case sig == syscall.SIGTERM:
		r.server.Stop(nil)
	}
	return nil
}

// The recorded states. The state of a running process is not recorded; look
// asks the process.
const (
	stateStarting = "starting" // no process yet
	stateRunning  = "running"
	stateExited   = "exited"
	stateKilled   = "killed"
)

// state is DIR/cluster.json.
type state struct {
	Supervisor ProcessID `json:"supervisor"`
	Control    string    `json:"control"` // the socket
	Config     Config    `json:"config"`
	Stopped    bool      `json:"stopped"`          // the cluster was stopped and the supervisor has finished
	Failed     string    `json:"failed,omitempty"` // the error of the stop
	Processes  []record  `json:"processes"`
}

// supervised reports whether the supervisor is running and has not finished.
func (s state) supervised() bool { return !s.Stopped && s.Supervisor.alive() }

// runs reports whether the record is of this process, which has not ended, or whose end
// the supervisor has not recorded yet.
func (s state) runs(r record, id ProcessID) bool {
	return r.ProcessID == id && r.State == stateRunning && (r.alive() || s.supervised())
}

func statePath(dir string) string { return filepath.Join(dir, "cluster.json") }

// load reads the state of a folder; ErrNone if no cluster was ever started
// there.
func load(dir string) (state, error) {
	var s state
	body, err := os.ReadFile(statePath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return s, ErrNone
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(body, &s); err != nil {
		return state{}, fmt.Errorf("%s is damaged (%w): remove the folder when none of its processes is running", statePath(dir), err)
	}
	return s, nil
}

// save replaces the file with the state. The file contains the token, if any,
// so only its owner can read it.
func (s state) save(dir string) error {
	body, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return writeAside(statePath(dir), append(body, '\n'))
}

// writeAside writes a temporary file and renames it, so that a reader never
// sees a part of the content.
func writeAside(path string, body []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails if it was renamed
	_, err = f.Write(body)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// LogPath returns the path of the log of the named process.
func LogPath(dir, name string) string { return filepath.Join(dir, "logs", name+".log") }

// lockDir locks the folder for this process. The kernel releases the lock when
// the process ends, also when it is killed. The file is never removed.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, nil
}

var errLocked = errors.New("the folder is locked")

// ProcessID identifies a process. The kernel reuses a pid for another process,
// but not with the same start time, and all nodes inside one process have its pid.
type ProcessID struct {
	PID     int    `json:"pid"`
	Started string `json:"started,omitempty"` // opaque; compared for equality only
	Inside  int    `json:"inside,omitempty"`  // of a node inside the process: which of its starts it is
}

func (p ProcessID) String() string {
	if p.Inside > 0 {
		return fmt.Sprintf("inside pid %d", p.PID)
	}
	return fmt.Sprintf("pid %d", p.PID)
}

// identify returns the identity of the process that now has the pid.
func identify(pid int) ProcessID {
	_, started, _ := inspect(pid) // if it has ended, the id is never alive
	return ProcessID{PID: pid, Started: started}
}

// alive reports whether this process, not another one with its pid, is running.
// A zombie is not.
func (p ProcessID) alive() bool {
	status, started, ok := inspect(p.PID)
	return ok && p.PID > 0 && started == p.Started && status != 'Z' && status != 'X'
}

// suspended reports whether the process was stopped with SIGSTOP.
func (p ProcessID) suspended() bool {
	status, started, ok := inspect(p.PID)
	return ok && started == p.Started && (status == 'T' || status == 't')
}

// signal sends sig to this process and never to another one with its pid. The
// handle is opened before the start time is compared, so where the kernel has
// pid file descriptors the pid cannot be reused between the two.
func (p ProcessID) signal(sig syscall.Signal) error {
	if p.PID <= 0 {
		return os.ErrProcessDone
	}
	proc, err := os.FindProcess(p.PID)
	if err != nil {
		return os.ErrProcessDone
	}
	defer func() { _ = proc.Release() }() // there is nothing to do if it fails
	if !p.alive() {
		return os.ErrProcessDone
	}
	err = proc.Signal(sig)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// inspect reads the kernel's status letter and start time of a process: from
// /proc where there is one, else from ps.
func inspect(pid int) (status byte, started string, ok bool) {
	if pid <= 0 {
		return 0, "", false
	}
	if _, err := procfs.Self(); err == nil {
		p, err := procfs.NewProc(pid)
		if err != nil {
			return 0, "", false
		}
		stat, err := p.Stat()
		return (stat.State + " ")[0], strconv.FormatUint(stat.Starttime, 10), err == nil
	}
	out, err := exec.Command("ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
	stat, start, found := strings.Cut(strings.TrimSpace(string(out)), " ")
	if err != nil || !found || stat == "" {
		return 0, "", false
	}
	return stat[0], strings.TrimSpace(start), true
}
