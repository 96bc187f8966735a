package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestDigest_AgreesExactlyWhenSetsDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "c", "d"}), rapid.Int64Range(1, 4))
		x, y := entries.Draw(t, "x"), entries.Draw(t, "y")
		digest := func(m map[string]int64) [2]uint64 {
			s := New(time.Second)
			for id, v := range m {
				s.Write(CopyOf(testOwners[0], publisher(testData[0], id, v, false)), time.Now())
			}
			count, sum := s.Digest(testOwners[0])
			return [2]uint64{count, sum}
		}
		same := len(x) == len(y)
		for k, v := range x {
			same = same && y[k] == v
		}
		assert.Equal(t, same, digest(x) == digest(y))
	})
}
