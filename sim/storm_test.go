package sim_test

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
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
	queue  = flag.String("queue", "", "a file that several processes share, to play each seed once between them")
	sumTo  = flag.String("sum", "", "a file for the sums: played, failed, virtual seconds, seconds")
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
	if sim.OneTrace { // each play collects what the last one left, and nobody else needs to
		defer debug.SetGCPercent(debug.SetGCPercent(-1))
		wantLargePages()
	}
	next, err := numbers(*queue)
	require.NoError(t, err)
	sum := tally{from: from, of: n, began: time.Now(), busy: cpu()}
	for {
		at, err := next()
		require.NoError(t, err)
		if at >= n {
			break
		}
		s := from + uint64(at)
		ok := t.Run(fmt.Sprint(s), func(t *testing.T) {
			r := tell(t, chaos.Storm(s, nil))
			if r == nil {
				return
			}
			sum.virtual += r.Took
			if t.Failed() {
				// go test keeps what a test says until all have ended.
				fmt.Printf("storm %d failed: %s; play it again: %s\n", s, kinds(r), command(r.Scenario))
			}
			if t.Failed() && *shrink > 0 {
				shorten(t, r)
			}
		})
		sum.count(ok)
	}
	if *sumTo != "" {
		text := fmt.Sprintf("%d %d %.0f %.1f\n", sum.played, sum.failed, sum.virtual.Seconds(), time.Since(sum.began).Seconds())
		require.NoError(t, os.WriteFile(*sumTo, []byte(text), 0o644))
	}
	fmt.Printf("storms: %s, %.2f CPU seconds each\n", sum, (cpu()-sum.busy).Seconds()/float64(max(1, sum.played)))
}

// numbers gives 0, 1, 2, ...; processes that share a file of that name get each
// number once between them. Whoever takes one appends a byte: where it lands is
// the number. So all are busy until the end, though one has the slower processor.
func numbers(shared string) (next func() (int, error), err error) {
	n := -1
	if shared == "" {
		return func() (int, error) { n++; return n, nil }, nil
	}
	f, err := os.OpenFile(shared, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return func() (int, error) {
		if _, err := f.Write([]byte{'.'}); err != nil {
			return 0, err
		}
		end, err := f.Seek(0, io.SeekCurrent)
		return int(end) - 1, err
	}, nil
}

// tally counts the storms of one process, and says once a minute that it lives.
type tally struct {
	from               uint64
	of, played, failed int
	virtual            time.Duration
	began, said        time.Time
	busy               time.Duration
}

func (y *tally) count(ok bool) {
	y.played++
	if !ok {
		y.failed++
	}
	if y.said.IsZero() {
		y.said = y.began
	}
	if time.Since(y.said) >= time.Minute {
		y.said = time.Now()
		fmt.Printf("under way to %d: %s\n", y.of, y)
	}
}

func (y tally) String() string {
	took := time.Since(y.began)
	return fmt.Sprintf("%d played from seed %d, %d failed, %.2f virtual hours in %.0f seconds, %.1f simulated hours per minute",
		y.played, y.from, y.failed, y.virtual.Hours(), took.Seconds(), y.virtual.Hours()/max(took.Minutes(), 1e-9))
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
