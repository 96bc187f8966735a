package meta_test

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave/meta"
	"conclave/wire"
)

// resolver is a network in which a name can disappear, as those of containers
// do.
type resolver struct {
	wire.Network
	gone    string       // the address whose name disappears
	refuses atomic.Int64 // how many dials to it are refused before the name disappears
	down    atomic.Bool
}

func (r *resolver) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if r.down.Load() && address == r.gone {
		if r.refuses.Add(-1) >= 0 {
			return nil, syscall.ECONNREFUSED
		}
		return nil, &net.DNSError{Err: "no such host", Name: address, IsNotFound: true}
	}
	return r.Network.DialContext(ctx, network, address)
}

// A container's process is killed: the first dial is refused, then its name no
// longer resolves. Without a refusal the missing name proves nothing: the
// leader itself may be cut off.
func TestEviction_MissingNameCountsAfterARefusal(t *testing.T) {
	for name, c := range map[string]struct {
		refuses int64
		evicted bool
	}{"refused, then unnamed": {1, true}, "unnamed only": {0, false}} {
		t.Run(name, func(t *testing.T) {
			var names []*resolver
			inBubble(t, 1, func(t *testing.T, cl *cluster) {
				cl.startNodes(2, 0)
				for _, r := range names {
					r.refuses.Store(c.refuses)
					r.down.Store(true)
				}
				start := time.Now()
				cl.kill("data-1")
				cl.eventually(10*time.Second, func() bool { _, found := cl.nodeInfo("data-1"); return !found })
				assert.Equal(t, c.evicted, cl.has("node.evicted"))
				assert.Equal(t, c.evicted, time.Since(start) < time.Second, "after %v", time.Since(start))
			}, func(cfg *meta.Config) {
				r := &resolver{Network: cfg.Network, gone: "data-1:9000"}
				names = append(names, r)
				cfg.Network = r
			})
		})
	}
}
