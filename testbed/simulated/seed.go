//go:build !onetrace

package simulated

// OneTrace reports whether the runtime's own random choices are seeded too, so
// that one seed gives one trace, event by event (see the command onetrace).
const OneTrace = false

// SeedBubble does nothing.
func SeedBubble(uint64) {}
