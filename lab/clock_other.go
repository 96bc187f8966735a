//go:build !linux

package lab

import "time"

// shared reads the wall clock: do not step it while the lab runs.
func shared() int64 { return time.Now().UnixNano() }
