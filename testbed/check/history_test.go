package check_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
)

// The events of nodes that are other processes are read each time, and are not
// recorded.
func TestSoFar_ReadsEventsAndGoesOnRecording(t *testing.T) {
	r := check.NewRecorder("x", testbed.Size{})
	r.Begin()
	r.Fault(check.Fault{Action: testbed.Action{Verb: testbed.Kill, Node: "meta-1"}})
	events := func(report func(time.Time, trace.Claim)) (bool, error) {
		report(time.Now().Add(-time.Second), trace.Claim{Kind: trace.Led})
		return true, nil
	}
	for range 2 {
		h, err := r.SoFar(false, events)
		require.NoError(t, err)
		assert.True(t, h.HasEvents)
		require.Len(t, h.Entries, 2)
		assert.NotNil(t, h.Entries[0].Event, "in the order of their times")
		assert.Negative(t, h.Entries[0].At)
	}
	h, err := r.SoFar(true, nil)
	require.NoError(t, err)
	assert.True(t, h.HasEvents)
	assert.Len(t, h.Entries, 1)
	_, err = r.SoFar(false, func(func(time.Time, trace.Claim)) (bool, error) { return false, errors.New("no file") })
	assert.EqualError(t, err, "no file")
	r.Op(check.Op{Kind: check.OpHealed})
	assert.Len(t, r.History(false).Entries, 2)
}
