package elector_test

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave/elector"
	"conclave/elector/electortest"
	"conclave/elector/electortest/sqlworld"
)

// pollOncePerLease is the cheapest setting for followers without pushed beats.
func pollOncePerLease(c *elector.Config) { c.Poll = c.Lease }

// Counts what an idle election costs the database, in virtual time. The last rows are the
// price of replacing a dead host as soon as its lease has expired although no beats are
// pushed.
func TestIdle_StatementsPerSecond(t *testing.T) {
	for _, row := range []struct {
		mode   string
		change func(*electortest.World)
		option electortest.Option
		watch  time.Duration
		limits map[int]float64 // at most, by the number of candidates
	}{
		{"pushed", pushed, unchanged, 2 * time.Minute, map[int]float64{3: 1.5, 5: 2, 50: 11}},
		{"polling once a lease", nil, pollOncePerLease, 2 * time.Minute, map[int]float64{3: 2, 5: 2.7, 50: 22}},
		{"polling each beat", nil, unchanged, 15 * time.Second, map[int]float64{3: 3.6, 5: 6.2, 50: 64}},
	} {
		for _, n := range []int{3, 5, 50} {
			t.Run(fmt.Sprintf("%s/%d", row.mode, n), func(t *testing.T) {
				sqlworld.InBubble(t, func(t *testing.T, w *sqlworld.World) {
					r := newHarness(t, w, n, row.change, row.option)
					defer r.Stop()
					leader, term := r.Leader()
					r.waitForWaiters(leader, term.Number)
					time.Sleep(3 * time.Second)
					before := r.statements()
					time.Sleep(row.watch)
					rate := float64(r.statements()-before) / row.watch.Seconds()
					t.Logf("%s, %d candidates: %.2f statements per second, at most %v wanted", row.mode, n, rate, row.limits[n])
					edge := float64(n) / row.watch.Seconds() // one statement of each candidate more or less, depending on when the watch begins
					assert.LessOrEqual(t, rate, row.limits[n]+edge)
					assert.Len(t, r.Ledger(), 1, "no leader was deposed")
				})
			})
		}
	}
}

func unchanged(*elector.Config) {}

// kills is how often TestTakeover_OfFiftyCandidates kills. The published figures are of
// twenty kills:
//
//	go test ./elector/tests -run TestTakeover_OfFiftyCandidates -kills 20 -v
var kills = flag.Int("kills", 4, "how often TestTakeover_OfFiftyCandidates kills the leader")

// When the leader of fifty candidates is killed, one of the others competes, once, and
// the rest learn of the new leader. If beats are pushed, that takes little more than one
// read of each candidate: 54 statements. Depending on the scheduler, the first candidates
// may already wait for the new leader's witness when the last one learns of it: with the
// race detector 102 statements and more. If beats are not pushed, each candidate in turn
// acquires the old leader's lock, reads the row, releases the lock, and waits for the new
// leader's: four statements each.
func TestTakeover_OfFiftyCandidates(t *testing.T) {
	for _, mode := range []struct {
		name           string
		change         func(*electortest.World)
		known, waiting uint64 // limits of the statements until all know the leader (the least of all kills), and wait for its witness (each kill)
	}{
		{"pushed", pushed, 3 * 50, 6 * 50},
		{"polling", nil, 5 * 50, 5 * 50},
	} {
		t.Run(mode.name, func(t *testing.T) {
			var attempts []int
			var known, waiting []uint64
			sqlworld.InBubble(t, func(t *testing.T, w *sqlworld.World) {
				r := newHarness(t, w, 50, mode.change)
				defer r.Stop()
				leader, term := r.Leader()
				for i := range *kills { // at different phases of the beat
					r.waitForWaiters(leader, term.Number)
					time.Sleep(time.Duration(i) * 137 * time.Millisecond)
					synctest.Wait() // the last candidate that began to wait may still be logging
					r.attempts()
					before := r.statements()
					name := leader.ID.Name
					leader.Kill()
					leader, term = r.LeaderAfter(term.Number)
					r.follow(leader, term.Number)
					known = append(known, r.statements()-before)
					r.waitForWaiters(leader, term.Number)
					waiting = append(waiting, r.statements()-before)
					tried, won := r.attempts()
					assert.Equal(t, 1, won, "exactly one wins")
					attempts = append(attempts, tried)
					r.Add(name)
				}
			})
			slices.Sort(attempts)
			slices.Sort(known)
			slices.Sort(waiting)
			t.Logf("%s: attempts %v, statements until all know the leader %v, until all wait for its witness %v", mode.name, attempts, known, waiting)
			assert.LessOrEqual(t, attempts[len(attempts)/2], 2, "the median")
			assert.LessOrEqual(t, known[0], mode.known)
			assert.LessOrEqual(t, slices.Max(waiting), mode.waiting)
		})
	}
}
