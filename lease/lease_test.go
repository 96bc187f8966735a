package lease_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"conclave"
	"conclave/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

type member = lease.Member[string, string]

func TestRenew_UnknownLeaseRegisters(t *testing.T) {
	l := lease.NewOrdered[string, string]()
	assert.True(t, l.Renew("data-1", "i1", at(0), 3*time.Second))
	assert.False(t, l.Renew("data-1", "i1", at(time.Second), 3*time.Second))
	value, held := l.Get("data-1")
	assert.True(t, held)
	assert.Equal(t, "i1", value)
	_, held = l.Get("data-2")
	assert.False(t, held)
	assert.Equal(t, 2500*time.Millisecond, l.Remaining("data-1", at(1500*time.Millisecond)))
	assert.Zero(t, l.Remaining("data-1", at(time.Minute)))
	assert.Zero(t, l.Remaining("data-2", at(0)))
}

// A lease of 3 s given at 1 s expires at 4 s, not later, and is returned once.
func TestExpire_ReturnsExpiredOnceAndSorted(t *testing.T) {
	l := lease.NewOrdered[string, string]()
	for _, key := range []string{"c", "a", "d", "b"} {
		l.Renew(key, "i1", at(time.Second), 3*time.Second)
	}
	l.Renew("d", "i1", at(2*time.Second), 3*time.Second)
	next, any := l.NextExpiry()
	assert.True(t, any)
	assert.Equal(t, at(4*time.Second), next)
	assert.Empty(t, l.Expire(at(4*time.Second-1)))
	assert.Equal(t, []member{{"a", "i1"}, {"b", "i1"}, {"c", "i1"}}, l.Expire(at(4*time.Second)))
	assert.Empty(t, l.Expire(at(4*time.Second)))
	assert.Equal(t, []string{"d"}, l.Keys())
	assert.True(t, l.Renew("a", "i1", at(5*time.Second), time.Second), "it is registered again")
}

func TestRenew_NeverShortensLease(t *testing.T) {
	l := lease.NewOrdered[string, string]()
	l.Renew("a", "i1", at(2*time.Second), 3*time.Second)
	l.Renew("a", "i1", at(time.Second), 3*time.Second) // arrives late
	l.Renew("a", "i1", at(0), time.Second)
	assert.Equal(t, 5*time.Second, l.Remaining("a", at(0)))
}

// The time in which the owner could not record renewals does not count.
func TestDelay_PostponesExpiry(t *testing.T) {
	l := lease.NewOrdered[string, string]()
	l.Renew("a", "i1", at(0), 3*time.Second)
	l.Renew("b", "i1", at(0), time.Minute)
	version := l.Version()
	l.Delay(10 * time.Second)
	assert.Equal(t, version, l.Version())
	assert.Empty(t, l.Expire(at(12*time.Second)))
	assert.Equal(t, []member{{"a", "i1"}}, l.Expire(at(13*time.Second)))
	assert.Equal(t, 57*time.Second, l.Remaining("b", at(13*time.Second)))
}

// Article 002: the answer to a heartbeat carries versioned lists, the members
// under an epoch that changes with the membership and not with renewals.
func TestArticleTheVersionMovesExactlyWithTheMembership(t *testing.T) {
	l := lease.NewOrdered[string, string]()
	steps := []struct {
		what  string
		do    func()
		moves bool
	}{
		{"register", func() { l.Renew("b", "i1", at(0), time.Second) }, true},
		{"renew", func() { l.Renew("b", "i1", at(100), time.Second) }, false},
		{"register another", func() { l.Renew("a", "i1", at(0), time.Minute) }, true},
		{"a new incarnation", func() { l.Renew("a", "i2", at(0), time.Minute) }, true},
		{"delay", func() { l.Delay(time.Millisecond) }, false},
		{"expire none", func() { l.Expire(at(0)) }, false},
		{"expire", func() { l.Expire(at(2 * time.Second)) }, true},
		{"cancel an unknown key", func() { l.Cancel("b") }, false},
		{"cancel", func() { l.Cancel("a") }, true},
		{"read", func() { l.Snapshot(); l.Get("a"); l.Keys(); l.NextExpiry() }, false},
	}
	for _, s := range steps {
		before := l.Snapshot()
		s.do()
		after := l.Snapshot()
		assert.Equal(t, s.moves, before.Version != after.Version, s.what)
		if !s.moves {
			assert.Equal(t, before.Members, after.Members, s.what)
		}
	}
}

