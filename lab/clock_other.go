//go:build !linux

package lab

import "time"

// sharedNow reads the wall clock, which must not be stepped while the lab runs.
func sharedNow() int64 { return time.Now().UnixNano() }
