package session

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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

// deadlines records the deadlines of a response.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.read = at
	return nil
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.write = at
	return nil
}

// A stream that was aborted is not kept by the message that was handled meanwhile.
func TestDeadline_AbortIsNotExtended(t *testing.T) {
	for name, end := range map[string]func(*deadline){"abort": (*deadline).abort, "fail": (*deadline).fail} {
		var response deadlines
		d := &deadline{response: http.NewResponseController(&response)}
		later := time.Now().Add(time.Hour)
		d.set(later)
		assert.Equal(t, later, response.read)
		end(d)
		d.set(later)
		assert.Equal(t, past, response.read, name)
		assert.Equal(t, name == "fail", response.write.Equal(past))
	}
}
