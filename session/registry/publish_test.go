package registry

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	wirev1 "conclave/wire/v1"
)

func TestTombstonesAreForgottenOnceStoredAndOld(t *testing.T) {
	r, now := New(time.Hour, 0, nil), time.Now()
	r.Resize(1, now)
	r.Adopt(0, conclave.Epoch{Term: 1, Seq: 1}, "", now)
	_, err := r.Put(active(&Owner{}, now), conclave.Publisher{ID: "a", Data: dataOf("x"), Version: 1, Withdrawn: true}, now)
	require.NoError(t, err)
	later := now.Add(2 * time.Hour)
	r.ForgetTombstones(later)
	assert.Len(t, r.byID, 1, "data does not have it yet")
	r.Settle(r.Take(0, "", 1, 1, now))
	r.ForgetTombstones(now)
	assert.Len(t, r.byID, 1, "it is too young to be forgotten")
	r.Adopt(0, conclave.Epoch{Term: 1, Seq: 2}, "", now)
	assert.Zero(t, r.Audit(now.Add(-1)), "the epoch is too young")
	assert.Equal(t, 1, r.Audit(now), "it is written again at a new epoch")
	r.ForgetTombstones(later)
	assert.Empty(t, r.byID)
	assert.Equal(t, 1, r.Take(0, "", 1, 1, now).Len(), "even if it is forgotten meanwhile")
}

// The earlier connection of a client is dead, but its handler still finds an
// old message in its buffers: what the client owns through its newer connection
// stays.
func TestOwner_EarlierConnectionTakesNothingBack(t *testing.T) {
	r, now := New(time.Hour, 0, nil), time.Now()
	r.Resize(1, now)
	earlier, later := active(&Owner{Client: "app", Number: 1}, now), active(&Owner{Client: "app", Number: 2}, now)
	p := conclave.Publisher{ID: "a", Data: dataOf("x"), Version: 1}
	show := func(o *Owner) {
		_, err := r.Put(o, p, now)
		require.NoError(t, err)
	}
	show(earlier)
	show(later)
	show(earlier)
	p.Version = 2
	show(earlier)
	assert.Equal(t, 0, r.Disown(earlier, wirev1.Cause_CAUSE_CLIENT_GONE))
	assert.Len(t, r.Publishers(""), 1)

	show(active(&Owner{Client: "other", Number: 1}, now))
	show(later)
	later.End()
	show(earlier) // it is the one that is still open
	assert.Equal(t, 1, r.Disown(earlier, wirev1.Cause_CAUSE_CLIENT_GONE))
}
