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

// seldom is a follower that polls once a lease: the cheapest without pushed beats.
func seldom(c *elector.Config) { c.Poll = c.Lease }

// What an idle election costs the database, counted: no time is measured here. The last
// rows are the price of following a dead host as soon as its lease is over, although
// nobody pushes the beats.
func TestIdleStatementsPerSecond(t *testing.T) {
	for _, row := range []struct {
		mode   string
		change func(*electortest.World)
		option electortest.Option
		watch  time.Duration
		limits map[int]float64 // at most, by the number of candidates
	}{
		{"pushed", pushed, nothing, 2 * time.Minute, map[int]float64{3: 1.5, 5: 2, 50: 11}},
		{"polling once a lease", nil, seldom, 2 * time.Minute, map[int]float64{3: 2, 5: 2.7, 50: 22}},
		{"polling each beat", nil, nothing, 15 * time.Second, map[int]float64{3: 3.6, 5: 6.2, 50: 64}},
	} {
		for _, n := range []int{3, 5, 50} {
			t.Run(fmt.Sprintf("%s/%d", row.mode, n), func(t *testing.T) {
				sqlworld.InBubble(t, func(t *testing.T, w *sqlworld.World) {
					r := newRig(t, w, n, row.change, row.option)
					defer r.Stop()
					leader, term := r.Leader()
					r.parked(leader, term.Number)
					time.Sleep(3 * time.Second)
					before := r.statements()
					time.Sleep(row.watch)
					rate := float64(r.statements()-before) / row.watch.Seconds()
					t.Logf("%s, %d candidates: %.2f statements per second, at most %v wanted", row.mode, n, rate, row.limits[n])
					edge := float64(n) / row.watch.Seconds() // one statement of each more or less, by where the watch begins
					assert.LessOrEqual(t, rate, row.limits[n]+edge)
					assert.Len(t, r.Ledger(), 1, "nobody was deposed")
				})
			})
		}
	}
}

func nothing(*elector.Config) {}

// kills is how often TestTakeoverOfFifty kills. The figures are of twenty:
//
//	go test ./elector -run TestTakeoverOfFifty -kills 20 -v
var kills = flag.Int("kills", 4, "how often TestTakeoverOfFifty kills the leader")

// Fifty candidates, and the leader is killed: one of them campaigns, once, and all the
// others hear of it. Where beats are pushed that takes hardly more than a look of each:
// 54 statements. The first of them may stand by the new leader already when the last one
// hears of it, which the scheduler decides: under the race detector it is 102 and more.
// Where they are not pushed, each of them is woken by the old leader's lock, in turn, looks,
// gives it to the next, and stands by the new leader: four statements.
func TestTakeoverOfFifty(t *testing.T) {
	for _, mode := range []struct {
		name            string
		change          func(*electortest.World)
		known, standing uint64 // statements until all know the leader (the least), and stand by it (each)
	}{
		{"pushed", pushed, 3 * 50, 6 * 50},
		{"polling", nil, 5 * 50, 5 * 50},
	} {
		t.Run(mode.name, func(t *testing.T) {
			var attempts []int
			var known, standing []uint64
			sqlworld.InBubble(t, func(t *testing.T, w *sqlworld.World) {
				r := newRig(t, w, 50, mode.change)
				defer r.Stop()
				leader, term := r.Leader()
				for i := range *kills { // at different moments of the beat
					r.parked(leader, term.Number)
					time.Sleep(time.Duration(i) * 137 * time.Millisecond)
					synctest.Wait() // whoever has just parked is still saying so
					r.attempts()
					before := r.statements()
					name := leader.ID.Name
					leader.Kill()
					leader, term = r.LeaderAfter(term.Number)
					r.follow(leader, term.Number)
					known = append(known, r.statements()-before)
					r.parked(leader, term.Number)
					standing = append(standing, r.statements()-before)
					tried, won := r.attempts()
					assert.Equal(t, 1, won, "exactly one wins")
					attempts = append(attempts, tried)
					r.Add(name)
				}
			})
			slices.Sort(attempts)
			slices.Sort(known)
			slices.Sort(standing)
			t.Logf("%s: attempts %v, statements until all know %v, until all stand by %v", mode.name, attempts, known, standing)
			assert.LessOrEqual(t, attempts[len(attempts)/2], 2, "the median")
			assert.LessOrEqual(t, known[0], mode.known)
			assert.LessOrEqual(t, slices.Max(standing), mode.standing)
		})
	}
}
