package sim

import (
	"context"
	"io"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/cryptotest"
	"testing/synctest"

	"conclave/chaos"
)

// Play plays a scenario in a bubble of its own, which ends with it. Where one seed
// is to give one trace nothing is collected meanwhile: the collector's own
// goroutines would come between those of the bubble.
func Play(t *testing.T, s chaos.Scenario, o Options) (*chaos.Result, error) {
	var result *chaos.Result
	var err error
	if OneTrace {
		defer debug.SetGCPercent(debug.SetGCPercent(-1)) // first: while there is a goal, the runtime hands free memory back
		runtime.GC()
	}
	cryptotest.SetGlobalRandom(t, s.Cluster.Seed) // the database greets with random bytes
	synctest.Test(t, func(*testing.T) {
		seedBubble(s.Cluster.Seed)
		result, err = chaos.Play(context.Background(), s, New(o))
	})
	return result, err
}

// Transcript writes what happened, one line for each thing, in order.
func Transcript(w io.Writer, r *chaos.Result) error {
	for _, e := range r.History.Entries {
		if _, err := io.WriteString(w, e.String()+"\n"); err != nil {
			return err
		}
	}
	return nil
}
