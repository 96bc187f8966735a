package scenario

import (
	"time"

	"conclave/testbed"
	"conclave/testbed/check"
)

// Narrator follows a run while it is played. The player calls its methods one at
// a time and waits for them; a slow one delays the scenario.
type Narrator interface {
	// Begins is called when a scene begins, Ended when it has ended with all that
	// continues it; soFar returns what was recorded until then, with the nodes' events, which takes longer the
	// longer the run is.
	Begins(s Scene)
	Ended(soFar func() (*check.History, error))
	// Did is called for each action that was carried out, or failed with err.
	Did(a testbed.Action, err error)
	// Decided is called when an expectation of the scenario, or one of those before
	// its beginning (leader, even, full), was met or not, took after it was due, counted
	// from the beginning of the action that is due at the same time;
	// now is the observation that decided it.
	Decided(e Expectation, now testbed.Snapshot, took time.Duration, failure error)
}
