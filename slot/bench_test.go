package slot_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/slot"
)

// Arrange with nothing to do, after the loss of a node, and after a node
// joined.
func BenchmarkArrange(b *testing.B) {
	for _, size := range []struct{ slots, nodes int }{{256, 3}, {16384, 100}} {
		var live []conclave.NodeID
		for i := range size.nodes {
			live = append(live, node(fmt.Sprintf("data-%d", i+1)))
		}
		in := slot.Input{Next: epoch(1, 1), Live: live, Replicas: 2}
		w, err := slot.New(size.slots, in)
		require.NoError(b, err)
		in.Next, in.Reports = epoch(1, 2), answers(w)
		w, _, err = slot.Arrange(w, in)
		require.NoError(b, err)
		in.Next = epoch(1, 3)
		b.Run(fmt.Sprintf("calm/%d", size.slots), func(b *testing.B) {
			for b.Loop() {
				_, moves, _ := slot.Arrange(w, in)
				require.Empty(b, moves)
			}
		})
		in.Live = live[1:]
		b.Run(fmt.Sprintf("lost/%d", size.slots), func(b *testing.B) {
			for b.Loop() {
				_, moves, _ := slot.Arrange(w, in)
				require.NotEmpty(b, moves)
			}
		})
		in.Live = append(live, node("joined"))
		b.Run(fmt.Sprintf("joined/%d", size.slots), func(b *testing.B) {
			for b.Loop() {
				_, moves, _ := slot.Arrange(w, in)
				require.NotEmpty(b, moves)
			}
		})
	}
}

func BenchmarkOf(b *testing.B) {
	for b.Loop() {
		slot.Of("com.example.Echo#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP", 256)
	}
}
