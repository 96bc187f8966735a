package lab

import "time"

// origin ties this process's monotonic clock to the one that all processes of the
// machine share, so that instants of two of them can be compared.
var origin = func() (o struct {
	at   time.Time
	mark int64
}) {
	before := shared()
	o.at = time.Now()
	o.mark = before + (shared()-before)/2
	return o
}()

// stamp is an instant on the shared clock, in nanoseconds.
func stamp(t time.Time) int64 { return origin.mark + t.Sub(origin.at).Nanoseconds() }
