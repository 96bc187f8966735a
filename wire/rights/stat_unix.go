//go:build unix

package rights

import (
	"io/fs"
	"os"
	"syscall"
)

// readableByOthers reports whether this user's file can be read by others.
func readableByOthers(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return info.Mode().Perm()&0o077 != 0 && (!ok || int(stat.Uid) == os.Geteuid())
}
