package simulated_test

import "time"

// cpu returns 0: a browser does not report the processor time.
func cpu() time.Duration { return 0 }
