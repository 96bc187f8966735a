package meta

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
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

// A beat whose report was late carries none: it renews the lease, and what the
// node reported before stays.
func TestRoster_BeatWithoutReportsKeepsThem(t *testing.T) {
	r, now := newRoster(time.Second), time.Now()
	id := conclave.NodeID{Name: "data-1", Incarnation: "x"}
	st := &stream{id: id, role: conclave.RoleData, stop: func(error) {}, echo: make(chan uint64, 1)}
	_, ok := r.admit(wire.Member{Node: id, Role: conclave.RoleData}, conclave.NodeID{}, st, now)
	require.True(t, ok)
	r.beat(st, &wirev1.JoinRequest{Beat: 1}, now)
	_, silent, _ := r.dataNodes()
	assert.Equal(t, []conclave.NodeID{id}, silent, "nothing is known of its copies yet")
	r.beat(st, &wirev1.JoinRequest{AllReports: true, Reports: []*wirev1.SlotReport{{Slot: 3}}, Beat: 2}, now)

	news, ok := r.beat(st, &wirev1.JoinRequest{Beat: 3}, now.Add(900*time.Millisecond))
	assert.True(t, ok)
	assert.False(t, news)
	assert.Empty(t, r.expire(now.Add(1800*time.Millisecond)))
	_, silent, reports := r.dataNodes()
	assert.Empty(t, silent)
	assert.Len(t, reports, 1)
}
