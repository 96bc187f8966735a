package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave"
	"conclave/wire"
)

// A reader with a higher version makes the leader's counter rise above it.
func TestRead_HigherVersionRaisesCounter(t *testing.T) {
	s, now := New(time.Second), time.Now()
	s.Serve(100, time.Time{}, now)
	s.Write(CopyOf(testOwners[0], publisher(testData[0], "r1", 1, false)), now)
	f := s.Read(testData[0], 5000, 42, now)
	assert.Equal(t, int64(5001), f.GetDatum().GetVersion())
	assert.Equal(t, int64(5001), s.Read(testData[0], 0, f.GetHash(), now).GetDatum().GetVersion())
	s.Serve(4000, time.Time{}, now)
	assert.Equal(t, int64(5002), s.Read(testData[0], 0, 0, now).GetDatum().GetVersion())
}

// Readers that claim versions which were never pushed cannot use up the versions.
func TestRead_ClaimsRaiseCounterByOneBase(t *testing.T) {
	s, now := New(time.Second), time.Now()
	s.Serve(100, time.Time{}, now)
	for n := range int64(100) {
		s.Read(testData[0], 1<<52+n, 42, now)
		s.Read(testData[0], s.Counter(), 42, now)
	}
	assert.LessOrEqual(t, s.Counter(), int64(101+conclave.VersionBase+100))
}

// A slot's mark is passed to the guard as such, with what is known to be
// withdrawn; a datum's own mark is not.
func TestRead_IncompleteNamesPublishers(t *testing.T) {
	s, now := New(15*time.Second), time.Now()
	for _, id := range []string{"r1", "r2"} {
		s.Write(CopyOf(testOwners[0], publisher(testData[0], id, 1, false)), now)
	}
	s.Write(CopyOf(testOwners[0], publisher(testData[0], "r3", 1, true)), now)
	f := s.Read(testData[0], 0, 0, now)
	assert.Equal(t, []uint32{wire.PublisherHash("r1"), wire.PublisherHash("r2")}, f.GetDatum().GetPublishers())
	assert.Zero(t, f.GetIncompleteMs())
	assert.Empty(t, f.GetWithdrawn())

	s.Serve(0, now.Add(15*time.Second), now)
	assert.Zero(t, s.Read(testData[0], 0, 0, now).GetIncompleteMs(), "marked, but nothing is missing")
	s.MarkIncomplete(now.Add(15 * time.Second))
	f = s.Read(testData[0], 0, 0, now)
	assert.Equal(t, int64(15_000), f.GetIncompleteMs())
	assert.Equal(t, []uint32{wire.PublisherHash("r3")}, f.GetWithdrawn())

	now = now.Add(15 * time.Second)
	s.Remove(Key{testOwners[0], testData[0], "r2"}, 1, ownerGone, now)
	f = s.Read(testData[0], 0, 0, now)
	assert.Positive(t, f.GetUnconfirmedMs())
	assert.Zero(t, f.GetIncompleteMs(), "one removal is unconfirmed, nothing else may be missing")
	assert.Equal(t, []uint32{wire.PublisherHash("r1")}, f.GetDatum().GetPublishers())
}

func TestServe_MarksWholeSlot(t *testing.T) {
	s, now := New(15*time.Second), time.Now()
	s.Serve(100, now.Add(15*time.Second), now)
	f := s.Read(testData[1], 0, 0, now)
	assert.Equal(t, int64(15_000), f.GetUnconfirmedMs())
	assert.Equal(t, f.GetDatum().GetVersion(), f.GetUnexplainedVersion())
}
