package wire

import (
	"strconv"
	"time"
)

// SwitchStopping is the key under which the leader records that the whole cluster
// is about to stop: for how many milliseconds that counts, from the arrival at
// each node; 0 when it was taken back or has passed. Its version tells one
// announcement from the next. It travels with the switches, and is none: no
// operator sets it as one.
const SwitchStopping = "stopping"

// announcement is what the switches have of a stop of the whole cluster.
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

// Stopping returns for how long the announcement that the whole cluster stops is
// still in force at this node: its duration, counted from its arrival here by
// this node's own monotonic clock. recorded is whether the state has one at all;
// one that has passed stays until the leader clears it.
func (v *View) Stopping() (remaining time.Duration, recorded bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	a := v.state.Switches.announcement()
	if a.lasts == 0 {
		return 0, false
	}
	return max(0, a.lasts-time.Since(v.announced)), true
}

// notes takes the moment at which another announcement arrives; mu is held.
func (v *View) notes(next State) {
	if a := next.Switches.announcement(); a != v.state.Switches.announcement() {
		v.announced = time.Now()
	}
}
