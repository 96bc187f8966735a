package store

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

// maxCopyBytes is what a copy with one value of 100 bytes, the only one of its
// DataInfoID, may take of the heap: 1.3 times what it takes on a 64-bit machine.
const maxCopyBytes = 560

// Data nodes hold two copies of each of a million registrations, so what each of
// them takes decides what the nodes take.
func TestStore_CopyTakesFewBytes(t *testing.T) {
	perCopy := bytesPerCopy(t)
	t.Logf("%.0f bytes for each copy", perCopy)
	assert.Less(t, perCopy, float64(maxCopyBytes))
}

// bytesPerCopy returns how many bytes of the heap a copy takes at a leader whose
// followers have it too, and that no session has read.
func bytesPerCopy(t testing.TB) float64 {
	const (
		n     = 100_000
		batch = 512
	)
	now, owner := time.Now(), conclave.NodeID{Name: "session-1", Incarnation: "1"}
	before := heapBytes()
	s := New(time.Minute)
	s.Serve(1, time.Time{}, now)
	s.SetFollowed(true)
	for i := range n {
		require.True(t, s.Write(CopyOf(owner, received(t, i)), now))
		if i%batch == 0 || i == n-1 {
			s.Trim(s.Position())
			s.TakeChanged()
		}
	}
	require.Equal(t, n, s.Visible())
	used := heapBytes() - before
	runtime.KeepAlive(s)
	return float64(used) / n
}

// received returns a registration as a data node receives it: its strings share
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
