package supervisor

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// processID identifies a process. The kernel reuses a pid for another process,
// but not with the same start time.
type processID struct {
	PID     int    `json:"pid"`
	Started string `json:"started,omitempty"` // opaque; compared for equality only
}

// identify returns the identity of the process that now has the pid.
func identify(pid int) processID {
	_, started, _ := inspect(pid) // if it has ended, the id is never alive
	return processID{PID: pid, Started: started}
}

// alive reports whether this process, not another one with its pid, is running.
// A zombie is not.
func (p processID) alive() bool {
	status, started, ok := inspect(p.PID)
	return ok && p.PID > 0 && started == p.Started && status != 'Z' && status != 'X'
}

// suspended reports whether the process was stopped with SIGSTOP.
func (p processID) suspended() bool {
	status, started, ok := inspect(p.PID)
	return ok && started == p.Started && (status == 'T' || status == 't')
}

// signal sends sig to this process and never to another one with its pid. The
// handle is opened before the start time is compared, so where the kernel has
// pid file descriptors the pid cannot be reused between the two.
func (p processID) signal(sig syscall.Signal) error {
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
	if body, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil {
		// The second field is the command in brackets, which may contain spaces
		// and brackets, so fields are counted from the last one on.
		fields := bytes.Fields(body[bytes.LastIndexByte(body, ')')+1:])
		if len(fields) < 20 {
			return 0, "", false
		}
		return fields[0][0], string(fields[19]), true
	}
	if _, err := os.Stat("/proc/self/stat"); err == nil {
		return 0, "", false
	}
	out, err := exec.Command("ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
	stat, start, found := strings.Cut(strings.TrimSpace(string(out)), " ")
	if err != nil || !found || stat == "" {
		return 0, "", false
	}
	return stat[0], strings.TrimSpace(start), true
}
