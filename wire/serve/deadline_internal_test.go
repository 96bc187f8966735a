package serve

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

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
	for name, end := range map[string]func(*Deadline){"abort": (*Deadline).Abort, "fail": (*Deadline).Fail} {
		var response deadlines
		d := &Deadline{Response: http.NewResponseController(&response)}
		later := time.Now().Add(time.Hour)
		d.Set(later)
		assert.Equal(t, later, response.read)
		end(d)
		d.Set(later)
		assert.Equal(t, past, response.read, name)
		assert.Equal(t, name == "fail", response.write.Equal(past))
	}
}
