//go:build !linux

package live

import "os"

// punch frees nothing here.
func punch(*os.File, int64) {}
