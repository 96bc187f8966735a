package versioncas_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector/electortest"
	"conclave/internal/long"
	"conclave/lab/article003/versioncas"
)

// To see what happens in one seed:
//
//	go test ./lab/article003/versioncas -run TestLate -late-from 2 -late-seeds 1 -v
var (
	lateFrom  = flag.Uint64("late-from", 1, "the first seed that the tests of late nodes play")
	lateSeeds = flag.Uint64("late-seeds", uint64(long.Rounds(4, 10)), "how many seeds they play")
)

// lateFor is how long the stories are.
const lateFor = time.Minute

// lateStory is what happened to the row in the story of one seed: three to five nodes in
// one election, each of which pauses for up to three seconds before about every second
// of its statements, as a process that the machine stops for a while.
type lateStory struct {
	nodes   int
	random  *rand.Rand
	swaps   func(leader string) int // how often a node has tried to win
	soon    time.Duration           // so soon after a tick or a win no check can have found the leader crashed
	trace   []string
	wins    int
	deposed int // wins so soon after the leader's last tick
	twice   int // wins so soon after another node's win
}

// lateRead is the time between two reads of the row.
const lateRead = 50 * time.Millisecond

// playLate plays the story of a seed. start starts the nodes, query reads the row's
// version and its leader ("" if it has none).
func playLate(t *testing.T, seed uint64, query string, start func(t *testing.T, w *world, s *lateStory)) *lateStory {
	random := rand.New(rand.NewPCG(seed, 3))
	s := &lateStory{nodes: 3 + random.IntN(3), random: random}
	inBubble(t, func(t *testing.T, w *world) {
		start(t, w, s)
		began := time.Now()
		var version uint64
		var leader string
		var written time.Time
		what, tried := "won", 0
		for time.Since(began) < lateFor {
			time.Sleep(lateRead)
			var v uint64
			var l string
			require.NoError(t, w.DB.QueryRow(t.Context(), query, nil, &v, &l))
			age := time.Since(written)
			switch {
			case v == version && l == leader:
				continue
			case l == "": // the leader has resigned
			case l == leader && s.swaps(l) == tried:
				what = "ticked"
			default:
				line := fmt.Sprintf("%6.2f s: %s wins", time.Since(began).Seconds(), l)
				if s.wins++; leader != "" && l != leader && age < s.soon-2*lateRead {
					line += fmt.Sprintf(" from %s, which %s %.2f s before", leader, what, age.Seconds())
					if what == "won" {
						s.twice++
					} else {
						s.deposed++
					}
				}
				s.trace = append(s.trace, line)
				what, tried = "won", s.swaps(l)
			}
			version, leader, written = v, l, time.Now()
		}
	})
	return s
}

// pauses makes a node late from now on, before each statement about a table.
func (s *lateStory) pauses(cable *electortest.Cable, table string) {
	var mu sync.Mutex // guards random: the two tasks of a node may be late at once
	random := rand.New(rand.NewPCG(s.random.Uint64(), 4))
	draw := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		pause := time.Duration(random.Int64N(int64(20 * time.Millisecond)))
		if random.IntN(2) == 0 {
			pause = time.Duration(random.Int64N(int64(3 * time.Second)))
		}
		return pause
	}
	var again func()
	again = func() {
		cable.Before(table, func() {
			again()
			time.Sleep(draw())
		})
	}
	again()
}

// playLateArticle plays the story of a seed in the article's form.
func playLateArticle(t *testing.T, seed uint64) *lateStory {
	const query = "SELECT version, IF(leader_id = 0, '', CONCAT('n', leader_id)) FROM leader_election"
	return playLate(t, seed, query, func(t *testing.T, w *world, s *lateStory) {
		require.NoError(t, versioncas.MigrateArticle(t.Context(), w.DB, key))
		s.soon = versioncas.ArticleTick - time.Second // its column stores whole seconds
		nodes := map[string]*versioncas.Service{}
		s.swaps = func(leader string) int { return nodes[leader].Swaps() }
		for i := range s.nodes {
			cable := electortest.NewCable(w.Dial)
			n, err := versioncas.NewService(versioncas.ServiceConfig{DB: w.Open(t, cable.Dial, 10*time.Second), Key: key, ID: int64(i + 1)})
			require.NoError(t, err)
			nodes[fmt.Sprintf("n%d", n.ServiceID())] = n
			s.pauses(cable, "leader_election")
			w.run(t, n)
		}
	})
}

// In the article's form late nodes win twice, and depose living leaders.
func TestLate_ArticleDeposesLivingLeadersAndElectsTwice(t *testing.T) {
	var deposed, twice int
	for seed := *lateFrom; seed < *lateFrom+*lateSeeds; seed++ {
		s := playLateArticle(t, seed)
		for _, line := range s.trace {
			t.Logf("seed %d: %s", seed, line)
		}
		deposed, twice = deposed+s.deposed, twice+s.twice
	}
	t.Logf("living leaders deposed: %d; elections won twice: %d", deposed, twice)
	if *lateSeeds > 1 { // in one seed both faults need not happen
		assert.Positive(t, deposed)
		assert.Positive(t, twice)
	}
	assert.Positive(t, deposed+twice)
}

// One seed gives one story.
func TestLate_OneSeedGivesOneTrace(t *testing.T) {
	assert.Equal(t, playLateArticle(t, *lateFrom).trace, playLateArticle(t, *lateFrom).trace)
}

// In the repaired form the same pauses do neither: each win is a lease after the last
// tick or win.
func TestLate_RepairedDeposesNoLivingLeader(t *testing.T) {
	const query = "SELECT version, SUBSTRING_INDEX(owner, '@', 1) FROM leader_version"
	wins := 0
	for seed := *lateFrom; seed < *lateFrom+*lateSeeds; seed++ {
		s := playLate(t, seed, query, func(t *testing.T, w *world, s *lateStory) {
			s.swaps = func(string) int { return 0 } // no node wins from itself
			s.soon = 3 * time.Second
			world := suite.World(t, w.World, s.soon, 10*time.Second)
			world.Quiet = true
			c := electortest.NewCluster(t, world, s.nodes)
			t.Cleanup(c.Stop)
			for _, n := range c.Nodes() {
				s.pauses(n.Cable, "leader_version")
			}
		})
		for _, line := range s.trace {
			t.Logf("seed %d: %s", seed, line)
		}
		wins += s.wins
		assert.Zero(t, s.deposed, "seed %d", seed)
		assert.Zero(t, s.twice, "seed %d", seed)
	}
	t.Logf("terms: %d", wins)
	assert.Greater(t, wins, int(*lateSeeds), "the pauses cost leaders their terms")
}
