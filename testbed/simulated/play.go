package simulated

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/cryptotest"
	"testing/synctest"

	"conclave/testbed/scenario"
)

// Play plays a scenario in a new bubble and returns when the bubble has ended.
// If OneTrace is true garbage collection is off meanwhile, because the
// collector's goroutines would change the order of the bubble's.
func Play(t *testing.T, s scenario.Scenario, o Options) (*scenario.Result, error) {
	var result *scenario.Result
	var err error
	if OneTrace {
		defer debug.SetGCPercent(debug.SetGCPercent(-1)) // before runtime.GC: with a goal set, the runtime would return free memory to the system
		runtime.GC()
	}
	cryptotest.SetGlobalRandom(t, s.Cluster.Seed) // the database's handshake has random bytes
	synctest.Test(t, func(*testing.T) {
		SeedBubble(s.Cluster.Seed)
		cluster := New(o)
		if o.Timeline != nil {
			t := scenario.NewTimeline(cluster, o.Timeline)
			result, err = scenario.Play(context.Background(), s, t, t)
			return
		}
		result, err = scenario.Play(context.Background(), s, cluster)
	})
	return result, err
}

// Living returns the fragment of the playground's address at which a browser plays the
// storm of a scenario (playground.Start): the same faults on as many nodes, but with the
// clients and the settings of the living cluster, so that it may end otherwise.
func Living(s scenario.Scenario) string {
	c := s.Cluster
	return fmt.Sprintf("#living=%d*%d*%d*%d~7*storm***%[1]d", c.Seed, c.Metas, c.Sessions, c.Datas) // by 7 s it serves
}

// Transcript writes the history, one line for each entry, in order.
func Transcript(w io.Writer, r *scenario.Result) error {
	for _, e := range r.History.Entries {
		if _, err := io.WriteString(w, e.String()+"\n"); err != nil {
			return err
		}
	}
	return nil
}
