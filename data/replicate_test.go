package data_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/data"
	"conclave/data/store"
	"conclave/slot"
)

// Article 002: the followers of a slot compare their data with its leader's
// from time to time. A follower that lacks a registration, without a gap in its
// feed, notices it by that alone, and loads the copy again; the registration is
// then there when it leads.
func TestCompare_FollowerThatLostACopyLoadsItAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1 := c.session("session-1", true)
		a, b := serving(t, c)
		d := dataIDIn(0, 1)
		for i := range 3 {
			s1.store(pub(d, fmt.Sprint("r", i), 1, "v"))
		}
		eventually(t, time.Second, "b has all", func() bool { return publishers(b, 0) == 3 })
		time.Sleep(data.CompareBeats*time.Second + 500*time.Millisecond) // between two beats: the next comparison is later than the look below
		assert.Zero(t, differing(b), "equal copies differ in nothing")

		b.LoseCopy(0, store.Key{Owner: s1.id, Data: d, ID: "r1"})
		require.Equal(t, 2, publishers(b, 0))
		eventually(t, data.CompareBeats*time.Second, "loaded again", func() bool { return publishers(b, 0) == 3 })
		assert.Equal(t, slot.CaughtUp, b.state(0), "meanwhile its copy counts")
		assert.Equal(t, 1, differing(b))
		assert.Zero(t, differing(a))

		s1.store(pub(d, "r3", 1, "v")) // the feed continues after the snapshot
		eventually(t, time.Second, "b has all", func() bool { return publishers(b, 0) == 4 })
		time.Sleep(data.CompareBeats * time.Second)
		assert.Equal(t, 1, differing(b))
	})
}

// differing returns how many of its copies a node found to differ from their
// leader's.
func differing(n *node) (found int) {
	all, _ := n.Events().Since(0)
	for _, e := range all {
		if e.Type == "copy.differs" {
			found++
		}
	}
	return found
}

// Each slot of a stream is compared once in 180 beats, however many there are.
func TestCompare_EverySlotInTurn(t *testing.T) {
	for _, n := range []int{0, 1, 7, data.CompareBeats, 400, 16384} {
		seen, last := map[int]int{}, -1
		for range data.CompareBeats {
			for _, id := range data.ComparedNext(n, last) {
				seen[id]++
				last = id
			}
		}
		assert.Len(t, seen, n)
	}
}
