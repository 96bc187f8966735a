package simulated_test

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/internal/long"
	"conclave/testbed/check"
	"conclave/testbed/console/journal"
	"conclave/testbed/scenario"
	"conclave/testbed/simulated"
)

var (
	seeds  = flag.Int("seeds", 0, "number of storms, with the seeds from -seed on")
	queue  = flag.String("queue", "", "a file with which several processes share the seeds, or the scenarios: each one is played once")
	sumTo  = flag.String("sum", "", "write the sums to this file: played, failed, virtual seconds, seconds")
	shrink = flag.Int("shrink", 40, "most plays to search for the earliest fault that a failing seed needs, and for a shorter scenario")
)

// TestStorms plays the storms of consecutive seeds. No invariant may be
// violated, and after the faults the cluster must recover.
func TestStorms(t *testing.T) {
	from, n := max(1, *seed), *seeds
	switch {
	case *only != "":
		t.Skip("-scenario is set")
	case n == 0 && *seed > 0:
		n = 1
	case n == 0 && (testing.Short() || raceDetector):
		n = 1
	case n == 0:
		n = long.Rounds(2, 10)
	}
	collectSeldom(t)
	initialize(t)
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
			r := playAndCheck(t, scenario.Storm(s, nil))
			if r == nil {
				return
			}
			sum.virtual += r.Took
			if t.Failed() {
				// Printed at once: go test prints a test's log only when all
				// have ended.
				fmt.Printf("storm %d failed: %s; play it again: %s; its faults in the playground: %s\n", s, kinds(r), command(r.Scenario), simulated.Living(r.Scenario))
			}
			if t.Failed() && *shrink > 0 {
				because(t, r)
				earliest(t, r)
				shorten(t, r)
			}
		})
		sum.count(ok)
	}
	if *sumTo != "" {
		text := fmt.Sprintf("%d %d %.0f %.1f\n", sum.played, sum.failed, sum.virtual.Seconds(), time.Since(sum.began).Seconds())
		require.NoError(t, os.WriteFile(*sumTo, []byte(text), 0o644))
	}
	if n == 1 {
		fmt.Println("the same faults in the playground, on its living cluster:", simulated.Living(scenario.Storm(from, nil)))
	}
	fmt.Printf("storms: %s, %.2f CPU seconds each\n", sum, (cpu()-sum.busy).Seconds()/float64(max(1, sum.played)))
}

// numbers returns a function that returns 0, 1, 2, ... Processes that share a
// file of that name get each number once: a process appends a byte, whose
// position is its number. So all processes are busy until the end, even if one
// is slower.
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

// tally counts the storms of one process and reports progress once a minute.
type tally struct {
	from               uint64
	of, played, failed int
	virtual            time.Duration
	began, reported    time.Time
	busy               time.Duration
}

func (y *tally) count(ok bool) {
	y.played++
	if !ok {
		y.failed++
	}
	if y.reported.IsZero() {
		y.reported = y.began
	}
	if time.Since(y.reported) >= time.Minute {
		y.reported = time.Now()
		fmt.Printf("of %d storms: %s\n", y.of, y)
	}
}

func (y tally) String() string {
	took := time.Since(y.began)
	return fmt.Sprintf("%d played from seed %d, %d failed, %.2f virtual hours in %.0f seconds, %.1f simulated hours per minute",
		y.played, y.from, y.failed, y.virtual.Hours(), took.Seconds(), y.virtual.Hours()/max(took.Minutes(), 1e-9))
}

// because logs what led to the first violation of each kind in a run, and to what failed
// otherwise. The run is played again and recorded for that.
func because(t *testing.T, r *scenario.Result) {
	var recording simulated.Recording
	again, err := simulated.Play(t, r.Scenario, simulated.Options{Recording: &recording})
	require.NoError(t, err)
	records := recording.Records(again.History)
	verdicts := again.Verdicts
	if len(again.Failures) > 0 {
		verdicts = append(verdicts, check.Verdict{ID: again.Scenario.Name, Violations: []check.Violation{{At: again.FailedAt, What: again.Failures[0]}}})
	}
	for _, v := range verdicts {
		if len(v.Violations) == 0 {
			continue
		}
		first := slices.MinFunc(v.Violations, func(a, b check.Violation) int { return cmp.Compare(a.At, b.At) })
		var lines strings.Builder
		for _, l := range journal.WhyBroken(records, again.History.Began, v.ID, first) {
			fmt.Fprintf(&lines, "\n%s", l)
		}
		t.Logf("what led to it, as far as the simulator knows, the newest first (journal.Why has the rule):%s", &lines)
	}
}

// earliest logs the first fault without which the same seed does not fail in this way.
func earliest(t *testing.T, r *scenario.Result) {
	fails := failsAgain(t, r)
	for i, l := range r.Scenario.Lines {
		if l.Step == nil {
			continue
		}
		without := r.Scenario
		without.Lines = slices.Delete(slices.Clone(without.Lines), i, i+1)
		if left, ok := fails(without); left < 0 {
			break
		} else if !ok {
			t.Logf("the earliest fault without which the same seed does not fail in this way: %.3f s %s", l.At.Seconds(), l.Step)
			return
		}
	}
	t.Logf("with any single fault left out the same seed still fails in this way, as far as %d plays show", *shrink)
}

// failsAgain returns a function that plays a scenario and reports whether it fails as r did,
// and how many plays are left; with less than none it was not played.
func failsAgain(t *testing.T, r *scenario.Result) func(scenario.Scenario) (left int, fails bool) {
	left := *shrink
	first, _, _ := strings.Cut(kinds(r), " ")
	return func(s scenario.Scenario) (int, bool) {
		if left--; left < 0 {
			return left, false
		}
		again, err := simulated.Play(t, s, simulated.Options{})
		require.NoError(t, err)
		kind, _, _ := strings.Cut(kinds(again), " ")
		return left, kind == first
	}
}

// shorten searches for the fewest faults with which the seed still fails, and
// logs that scenario.
func shorten(t *testing.T, r *scenario.Result) {
	again := failsAgain(t, r)
	short := scenario.Shrink(r.Scenario, func(s scenario.Scenario) bool { _, fails := again(s); return fails })
	t.Logf("the shortest scenario that still fails in this way (%d of %d faults):\n%s", len(short.Lines), len(r.Scenario.Lines), short)
}

// kinds returns the ids of the checkers that found violations, and "progress"
// if an expectation failed.
func kinds(r *scenario.Result) string {
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
