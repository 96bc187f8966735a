//go:build onetrace

package simulated

import "runtime"

// OneTrace reports whether the runtime's own random choices are seeded too, so
// that one seed gives one trace, event by event (see the command onetrace).
const OneTrace = true

// SeedBubble decides what the runtime chooses in the bubble of the caller.
func SeedBubble(seed uint64) { runtime.SetBubbleSeed(seed) }
