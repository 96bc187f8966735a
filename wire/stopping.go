package wire

import (
	"strconv"
	"time"
)

// SwitchStopping is the key under which the leader records that the whole
// cluster is about to stop. The value is for how many milliseconds the
// announcement is in force, counted from its arrival at each node; 0 means that
// it was withdrawn or has expired. The version identifies the announcement. It
// is sent with the switches but is not one: operators cannot set it.
const SwitchStopping = "stopping"

// announcement is the record under SwitchStopping; it is zero if there is none.
type announcement struct {
	version uint64
	lasts   time.Duration
}

func (s Switches) announcement() announcement {
	for _, x := range s.List {
		if ms, err := strconv.ParseInt(x.Value, 10, 64); x.Key == SwitchStopping && err == nil && ms > 0 {
			return announcement{x.Version, FromMs(ms)}
		}
	}
	return announcement{}
}

// Stopping returns for how long the announcement that the whole cluster stops
// is still in force at this node: its duration, counted from its arrival by
// this node's own monotonic clock. recorded reports whether the state has an
// announcement. One that has expired stays recorded until the leader clears it.
func (v *View) Stopping() (remaining time.Duration, recorded bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	a := v.state.Switches.announcement()
	if a.lasts == 0 {
		return 0, false
	}
	return max(0, a.lasts-time.Since(v.announced)), true
}

// noteArrival records the time at which a new announcement arrives. mu is held.
func (v *View) noteArrival(next State) {
	if a := next.Switches.announcement(); a != v.state.Switches.announcement() {
		v.announced = time.Now()
	}
}
