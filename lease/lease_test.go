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

	"conclave/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

func TestRenew_UnknownLeaseRegisters(t *testing.T) {
	l := lease.New[string]()
	l.Renew("data-1", at(0), 3*time.Second)
	l.Renew("data-1", at(time.Second), 3*time.Second)
	assert.Equal(t, 2500*time.Millisecond, l.Remaining("data-1", at(1500*time.Millisecond)))
	assert.Zero(t, l.Remaining("data-1", at(time.Minute)))
	assert.Zero(t, l.Remaining("data-2", at(0)))
}

// A lease of 3 s given at 1 s expires at 4 s, not later, and is returned once.
func TestExpire_ReturnsExpiredOnceAndSorted(t *testing.T) {
	l := lease.New[string]()
	for _, key := range []string{"c", "a", "d", "b"} {
		l.Renew(key, at(time.Second), 3*time.Second)
	}
	l.Renew("d", at(2*time.Second), 3*time.Second)
	next, any := l.NextExpiry()
	assert.True(t, any)
	assert.Equal(t, at(4*time.Second), next)
	assert.Empty(t, l.Expire(at(4*time.Second-1)))
	assert.Equal(t, []string{"a", "b", "c"}, l.Expire(at(4*time.Second)))
	assert.Empty(t, l.Expire(at(4*time.Second)))
	next, any = l.NextExpiry()
	assert.True(t, any)
	assert.Equal(t, at(5*time.Second), next, "that of d")
}

func TestRenew_NeverShortensLease(t *testing.T) {
	l := lease.New[string]()
	l.Renew("a", at(2*time.Second), 3*time.Second)
	l.Renew("a", at(time.Second), 3*time.Second) // arrives late
	l.Renew("a", at(0), time.Second)
	assert.Equal(t, 5*time.Second, l.Remaining("a", at(0)))
}

// The time in which the owner could not record renewals does not count.
func TestDelay_PostponesExpiry(t *testing.T) {
	l := lease.New[string]()
	l.Renew("a", at(0), 3*time.Second)
	l.Renew("b", at(0), time.Minute)
	l.Delay(10 * time.Second)
	assert.Empty(t, l.Expire(at(12*time.Second)))
	assert.Equal(t, []string{"a"}, l.Expire(at(13*time.Second)))
	assert.Equal(t, 57*time.Second, l.Remaining("b", at(13*time.Second)))
}

// The table behaves like a model that keeps every deadline in a map.
func TestTable_AgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, model, now := lease.New[int](), map[int]time.Time{}, start
		key := rapid.IntRange(0, 5)
		duration := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(0, 5).Draw(t, "s")) * time.Second
		})
		t.Repeat(map[string]func(*rapid.T){
			"renew": func(t *rapid.T) {
				k, d := key.Draw(t, "key"), duration.Draw(t, "duration")
				if old, known := model[k]; !known || old.Before(now.Add(d)) {
					model[k] = now.Add(d)
				}
				l.Renew(k, now, d)
			},
			"cancel": func(t *rapid.T) {
				k := key.Draw(t, "key")
				l.Cancel(k)
				delete(model, k)
			},
			"delay": func(t *rapid.T) {
				d := duration.Draw(t, "duration")
				l.Delay(d)
				for k, deadline := range model {
					model[k] = deadline.Add(d)
				}
			},
			"time passes": func(t *rapid.T) { now = now.Add(duration.Draw(t, "time")) },
			"expire": func(t *rapid.T) {
				var lost []int
				for _, k := range slices.Sorted(maps.Keys(model)) {
					if !model[k].After(now) {
						lost = append(lost, k)
						delete(model, k)
					}
				}
				require.Equal(t, lost, l.Expire(now))
			},
			"": func(t *rapid.T) {
				first, any := l.NextExpiry()
				require.Equal(t, len(model) > 0, any)
				if any {
					require.Equal(t, slices.MinFunc(slices.Collect(maps.Values(model)), time.Time.Compare), first)
				}
				for k := range 6 {
					require.Equal(t, max(0, model[k].Sub(now)), l.Remaining(k, now))
				}
			},
		})
	})
}
