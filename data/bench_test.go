package data_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// BenchmarkWrites stores registrations over TCP, in batches of 1,000 over 256
// slots, as a session does under load: one write outstanding.
func BenchmarkWrites(b *testing.B) {
	const slots, perWrite = 256, 1000
	c := &cluster{t: b}
	c.fakeMeta = c.newMeta("meta-1", 1, wire.State{Replicas: 2})
	c.auto = true
	s := c.session("session-1", true)
	n := c.data("data-1")
	c.make(slots)
	eventually(b, 10*time.Second, "stable", func() bool { return c.table().StableAll() })
	epoch := c.table().Slots[0].LeaderEpoch

	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b.ResetTimer()
	for i := 0; i < b.N; i += perWrite {
		batches := map[int]*wirev1.SlotBatch{}
		m := &wirev1.WriteRequest{Session: wire.NodeOut(s.id)}
		for j := i; j < min(i+perWrite, b.N); j++ {
			d := conclave.DataInfoID{DataID: fmt.Sprint("service-", j), Instance: conclave.DefaultInstance, Group: conclave.DefaultGroup}
			id := slot.Of(d.String(), slots)
			if batches[id] == nil {
				batches[id] = &wirev1.SlotBatch{Slot: uint32(id), LeaderEpoch: wire.EpochOut(epoch)}
				m.Batches = append(m.Batches, batches[id])
			}
			batches[id].Puts = append(batches[id].Puts, &wirev1.Publisher{
				Id: fmt.Sprintf("registration-%020d", j), DataInfoId: d.String(), Version: 1, Values: []string{"10.0.0.1:8080?weight=100"},
			})
		}
		res, err := s.peers.Data(n.Address()).Write(b.Context(), connect.NewRequest(m))
		require.NoError(b, err)
		for _, r := range res.Msg.GetResults() {
			require.Equal(b, wirev1.Access_ACCESS_ACCEPT, r.GetAccess())
		}
	}
	b.StopTimer()
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "registrations/s")
	b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/float64(b.N), "B/registration")
}
