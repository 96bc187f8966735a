package session

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Bytes count while their message is incomplete, those of a large one until it is
// handled, and no longer.
func TestIntake_CountsWhatWaits(t *testing.T) {
	in := newIntake(2<<20, 1<<20)
	body := func(host string, size int) *incoming {
		return &incoming{ReadCloser: io.NopCloser(strings.NewReader(strings.Repeat("x", size))), intake: in, host: host}
	}
	small, large := body("a", intakeSmall), body("a", 700<<10)
	_, err := io.Copy(io.Discard, small)
	require.NoError(t, err)
	assert.Equal(t, intakeSmall, in.used)
	small.arrived()
	assert.Zero(t, in.used)
	_, err = io.Copy(io.Discard, large)
	require.NoError(t, err)
	large.arrived()
	assert.Equal(t, 700<<10, in.used, "it is not handled yet")

	second := body("a", 700<<10)
	_, err = io.Copy(io.Discard, second)
	assert.ErrorIs(t, err, errIntake)
	assert.True(t, second.full)
	_, err = io.Copy(io.Discard, body("b", 1<<20))
	assert.NoError(t, err, "another address")
	_, err = io.Copy(io.Discard, body("c", 1<<20))
	assert.ErrorIs(t, err, errIntake, "too much in all")
	second.handled()
	large.handled()
	large.handled()
	assert.Zero(t, in.by["a"])
	_, err = io.Copy(io.Discard, body("a", 700<<10))
	assert.NoError(t, err)
}
