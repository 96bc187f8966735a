package termcas_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector/electortest"
	"conclave/elector/termcas"
	"conclave/internal/long"
)

// TestStorm injects random faults from a seed, and checks the invariants: a term has one
// owner and terms rise (the cluster's ledger); with takeover by lease no two perceived
// leaderships overlap; an effect of an older term is never accepted after one of a newer;
// and a node leads within two leases after the storm.
func TestStorm(t *testing.T) {
	seeds := uint64(long.Rounds(1, 6))
	for _, takeover := range []termcas.Takeover{termcas.Witness, termcas.Lease} {
		for seed := range seeds {
			for _, shared := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/seed %d/shared %t", takeover, seed, shared), func(t *testing.T) {
					bubble(t, takeover, func(t *testing.T, b *bench) {
						b.shared = shared
						storm(t, b, takeover, seed)
					})
				})
			}
		}
	}
}

func storm(t *testing.T, b *bench, takeover termcas.Takeover, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	b.Quiet, b.Push = true, seed%2 == 0
	c := electortest.NewCluster(t, b.World, 4)
	defer c.Stop()

	// A watcher looks for overlapping leaderships, and writes as each perceived leader.
	ended := make(chan struct{})
	var watchers sync.WaitGroup
	defer watchers.Wait()
	endWatch := sync.OnceFunc(func() { close(ended) })
	defer endWatch()
	overlaps, newest := 0, uint64(0)
	watchers.Go(func() {
		for tick := 0; ; tick++ {
			select {
			case <-ended:
				return
			case <-time.After(7 * time.Millisecond):
			}
			leaders := c.PerceivedLeaders()
			if len(leaders) > 1 {
				overlaps++
			} else if tick%20 != 0 {
				continue
			}
			for _, n := range leaders {
				term, leading := n.Leading()
				if !leading {
					continue
				}
				written, err := b.fencedWrite(t.Context(), n.ID, term.Number)
				if err == nil && written {
					assert.GreaterOrEqual(t, term.Number, newest, "an effect of term %d after one of %d", term.Number, newest)
					newest = max(newest, term.Number)
				}
			}
		}
	})

	var repairs []func()
	for range 40 {
		time.Sleep(time.Duration(random.IntN(int(b.Lease / 2))))
		alive := c.Others(nil)
		n := alive[random.IntN(len(alive))]
		switch random.IntN(9) {
		case 0:
			if len(alive) > 2 {
				n.Kill()
				c.Add(n.ID.Name)
			}
		case 1:
			n.Cable.Cut()
			repairs = append(repairs, n.Cable.Mend)
		case 2:
			repairs = append(repairs, n.Cable.Stall())
		case 3:
			n.Cable.Break()
		case 4:
			n.Cable.LoseReply([]string{"UPDATE", "GREATEST", "SELECT", "GET_LOCK", "INSERT"}[random.IntN(5)])
		case 5:
			go n.Resign(t.Context())
		case 6:
			n.Seen(n.Highest() + uint64(random.IntN(3)))
		case 7:
			repairs = append(repairs, n.Cable.Delay([]string{"UPDATE", "GREATEST"}[random.IntN(2)]))
		default:
			for _, repair := range repairs {
				repair()
			}
			repairs = nil
		}
	}
	for _, repair := range repairs {
		repair()
	}
	for _, n := range c.Others(nil) {
		n.Cable.Mend()
	}
	healed := time.Now()
	c.Until("a leader after the storm", func() bool { return len(c.PerceivedLeaders()) == 1 })
	assert.LessOrEqual(t, time.Since(healed), 2*b.Lease+b.Lease/2)
	endWatch()
	watchers.Wait()
	if takeover == termcas.Lease {
		assert.Zero(t, overlaps, "with takeover by lease no two perceived leaderships overlap")
	}
	require.NotEmpty(t, c.Ledger())
	t.Logf("%d leaderships, newest effect in term %d, overlaps seen: %d", len(c.Ledger()), newest, overlaps)
}
