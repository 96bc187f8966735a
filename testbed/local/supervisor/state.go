package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// record is the stored state of one process.
type record struct {
	spec
	processID
	State  string `json:"state"`            // starting, running, exited, killed
	Code   int    `json:"code,omitempty"`   // exit code, when exited
	Signal string `json:"signal,omitempty"` // the signal, when killed
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
	Supervisor processID `json:"supervisor"`
	Control    string    `json:"control"` // the socket
	Config     Config    `json:"config"`
	Stopped    bool      `json:"stopped"`          // the cluster was stopped and the supervisor has finished
	Failed     string    `json:"failed,omitempty"` // the error of the stop
	Processes  []record  `json:"processes"`
}

// supervised reports whether the supervisor is running and has not finished.
func (s state) supervised() bool { return !s.Stopped && s.Supervisor.alive() }

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
		return s, fmt.Errorf("%s is damaged (%w): remove the folder when none of its processes is running", statePath(dir), err)
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

// pidPath returns the path of a running process's pid file, which is for users'
// scripts.
func pidPath(dir, name string) string { return filepath.Join(dir, "pids", name+".pid") }

func writePid(dir, name string, pid int) error {
	return writeAside(pidPath(dir, name), []byte(strconv.Itoa(pid)+"\n"))
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
