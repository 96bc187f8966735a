package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// claims are the ports that a cluster has reserved, from before its processes
// listen, and also while one of them is down. Each is a locked file in a folder
// that all supervisors of this machine share. Checking that a port is free is
// not enough, because two supervisors that start at the same moment would both
// find it free. When a supervisor is killed the kernel releases its locks; the
// ports on which its processes still listen are not free.
type claims struct {
	dir   string
	owner string // the cluster's folder, which each file names
	files []*os.File
}

// holder returns who has a port that could not be claimed, as far as it is known.
func (c *claims) holder(port int) string {
	owner, err := os.ReadFile(filepath.Join(c.dir, strconv.Itoa(port)))
	if err != nil || len(owner) == 0 {
		return "another program"
	}
	return fmt.Sprintf("the cluster in %q", owner)
}

// folder creates the folder. The last supervisor to release its claims removes
// it.
func (c *claims) folder() error {
	err := os.Mkdir(c.dir, 0o777)
	if err == nil {
		return os.Chmod(c.dir, 0o777|os.ModeSticky) // for the supervisors of other users
	}
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	if info, err := os.Lstat(c.dir); err == nil && info.Mode()&os.ModeSymlink != 0 {
		_, err := os.Stat(c.dir)
		return err // a dangling link: no file can be created there
	}
	return nil // another supervisor has created it, or has just removed it
}

// take claims a port and reports whether it could: not if another supervisor
// has claimed it or a process listens there. Where no file can be locked, only
// listening processes are detected.
func (c *claims) take(port int) bool {
	path := filepath.Join(c.dir, strconv.Itoa(port))
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o644)
		if errors.Is(err, os.ErrNotExist) && c.folder() == nil {
			continue
		}
		if errors.Is(err, os.ErrPermission) { // the file belongs to another user
			f, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
		}
		if err != nil {
			return free(port)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			f.Close()
			return !errors.Is(err, syscall.EWOULDBLOCK) && free(port)
		}
		if !isStill(path, f) { // released and removed since it was opened
			f.Close()
			continue
		}
		if !free(port) {
			c.drop(f)
			return false
		}
		c.files = append(c.files, f)
		if err := f.Truncate(0); err == nil { // not another user's file
			_, _ = f.WriteString(c.owner) // it is only shown
		}
		return true
	}
}

// release releases all claims.
func (c *claims) release() {
	for _, f := range c.files {
		c.drop(f)
	}
	c.files = nil
	_ = os.Remove(c.dir) // fails while other supervisors have claims
}

// drop removes a file while it is locked and then unlocks it.
func (c *claims) drop(f *os.File) {
	_ = os.Remove(f.Name()) // in another user's folder the file stays, unlocked
	f.Close()
}

// isStill reports whether path still names the open file.
func isStill(path string, f *os.File) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}
