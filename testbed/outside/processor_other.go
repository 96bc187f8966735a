//go:build !unix

package outside

import "time"

// ProcessorTime returns 0: that of other processes is not known in a browser.
func ProcessorTime(int) time.Duration { return 0 }
