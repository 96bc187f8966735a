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
	"conclave/elector/zklatch"
	"conclave/internal/zktest"
)

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 4)) }

// TestConformance plays the suite of all strategies: on the tree in memory, over
// ZooKeeper's protocol and with the real client, and on a real ZooKeeper if that is
// asked for.
func TestConformance(t *testing.T) {
	t.Run("wire", func(t *testing.T) {
		electortest.Run(t, true, func(t *testing.T) electortest.World { return onWire(t).world(3 * time.Second) })
	})
	t.Run("zookeeper", func(t *testing.T) {
		zktest.New(t)
		// go-zookeeper takes up to a second to close a connection: the half of the lease
		// in which a hand-over is over must be longer.
		electortest.Run(t, false, func(t *testing.T) electortest.World { return onZooKeeper(t).world(3 * time.Second) })
	})
}

// world is the bench for an election; the lease is the sessions' timeout.
func (b *bench) world(lease time.Duration) electortest.World {
	return electortest.World{
		Dial:         b.dial,
		Lease:        lease,
		Bubble:       b.server != nil,
		RequestTexts: []string{"/term", "/line", "_c_", "/line/_c_", "/term", "_c_", "/line"},
		Strategy: func(t testing.TB, spec electortest.NodeSpec) elector.Strategy {
			if b.server == nil { // else no term would ever be taken, and every test would wait for one
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

// crashing drops a strategy's connection with it.
type crashing struct {
	*zklatch.Strategy
	conn *zklatch.Conn
}

func (c crashing) Close() error {
	c.conn.Crash()
	return c.Strategy.Close()
}
