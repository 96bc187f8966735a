package meta

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	conclavesql "conclave/sql"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Hosts that are gone for good are never known to be dead: only the latest
// sessions are remembered.
func TestLostSession_LatestAreKept(t *testing.T) {
	r, now := newRoster(time.Second, time.Hour, time.Now()), time.Now()
	for i := range 2 * lostAtMost {
		id := conclave.NodeID{Name: fmt.Sprint("session-", i), Incarnation: "x"}
		_, ok := r.admit(wire.Member{Node: id, Role: conclave.RoleSession}, conclave.NodeID{}, nil, now)
		require.True(t, ok)
		now = now.Add(2 * time.Second)
		require.Len(t, r.expire(now), 1)
	}
	lost := r.list(nil).Lost
	require.Len(t, lost, lostAtMost)
	assert.Equal(t, fmt.Sprint("session-", lostAtMost), lost[0].Node.Name)
	assert.Equal(t, fmt.Sprint("session-", 2*lostAtMost-1), lost[lostAtMost-1].Node.Name)
}

// A beat whose report was late carries none: it renews the lease, and what the
// node reported before stays.
func TestRoster_BeatWithoutReportsKeepsThem(t *testing.T) {
	r, now := newRoster(time.Second, time.Hour, time.Now()), time.Now()
	id := conclave.NodeID{Name: "data-1", Incarnation: "x"}
	st := &stream{id: id, role: conclave.RoleData, stop: func(error) {}, echo: make(chan uint64, 1)}
	_, ok := r.admit(wire.Member{Node: id, Role: conclave.RoleData}, conclave.NodeID{}, st, now)
	require.True(t, ok)
	r.beat(st, &wirev1.JoinRequest{Beat: 1}, now)
	assert.Equal(t, []conclave.NodeID{id}, r.data(now).silent, "nothing is known of its copies yet")
	r.beat(st, &wirev1.JoinRequest{
		AllReports: true, Reports: []*wirev1.SlotReport{{Slot: 3}}, Load: 7, Ready: true, Member: &wirev1.Member{Draining: true}, Beat: 2,
	}, now)

	news, ok := r.beat(st, &wirev1.JoinRequest{Beat: 3}, now.Add(900*time.Millisecond))
	assert.True(t, ok)
	assert.False(t, news)
	assert.Empty(t, r.expire(now.Add(1800*time.Millisecond)))
	assert.Empty(t, r.data(now).silent)
	assert.Len(t, r.data(now).reports, 1)
	n := r.nodes["data-1"]
	assert.EqualValues(t, 7, n.load)
	assert.True(t, n.ready && n.draining)
}

// A leader that was suspended for an hour has read no beats: its members lose
// their leases when it has run for a lease without one. A beat that it reads
// first renews a lease as at any other time.
func TestRoster_OwnLatenessIsNoSilence(t *testing.T) {
	now := time.Now()
	r := newRoster(3*time.Second, 500*time.Millisecond, now)
	streams := map[string]*stream{}
	for _, name := range []string{"data-1", "data-2"} {
		id := conclave.NodeID{Name: name, Incarnation: "x"}
		streams[name] = &stream{id: id, role: conclave.RoleData, stop: func(error) {}, echo: make(chan uint64, 1)}
		_, ok := r.admit(wire.Member{Node: id, Role: conclave.RoleData}, conclave.NodeID{}, streams[name], now)
		require.True(t, ok)
	}
	runs := func(d time.Duration) (lost []wire.Member) {
		for ; d > 0; d -= 500 * time.Millisecond {
			now = now.Add(500 * time.Millisecond)
			r.tick(now)
			lost = append(lost, r.expire(now)...)
		}
		return lost
	}
	require.Empty(t, runs(time.Second))
	now = now.Add(time.Hour)
	require.Empty(t, r.expire(now), "before the tick")
	_, last := r.lastContact(now)
	assert.Less(t, now.Sub(last), 2*time.Second)
	_, ok := r.beat(streams["data-2"], &wirev1.JoinRequest{Beat: 2}, now)
	require.True(t, ok)
	r.tick(now)
	assert.Empty(t, runs(time.Second))
	lost := runs(time.Second)
	require.Len(t, lost, 1)
	assert.Equal(t, "data-1", lost[0].Node.Name)
	assert.Len(t, runs(time.Second), 1, "its lease has lasted for 3 s after its beat")
}

// A beat that is read first after a suspension renews the lease from its arrival,
// and the time of the suspension is not added to that.
func TestRoster_BeatAfterAPauseRenewsForOneLease(t *testing.T) {
	now := time.Now()
	r := newRoster(3*time.Second, 500*time.Millisecond, now)
	id := conclave.NodeID{Name: "data-1", Incarnation: "x"}
	st := &stream{id: id, role: conclave.RoleData, stop: func(error) {}, echo: make(chan uint64, 1)}
	_, ok := r.admit(wire.Member{Node: id, Role: conclave.RoleData}, conclave.NodeID{}, st, now)
	require.True(t, ok)
	now = now.Add(time.Hour)
	_, ok = r.beat(st, &wirev1.JoinRequest{Beat: 2}, now)
	require.True(t, ok)
	r.tick(now)
	expiry, _ := r.nextExpiry()
	assert.Equal(t, now.Add(3*time.Second), expiry)
}

