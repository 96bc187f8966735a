package session

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/wire/admit"
)

// Bytes count while their message is incomplete, those of a large one until it is
// handled, and no longer.
func TestIntake_CountsWhatWaits(t *testing.T) {
	in := admit.New(2<<20, 1<<20)
	body := func(host string, size int) *incoming {
		return &incoming{ReadCloser: io.NopCloser(strings.NewReader(strings.Repeat("x", size))), intake: in, host: host}
	}
	fits := func(bytes int) bool {
		ok := in.Try("a", bytes)
		if ok {
			in.Release("a", bytes)
		}
		return ok
	}
	small, large := body("a", intakeSmall), body("a", 700<<10)
	_, err := io.Copy(io.Discard, small)
	require.NoError(t, err)
	assert.True(t, fits(1<<20-intakeSmall))
	assert.False(t, fits(1<<20-intakeSmall+1))
	small.arrived()
	assert.True(t, in.Empty())
	_, err = io.Copy(io.Discard, large)
	require.NoError(t, err)
	large.arrived()
	assert.False(t, fits(400<<10), "it is not handled yet")

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
	assert.True(t, fits(900<<10))
	_, err = io.Copy(io.Discard, body("a", 700<<10))
	assert.NoError(t, err)
}
