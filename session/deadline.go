package session

import (
	"net/http"
	"sync"
	"time"
)

// deadline is the read deadline of one request. Unlike the request itself it may
// be used by any goroutine, also after the request's handler has returned: then
// it does nothing.
type deadline struct {
	mu       sync.Mutex // held while the deadline is set, which waits for no peer
	response *http.ResponseController
	ended    bool
}

// set sets the deadline; the zero time means none. A time that has passed makes
// all reads fail. It has no effect once the stream has ended.
func (d *deadline) set(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended {
		_ = d.response.SetReadDeadline(at) // fails only when the stream has ended
	}
}

// end is called before the request's handler returns.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
}
