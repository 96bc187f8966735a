package session

import (
	"net/http"
	"sync"
	"time"
)

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// deadline is how long one request may be read and written. Unlike the request
// itself it may be used by any goroutine, also after the request's handler has
// returned: then it does nothing.
type deadline struct {
	mu       sync.Mutex // held while the deadline is set, which waits for no peer
	response *http.ResponseController
	aborted  bool
	ended    bool
}

// set sets when reads fail; the zero time means never. It has no effect once the
// stream was aborted or has ended.
func (d *deadline) set(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended && !d.aborted {
		_ = d.response.SetReadDeadline(at) // fails only when the stream has ended
	}
}

// abort makes all reads fail from now on, also if a message that is being handled
// would extend the deadline.
func (d *deadline) abort() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended {
		_ = d.response.SetReadDeadline(past)
	}
	d.aborted = true
}

// fail makes all reads and writes fail, also those that wait.
func (d *deadline) fail() {
	d.abort()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended {
		_ = d.response.SetWriteDeadline(past)
	}
}

// end is called before the request's handler returns.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
}