// Values may contain what is not part of the membership, such as a load.
func TestTable_SameDecidesWhatIsAChange(t *testing.T) {
	type value struct {
		incarnation string
		load        int
	}
	l := lease.New[conclave.NodeID, value](conclave.NodeID.Compare, func(a, b value) bool { return a.incarnation == b.incarnation })
	id := conclave.NodeID{Name: "session-1", Incarnation: "i1"}
	l.Renew(id, value{"i1", 1}, at(0), time.Second)
	first := l.Snapshot()
	assert.False(t, l.Renew(id, value{"i1", 99}, at(0), time.Second))
	newest, _ := l.Get(id)
	assert.Equal(t, 99, newest.load, "Get has the newest")
	assert.Equal(t, first, l.Snapshot(), "equal versions mean equal lists")
	lost := l.Expire(at(time.Second))
	require.Len(t, lost, 1)
	assert.Equal(t, 99, lost[0].Value.load)
}

// The table behaves like a model that keeps every deadline in a map.
func TestTable_AgreesWithModel(t *testing.T) {
	type entry struct {
		value    int
		deadline time.Time
	}
	rapid.Check(t, func(t *rapid.T) {
		l, model, now, version := lease.NewOrdered[int, int](), map[int]entry{}, start, uint64(0)
		key := rapid.IntRange(0, 5)
		duration := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(0, 5).Draw(t, "s")) * time.Second
		})
		t.Repeat(map[string]func(*rapid.T){
			"renew": func(t *rapid.T) {
				k, v, d := key.Draw(t, "key"), rapid.IntRange(0, 2).Draw(t, "value"), duration.Draw(t, "duration")
				old, known := model[k]
				e := entry{v, now.Add(d)}
				if known && old.deadline.After(e.deadline) {
					e.deadline = old.deadline
				}
				model[k] = e
				changed := !known || old.value != v
				require.Equal(t, changed, l.Renew(k, v, now, d))
				if changed {
					version++
				}
			},
			"cancel": func(t *rapid.T) {
				k := key.Draw(t, "key")
				e, known := model[k]
				v, held := l.Cancel(k)
				require.Equal(t, known, held)
				require.Equal(t, e.value, v)
				if delete(model, k); known {
					version++
				}
			},
			"delay": func(t *rapid.T) {
				d := duration.Draw(t, "duration")
				l.Delay(d)
				for k, e := range model {
					model[k] = entry{e.value, e.deadline.Add(d)}
				}
			},
			"time passes": func(t *rapid.T) { now = now.Add(duration.Draw(t, "time")) },
			"expire": func(t *rapid.T) {
				var lost []lease.Member[int, int]
				for _, k := range slices.Sorted(maps.Keys(model)) {
					if !model[k].deadline.After(now) {
						lost = append(lost, lease.Member[int, int]{Key: k, Value: model[k].value})
						delete(model, k)
					}
				}
				require.Equal(t, lost, l.Expire(now))
				if len(lost) > 0 {
					version++
				}
			},
			"": func(t *rapid.T) {
				list := l.Snapshot()
				require.Equal(t, version, list.Version)
				require.Len(t, list.Members, len(model))
				require.Equal(t, len(model), l.Len())
				for i, k := range slices.Sorted(maps.Keys(model)) {
					require.Equal(t, lease.Member[int, int]{Key: k, Value: model[k].value}, list.Members[i])
					require.Equal(t, max(0, model[k].deadline.Sub(now)), l.Remaining(k, now))
				}
			},
		})
	})
}
