package registry

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// maxRegistrationBytes is what a stored registration with one value of 100 bytes
// may take of the heap: 1.3 times what it takes on a 64-bit machine.
const maxRegistrationBytes = 530

// A session holds a million registrations, so what each of them takes decides
// what the session takes.
func TestRegistry_RegistrationTakesFewBytes(t *testing.T) {
	perRegistration := bytesPerRegistration(t)
	t.Logf("%.0f bytes for each registration", perRegistration)
	assert.Less(t, perRegistration, float64(maxRegistrationBytes))
}

// bytesPerRegistration returns how many bytes of the heap a registration takes
// after data has stored it.
func bytesPerRegistration(t testing.TB) float64 {
	const (
		n      = 100_000
		slots  = 256
		owners = 20
		batch  = 1024
	)
	now, epoch := time.Now(), conclave.Epoch{Term: 1, Seq: 1}
	before := heapBytes()
	r := New(time.Hour, 0, nil)
	r.Resize(slots, now)
	conns := make([]*Owner, owners)
	for i := range conns {
		conns[i] = active(&Owner{Number: uint64(i)}, now)
	}
	for n := range slots {
		r.Adopt(n, epoch, "data-1", now)
	}
	for i := range n {
		_, err := r.Put(conns[i%owners], received(t, i), now)
		require.NoError(t, err)
		if i%(batch*16) != 0 && i != n-1 {
			continue
		}
		for _, slot := range r.Unwritten() {
			for b := takeAny(r, slot, "data-1", 1<<20, batch, now); b.Len() > 0; b = takeAny(r, slot, "data-1", 1<<20, batch, now) {
				_, counted := r.Settle(b, now)
				require.True(t, counted)
			}
		}
	}
	require.Equal(t, n, r.Live())
	require.Empty(t, r.Unwritten())
	used := heapBytes() - before
	runtime.KeepAlive(r)
	return float64(used) / n
}

// received returns a registration as a session receives it: its strings share
// no memory with those of another one.
func received(t testing.TB, i int) *wirev1.Publisher {
	data, err := conclave.NewDataInfoID(fmt.Sprintf("com.example.service-%d-%d", i%20, i/20), "", "")
	require.NoError(t, err)
	message, err := proto.Marshal(&wirev1.Publisher{
		Id: fmt.Sprintf("%032x", i), DataInfoId: data.String(), Version: 1, Values: []string{strings.Repeat("v", 100)},
	})
	require.NoError(t, err)
	in := &wirev1.Publisher{}
	require.NoError(t, proto.Unmarshal(message, in))
	require.NoError(t, wire.CheckPublisher(in))
	return in
}

// heapBytes returns the size of the reachable heap.
func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
