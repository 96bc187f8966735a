package supervisor

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// claims are the ports that a cluster has taken, before its processes listen and
// while one of them is down: one locked file for each port, in a folder that all
// supervisors of this machine share. That a port is free is no claim: two that
// start at the same moment would both find it so. The kernel drops the locks of a
// supervisor that was killed; what its processes still listen on is not free.
type claims struct {
	dir   string
	files []*os.File
}

func newClaims() *claims { return &claims{dir: filepath.Join(os.TempDir(), "conclave-ports")} }

// folder makes the folder, which the last that releases its claims removes.
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
		return err // a link to nowhere: no file can be made there
	}
	return nil // another supervisor has made it, or has just removed it
}

// take claims a port; false when another supervisor has it, or a process listens
// there. Where no file can be locked only the second is known.
func (c *claims) take(port int) bool {
	path := filepath.Join(c.dir, strconv.Itoa(port))
	for {
		f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|syscall.O_NOFOLLOW, 0o644)
		if errors.Is(err, os.ErrNotExist) && c.folder() == nil {
			continue
		}
		if errors.Is(err, os.ErrPermission) { // another user's
			f, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
		}
		if err != nil {
			return free(port)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			f.Close()
			return !errors.Is(err, syscall.EWOULDBLOCK) && free(port)
		}
		if !isStill(path, f) { // released, and so removed, since it was opened
			f.Close()
			continue
		}
		if !free(port) {
			c.drop(f)
			return false
		}
		c.files = append(c.files, f)
		return true
	}
}

// release gives all claims up.
func (c *claims) release() {
	for _, f := range c.files {
		c.drop(f)
	}
	c.files = nil
	_ = os.Remove(c.dir) // others have claims there: it stays
}

// drop removes a file while it is locked, and unlocks it.
func (c *claims) drop(f *os.File) {
	_ = os.Remove(f.Name()) // another user's folder: the file stays, unlocked
	f.Close()
}

// isStill reports whether the path leads to the open file.
func isStill(path string, f *os.File) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}
