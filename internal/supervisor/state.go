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

// record is what is kept of one process.
type record struct {
	spec
	processID
	State  string `json:"state"`            // starting, running, exited, killed
	Code   int    `json:"code,omitempty"`   // of exited
	Signal string `json:"signal,omitempty"` // of killed
}

// The states that are recorded; what a living process is doing is found out
// when somebody asks.
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
	Stopped    bool      `json:"stopped"`          // it was stopped, and the supervisor is done
	Failed     string    `json:"failed,omitempty"` // what went wrong while it was stopped
	Processes  []record  `json:"processes"`
}

// supervised says that the supervisor lives and has not finished.
func (s state) supervised() bool { return !s.Stopped && s.Supervisor.alive() }

func statePath(dir string) string { return filepath.Join(dir, "cluster.json") }

// load reads the state of a folder; ErrNone when there never was a cluster.
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
		return s, fmt.Errorf("%s is damaged (%w): remove the folder once none of its processes runs", statePath(dir), err)
	}
	return s, nil
}

// save writes the state aside and renames it, so that a reader never sees half
// of it. It holds the token, if any: only its owner may read it.
func (s state) save(dir string) error {
	body, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return writeAside(statePath(dir), append(body, '\n'))
}

func writeAside(path string, body []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // when renamed there is nothing of that name
	_, err = f.Write(body)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// pidPath is where a running process's pid stands, for people's scripts.
func pidPath(dir, name string) string { return filepath.Join(dir, "pids", name+".pid") }

func writePid(dir, name string, pid int) error {
	return writeAside(pidPath(dir, name), []byte(strconv.Itoa(pid)+"\n"))
}

// LogPath is where the process of that name writes its log.
func LogPath(dir, name string) string { return filepath.Join(dir, "logs", name+".log") }

// lockDir takes the folder for this process until it ends, however it ends: the
// kernel drops the lock of a process that was killed. The file is never removed.
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
