package trace_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/internal/trace"
)

func TestLoad_SkipsLinesThatWereCutShort(t *testing.T) {
	var file bytes.Buffer
	sink := trace.To(&file)
	until := time.Now().Add(time.Second).Round(0)
	want := []trace.Claim{
		{Node: conclave.NodeID{Name: "meta-1", Incarnation: "i"}, Kind: trace.Led, Term: 7, Until: until},
		{Kind: trace.Swapped, Epoch: conclave.Epoch{Term: 8, Seq: 1}, Count: 1, Flag: true, Key: `{"at":`, Err: errors.New("lost")},
	}
	before := time.Now().Round(0)
	for i, c := range want {
		if i > 0 {
			file.WriteString(`{"at":"2026-01-02T0`) // the process was killed, and the restarted one appends
		}
		sink(c)
	}
	file.WriteString(`{"at":"20`) // the process was killed
	var got []trace.Claim
	require.NoError(t, trace.Load(&file, func(at time.Time, c trace.Claim) {
		assert.False(t, at.Before(before))
		got = append(got, c)
	}))
	require.Len(t, got, 2)
	assert.True(t, want[0].Until.Equal(got[0].Until))
	assert.Equal(t, "lost", got[1].Err.Error())
	for i := range want {
		want[i].Until, got[i].Until, want[i].Err, got[i].Err = time.Time{}, time.Time{}, nil, nil
	}
	assert.Equal(t, want, got)
}
