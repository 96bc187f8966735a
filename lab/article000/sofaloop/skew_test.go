package sofaloop_test

import (
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/long"
	"conclave/internal/sleep"
)

// skewSeed is the only seed that TestSkew_TwoLeadersAct plays; 0: several.
//
//	go test ./lab/article000/sofaloop -run TestSkew -skew-seed 17 -v
var skewSeed = flag.Uint64("skew-seed", 0, "the only seed that TestSkew_TwoLeadersAct plays; 0: several")

// skewed is the outcome of one play of a seed.
type skewed struct {
	behind   time.Duration // the old leader's clock
	renewed  time.Duration // from the old leader's last renewal to the successor's first act
	both     time.Duration // from the successor's first act to the old leader's last one
	acts     int           // of the old leader, in that time
	newTerm  uint64
	believed int // nodes that believed they lead, just after the successor's win
}

// acts records what the nodes that believe they lead do: orders to other nodes,
// which do not pass through the database, and in which there is no term.
type acts struct {
	mu   sync.Mutex
	list []act
}

type act struct {
	by string
	at time.Time
}

// by returns a node's acts since a time.
func (a *acts) by(name string, since time.Time) (list []time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, x := range a.list {
		if x.by == name && !x.at.Before(since) {
			list = append(list, x.at)
		}
	}
	return list
}

// playSkew plays a seed: three nodes, one of which leads; the leader's clock is
// behind the database's; then it does not reach the database any more.
func playSkew(t *testing.T, seed uint64, behind time.Duration) (s skewed) {
	s.behind = behind
	inBubble(t, func(t *testing.T, w *world) {
		random := rand.New(rand.NewPCG(seed, 14))
		pause := func(atMost time.Duration) { time.Sleep(time.Duration(random.Int64N(int64(atMost)))) }
		did := &acts{}
		launch := func(name string, clock time.Duration) *node {
			n := w.start(t, name, ahead(clock))
			acting := sync.WaitGroup{}
			acting.Go(func() { // every 20 ms, while it leads
				for sleep.For(t.Context(), 20*time.Millisecond) == nil {
					if n.AmILeader() {
						did.mu.Lock()
						did.list = append(did.list, act{name, time.Now()})
						did.mu.Unlock()
					}
				}
			})
			t.Cleanup(acting.Wait) // t's context has ended by then
			return n
		}
		pause(time.Second)
		old := launch("a", -behind)
		require.True(t, old.AmILeader())
		pause(time.Second)
		nodes := []*node{old, launch("b", 0)}
		pause(time.Second)
		nodes = append(nodes, launch("c", 0))
		time.Sleep(5 * time.Second)
		pause(10 * time.Second)

		release := old.cable.Stall()
		renewed := old.Leader().Expire.Add(-10 * time.Second)
		defer release()
		for len(did.by("b", renewed))+len(did.by("c", renewed)) == 0 {
			time.Sleep(time.Millisecond)
		}
		s.believed = len(leaders(nodes...))
		first := time.Now()
		s.renewed, s.newTerm = first.Sub(renewed), w.row(t).term
		time.Sleep(90 * time.Second)
		if after := did.by("a", first); len(after) > 0 {
			s.both, s.acts = after[len(after)-1].Sub(first), len(after)
		}
	})
	return s
}

// README's row "two leaders": with the original's loop they are possible by clock
// skew, and both act. For how long is the skew, plus half of the duration, minus
// the time after which the successor leads (21 to 23 s after the last renewal).
// With right clocks the same seeds have one leader at any time.
func TestSkew_TwoLeadersAct(t *testing.T) {
	seeds := []uint64{1, 2, 3, 4}[:long.Rounds(1, 4)]
	if *skewSeed != 0 {
		seeds = []uint64{*skewSeed}
	}
	for _, seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 0))
		behind := 15*time.Second + time.Duration(random.Int64N(int64(45*time.Second))).Round(time.Millisecond)

		s := playSkew(t, seed, behind)
		t.Logf("seed %d: the clock of the leader is %v behind; it does not reach the database; another leads %v after the last renewal; both act for %v (%d acts of the old leader)",
			seed, behind, s.renewed, s.both, s.acts)
		assert.Equal(t, 2, s.believed, "seed %d", seed)
		assert.Greater(t, s.renewed, 20*time.Second)
		assert.Less(t, s.renewed, 23100*time.Millisecond)
		assert.InDelta(t, behind+10*time.Second-s.renewed, s.both, float64(50*time.Millisecond), "seed %d", seed)
		assert.Greater(t, s.acts, 50)
		assert.Equal(t, uint64(2), s.newTerm)
		assert.Equal(t, s, playSkew(t, seed, behind), "a seed is played the same way each time")

		right := playSkew(t, seed, 0)
		assert.Equal(t, 1, right.believed, "seed %d", seed)
		assert.Zero(t, right.acts, "seed %d", seed)
	}
}

// With 20 s about eleven are the limit: the old leader leads for ten and the skew
// after its last renewal, another after 21 at the earliest.
func TestSkew_UnderElevenSecondsHasOneLeader(t *testing.T) {
	for seed := range uint64(2) {
		s := playSkew(t, seed, 10*time.Second)
		assert.Zero(t, s.both, "seed %d", seed)
		assert.Equal(t, 1, s.believed, "seed %d", seed)
	}
}
