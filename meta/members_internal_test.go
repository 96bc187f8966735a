package meta

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/wire"
)

// Hosts that are gone for good are never known to be dead: only the latest
// sessions are remembered.
func TestLostSession_LatestAreKept(t *testing.T) {
	r, now := newRoster(time.Second), time.Now()
	for i := range 2 * lostAtMost {
		id := conclave.NodeID{Name: fmt.Sprint("session-", i), Incarnation: "x"}
		_, ok := r.admit(wire.Member{Node: id, Role: conclave.RoleSession}, conclave.NodeID{}, nil, now)
		require.True(t, ok)
		now = now.Add(2 * time.Second)
		require.Len(t, r.expire(now), 1)
	}
	lost := r.lostSessions()
	require.Len(t, lost, lostAtMost)
	assert.Equal(t, fmt.Sprint("session-", lostAtMost), lost[0].Node.Name)
	assert.Equal(t, fmt.Sprint("session-", 2*lostAtMost-1), lost[lostAtMost-1].Node.Name)
}
