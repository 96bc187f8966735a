//go:build !linux

package termcas_test

import "time"

// monotonic returns the wall clock, which all processes share here; it may be set.
func monotonic() time.Duration { return time.Duration(time.Now().UnixNano()) }
