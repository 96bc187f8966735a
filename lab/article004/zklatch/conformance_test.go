package zklatch_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/elector/electortest"
	"conclave/internal/zktest"
	"conclave/lab/article004/zklatch"
)

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 4)) }

// TestConformance runs the suite of all strategies: on a server in memory, and with
// TEST_ALL=1 on a real ZooKeeper.
func TestConformance(t *testing.T) {
	t.Run("wire", func(t *testing.T) {
		electortest.Run(t, true, func(t *testing.T) electortest.World { return onWire(t).world(3 * time.Second) })
	})
	t.Run("zookeeper", func(t *testing.T) {
		zktest.New(t)
		// go-zookeeper takes up to a second to close a connection, and a hand-over
		// must end within half a lease.
		electortest.Run(t, false, func(t *testing.T) electortest.World { return onZooKeeper(t).world(3 * time.Second) })
	})
}

// world returns a world of electortest; its lease is the session timeout.
func (b *bench) world(lease time.Duration) electortest.World {
	return electortest.World{
		Dial:         b.dial,
		Lease:        lease,
		Bubble:       b.server != nil,
		RequestTexts: []string{"/term", "/line", "_c_", "/line/_c_", "/term", "_c_", "/line"},
		Strategy: func(t testing.TB, spec electortest.NodeSpec) elector.Strategy {
			if b.server == nil { // with less no term would be won
				require.LessOrEqual(t, lease, zktest.Longest, "the server's longest session must last for the lease")
			}
			conn, err := zklatch.Dial(zklatch.ConnConfig{Servers: []string{b.addr}, Timeout: lease, Dial: spec.Cable.Dial, Logger: spec.Logger})
			require.NoError(t, err)
			s, err := zklatch.NewStrategy(zklatch.StrategyConfig{Tree: conn, Path: b.path + "/election", Rand: spec.Rand, Logger: spec.Logger})
			require.NoError(t, err)
			return crashing{s, conn}
		},
		FencedWrite: func(ctx context.Context, owner conclave.NodeID, term uint64) (bool, error) {
			return b.user().Fenced(ctx, b.path+"/election", owner, term, b.path+"/state/table", []byte("written"))
		},
	}
}

// crashing is a strategy that drops its connection when it is closed.
type crashing struct {
	*zklatch.Strategy
	conn *zklatch.Conn
}

func (c crashing) Close() error {
	c.conn.Crash()
	return c.Strategy.Close()
}
