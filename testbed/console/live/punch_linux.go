package live

import (
	"os"
	"syscall"
)

const (
	keepSize  = 0x1 // FALLOC_FL_KEEP_SIZE
	punchHole = 0x2 // FALLOC_FL_PUNCH_HOLE
)

// punch frees the first n bytes of a file; offsets stay as they are. A file system
// that cannot do it keeps them.
func punch(f *os.File, n int64) {
	_ = syscall.Fallocate(int(f.Fd()), punchHole|keepSize, 0, n)
}
