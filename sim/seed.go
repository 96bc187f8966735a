//go:build !onetrace

package sim

// OneTrace says whether one seed gives one trace, event by event: the runtime's
// own draws are seeded, too (see the command onetrace).
const OneTrace = false

func seedBubble(uint64) {}