// Only sessions that take clients are counted when clients spread.
func TestOpenSessions_ThoseThatTakeClients(t *testing.T) {
	r, now := newRoster(time.Second, time.Hour, time.Now()), time.Now()
	for _, name := range []string{"ready", "starting", "draining", "forbidden", "silent"} {
		id := conclave.NodeID{Name: name, Incarnation: "x"}
		st := &stream{id: id, role: conclave.RoleSession}
		_, ok := r.admit(wire.Member{Node: id, Role: conclave.RoleSession, Address: name + ":1"}, conclave.NodeID{}, st, now)
		require.True(t, ok)
		_, ok = r.beat(st, &wirev1.JoinRequest{AllReports: true, Load: 7, Ready: name != "starting", Member: &wirev1.Member{Draining: name == "draining"}}, now)
		require.True(t, ok)
		if name == "silent" {
			r.streamEnded(st)
		}
	}
	open := r.openSessions([]string{"forbidden"})
	require.Len(t, open, 1)
	assert.Equal(t, "ready:1", open[0].GetAddress())
	assert.EqualValues(t, 7, open[0].GetClients())
}

// A data node leads no slot while more than half of the sessions do not hear it,
// and for a short time after that. A session that hears no data node is not asked,
// and as few nodes are found so as may be lost without protection.
func TestRoster_UnheardNodes(t *testing.T) {
	type reports map[string][]string // by session: addresses
	for name, c := range map[string]struct {
		datas   int
		reports reports
		want    []string
	}{
		"all sessions":                {3, reports{"s1": {"d1"}, "s2": {"d1"}}, []string{"d1"}},
		"half of them":                {3, reports{"s1": {"d1"}, "s2": nil}, nil},
		"most of them":                {3, reports{"s1": {"d1"}, "s2": {"d1"}, "s3": nil}, []string{"d1"}},
		"the only one":                {3, reports{"s1": {"d1"}}, []string{"d1"}},
		"the only one hears none":     {3, reports{"s1": {"d1", "d2", "d3"}}, nil},
		"one that hears none":         {3, reports{"s1": {"d1", "d2", "d3"}, "s2": {"d2"}}, []string{"d2"}},
		"too many":                    {3, reports{"s1": {"d1", "d2"}, "s2": {"d1", "d2"}}, []string{"d1"}},
		"two of eight":                {8, reports{"s1": {"d1", "d2", "d7"}, "s2": {"d1", "d2", "d7"}}, []string{"d1", "d2"}},
		"a node that has left":        {3, reports{"s1": {"d9"}, "s2": {"d9"}}, nil},
		"the only data node there is": {1, reports{"s1": {"d1"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, now := newRoster(time.Second, time.Hour, time.Now()), time.Now()
			join := func(name string, role conclave.Role) *stream {
				st := &stream{id: conclave.NodeID{Name: name, Incarnation: "x"}, role: role, stop: func(error) {}}
				_, ok := r.admit(wire.Member{Node: st.id, Role: role, Address: name}, conclave.NodeID{}, st, now)
				require.True(t, ok)
				return st
			}
			for i := range c.datas {
				join(fmt.Sprint("d", i+1), conclave.RoleData)
			}
			sessions := map[string]*stream{}
			for session, unheard := range c.reports {
				sessions[session] = join(session, conclave.RoleSession)
				r.beat(sessions[session], &wirev1.JoinRequest{AllReports: true, Unheard: unheard}, now)
			}
			assert.Equal(t, c.want, r.unheardNodes(trigger(c.datas), now))
			for session := range c.reports {
				r.beat(sessions[session], &wirev1.JoinRequest{AllReports: true}, now)
			}
			assert.Equal(t, c.want, r.unheardNodes(trigger(c.datas), now.Add(unheardFor*time.Second-1)))
			assert.Empty(t, r.unheardNodes(trigger(c.datas), now.Add(unheardFor*time.Second)))
		})
	}
}

// A session that is restarting is no reason to believe the other one. A data node
// that is gone is not unheard.
func TestRoster_UnheardIsCountedAmongAllSessions(t *testing.T) {
	r, now := newRoster(time.Second, time.Hour, time.Now()), time.Now()
	streams := map[string]*stream{}
	for name, role := range map[string]conclave.Role{"d1": conclave.RoleData, "d2": conclave.RoleData, "d3": conclave.RoleData, "s1": conclave.RoleSession, "s2": conclave.RoleSession} {
		st := &stream{id: conclave.NodeID{Name: name, Incarnation: "x"}, role: role, stop: func(error) {}}
		_, ok := r.admit(wire.Member{Node: st.id, Role: role, Address: name}, conclave.NodeID{}, st, now)
		require.True(t, ok)
		streams[name] = st
	}
	r.beat(streams["s1"], &wirev1.JoinRequest{AllReports: true, Unheard: []string{"d1"}}, now)
	r.streamEnded(streams["s2"])
	assert.Empty(t, r.unheardNodes(trigger(3), now))

	now = now.Add(600 * time.Millisecond)
	for _, name := range []string{"s1", "d2", "d3"} {
		r.beat(streams[name], &wirev1.JoinRequest{AllReports: true, Unheard: map[string][]string{"s1": {"d1"}}[name]}, now)
	}
	now = now.Add(500 * time.Millisecond)
	lost := r.expire(now)
	require.Len(t, lost, 2, "s2 and d1")
	r.unheard["d1"] = now.Add(time.Hour)
	assert.Empty(t, r.unheardNodes(trigger(2), now))
}

// A blacklist that a meta of an earlier version has written, with an epoch of its own,
// is read under the epoch of its row.
func TestDecode_BlacklistOfEarlierVersion(t *testing.T) {
	a := &arranger{}
	require.NoError(t, a.decode(conclavesql.State{Kind: conclavesql.KindBlacklist, Term: 3, Seq: 4,
		Body: `{"epoch":"1.2","entries":[{"name":"data-1","role":"data","reason":"operator","by":"me"}]}`}))
	assert.Equal(t, []string{"data-1"}, a.black().Names())
	assert.Equal(t, conclave.Epoch{Term: 3, Seq: 4}, a.state.Blacklist.Epoch)
}
