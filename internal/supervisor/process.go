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

// processID names one life of a process: the pid alone is given to another
// process sooner or later, pid and start time together never are.
type processID struct {
	PID     int    `json:"pid"`
	Started string `json:"started,omitempty"` // opaque; compared for equality only
}

// identify names the living process of a pid.
func identify(pid int) processID {
	_, started, _ := inspect(pid) // gone already: an id that is never alive
	return processID{PID: pid, Started: started}
}

// alive says that this very process still runs (a zombie does not).
func (p processID) alive() bool {
	status, started, ok := inspect(p.PID)
	return ok && p.PID > 0 && started == p.Started && status != 'Z' && status != 'X'
}

// suspended says that it was stopped with SIGSTOP.
func (p processID) suspended() bool {
	status, started, ok := inspect(p.PID)
	return ok && started == p.Started && (status == 'T' || status == 't')
}

// signal sends sig to this very process. The handle is taken before the start
// time is compared: where the kernel has pid file descriptors, no recycled pid
// can be hit even between the two.
func (p processID) signal(sig syscall.Signal) error {
	if p.PID <= 0 {
		return os.ErrProcessDone
	}
	proc, err := os.FindProcess(p.PID)
	if err != nil {
		return os.ErrProcessDone
	}
	defer func() { _ = proc.Release() }() // nothing is left to do if it fails
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
		// The second field, the command in brackets, may hold anything: count from its end.
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
