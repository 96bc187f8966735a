package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	wirev1 "conclave/wire/v1"
)

// While many new registrations wait, a Write carries a withdrawal, an update and
// what is subscribed to here first, whichever slots they are in.
func TestTake_ClassesInTheirOrder(t *testing.T) {
	r, now := New(testGrace, 0, nil), time.Now()
	r.Resize(1, now)
	r.Adopt(0, conclave.Epoch{Term: 1}, "data-1", now)
	owner := active(&Owner{}, now)
	put := func(id string, version int64, withdrawn bool) {
		_, err := put(r, owner, conclave.Publisher{ID: id, Data: dataOf(id), Version: version, Withdrawn: withdrawn}, now)
		require.NoError(t, err)
	}
	put("gone", 1, false)
	put("changed", 1, false)
	b := takeAny(r, 0, "data-1", 1<<20, 10, now)
	require.Equal(t, 2, b.Len())
	_, counted := r.Settle(b, now)
	require.True(t, counted)
	_, err := r.Subscribe(owner, &wirev1.Subscription{Id: "s", DataInfoId: keyOf("watched")}, now)
	require.NoError(t, err)
	for i := range 100 {
		put(fmt.Sprint("new-", i), 1, false)
	}
	put("watched", 1, false)
	put("changed", 2, false)
	put("gone", 2, true)
	consistent(t, r)
	sent := func(b Batch) (out []string) {
		for _, p := range b.Message().GetPuts() {
			out = append(out, p.GetId())
		}
		return out
	}
	assert.Equal(t, []string{"gone", "watched", "changed", "new-0"}, sent(takeAny(r, 0, "data-1", 1<<20, 4, now)))
	put("gone", 3, false)
	assert.Equal(t, []string{"watched", "changed", "gone", "new-0"}, sent(takeAny(r, 0, "data-1", 1<<20, 4, now)), "what replaces something urgent is urgent")
	consistent(t, r)
}

// Each class is the first one of a Write at least once in twelve.
func TestOrder_NoClassWaitsForEver(t *testing.T) {
	for from := range uint64(24) {
		first := map[Class]bool{}
		for n := from; n < from+12; n++ {
			order := Order(n)
			first[order[0]] = true
			seen := map[Class]bool{}
			for _, c := range order {
				seen[c] = true
			}
			assert.Len(t, seen, int(classes))
			if n%4 != 3 {
				assert.Equal(t, [classes]Class{withdrawn, watched, fresh, repeated}, order)
			}
		}
		assert.Len(t, first, int(classes))
	}
}

// Of four data nodes one that stores nothing does not fill the queue; two do. A
// data node that is the only one does.
func TestFull_OneSlowNodeDelaysNoOther(t *testing.T) {
	for _, x := range []struct {
		leaders []string
		stuck   map[string]bool
		want    bool
	}{
		{[]string{"data-1", "data-2", "data-3", "data-4"}, map[string]bool{"data-1": true}, false},
		{[]string{"data-1", "data-2", "data-3", "data-4"}, map[string]bool{"data-1": true, "data-2": true}, true},
		{[]string{"data-1", "data-1", "data-1", "data-1"}, map[string]bool{"data-1": true}, true},
	} {
		r, now := New(testGrace, 0, nil), time.Now()
		r.Resize(4, now)
		owner := active(&Owner{}, now)
		for n, leader := range x.leaders {
			r.Adopt(n, conclave.Epoch{Term: 1}, leader, now)
		}
		for i := range 1000 {
			id := fmt.Sprint(i)
			_, err := put(r, owner, conclave.Publisher{ID: id, Data: dataOf(id), Version: 1, Values: []string{"value"}}, now)
			require.NoError(t, err)
		}
		limit := r.Unsent() / 5 // less than any node has
		assert.True(t, r.Full(limit))
		for n, leader := range x.leaders {
			if !x.stuck[leader] {
				_, counted := r.Settle(takeAny(r, n, leader, 1<<30, 1000, now), now)
				require.True(t, counted)
			}
		}
		consistent(t, r)
		assert.Equal(t, x.want, r.Full(limit), "%v", x.leaders)
	}
}
