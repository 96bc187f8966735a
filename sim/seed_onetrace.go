//go:build onetrace

package sim

import "runtime"

// OneTrace says whether one seed gives one trace, event by event: the runtime's
// own draws are seeded, too (see the command onetrace).
const OneTrace = true

func seedBubble(seed uint64) { runtime.SetBubbleSeed(seed) }
