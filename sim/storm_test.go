package sim_test

import (
	"flag"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/chaos"
	"conclave/sim"
)

var (
	seeds  = flag.Int("seeds", 0, "how many storms, of the seeds from -seed on")
	every  = flag.Int("every", 1, "play each so manieth seed only: for several processes side by side")
	shrink = flag.Int("shrink", 40, "how many plays the search for a shorter story of a failing seed may take")
)

// Storms of one seed after another: whatever happens, nothing is violated, and
// after it all is well again.
func TestStorms(t *testing.T) {
	from, n := max(1, *seed), *seeds
	switch {
	case *scenario != "":
		t.Skip("one scenario is asked for")
	case n == 0 && *seed > 0:
		n = 1
	case n == 0 && (testing.Short() || raceDetector):
		n = 1
	case n == 0:
		n = 10
	}
	began, busy := time.Now(), cpu()
	var played, failed int
	var virtual time.Duration
	for s := from; s < from+uint64(n); s += uint64(*every) {
		ok := t.Run(fmt.Sprint(s), func(t *testing.T) {
			r := tell(t, chaos.Storm(s, nil))
			if r == nil {
				return
			}
			virtual += r.Took
			if t.Failed() && *shrink > 0 {
				shorten(t, r)
			}
		})
		played++
		if !ok {
			failed++
		}
	}
	busy = cpu() - busy
	took := time.Since(began)
	fmt.Printf("storms: %d played from seed %d, %d failed; %s of virtual time in %s, %.2f CPU seconds each, %.1f simulated hours per minute\n",
		played, from, failed, virtual.Round(time.Second), took.Round(time.Second), busy.Seconds()/float64(max(1, played)), virtual.Hours()/max(took.Minutes(), 1e-9))
}

// shorten looks for the fewest faults with which the seed still fails, and shows
// the story.
func shorten(t *testing.T, r *chaos.Result) {
	left, first := *shrink, kinds(r)
	short := chaos.Shrink(r.Scenario, func(s chaos.Scenario) bool {
		if left--; left < 0 {
			return false
		}
		again, err := sim.Play(t, s, sim.Options{})
		require.NoError(t, err)
		return kinds(again) != "" && strings.HasPrefix(kinds(again), first[:min(len(first), 3)])
	})
	t.Logf("the shortest story that still fails so (%d of %d faults):\n%s", len(short.Steps), len(r.Scenario.Steps), short)
}

// kinds are the names of the judges that found something, and of the progress
// that was not made.
func kinds(r *chaos.Result) string {
	var out []string
	for _, v := range r.Verdicts {
		if len(v.Violations) > 0 {
			out = append(out, v.ID)
		}
	}
	if len(r.Failures) > 0 {
		out = append(out, "progress")
	}
	return strings.Join(out, " ")
}

// cpu is what this process has used of the processors.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
