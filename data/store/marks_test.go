package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	wirev1 "conclave/wire/v1"
)

func TestRemove_UnconfirmedIsMarked(t *testing.T) {
	for cause, marked := range map[wirev1.Cause]bool{
		withdrawn: false, clientGone: false, ownerGone: true,
		wirev1.Cause_CAUSE_CLIENTS_GONE: true, wirev1.Cause_CAUSE_DIFF: true,
	} {
		s, now := New(15*time.Second), time.Now()
		s.Serve(100, time.Time{}, now)
		s.Write(CopyOf(testOwners[0], publisher(testData[0], "r1", 1, false)), now)
		s.Write(CopyOf(testOwners[0], publisher(testData[0], "r2", 1, false)), now)
		s.Remove(Key{testOwners[0], testData[0], "r1"}, 1, cause, now)
		f := s.Read(testData[0], 0, 0, now.Add(5*time.Second))
		if !marked {
			assert.Zero(t, f.GetUnconfirmedMs(), cause)
			continue
		}
		assert.Equal(t, int64(10_000), f.GetUnconfirmedMs(), cause)
		assert.Equal(t, f.GetDatum().GetVersion(), f.GetUnexplainedVersion(), cause)
		assert.Zero(t, s.Read(testData[0], 0, 0, now.Add(15*time.Second)).GetUnconfirmedMs(), "the mark ends")

		// An empty datum keeps its mark, and a new leader epoch keeps it too.
		s.Remove(Key{testOwners[0], testData[0], "r2"}, 1, cause, now)
		s.TakeChanged()
		s.Compact(now, now)
		s.Serve(1000, time.Time{}, now)
		f = s.Read(testData[0], 0, 0, now)
		assert.Equal(t, int64(15_000), f.GetUnconfirmedMs(), cause)
		assert.Equal(t, int64(1001), f.GetUnexplainedVersion(), cause)
	}
}
