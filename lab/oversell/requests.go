package oversell

import (
	"net/http"
	"sync"
)

// requests are those in progress. A server that is closed does not wait for its
// handlers: end does. It is safe for concurrent use.
type requests struct {
	next http.Handler

	mu      sync.Mutex // guards closed, so that none begins after end
	closed  bool
	running sync.WaitGroup
}

// ServeHTTP passes a request to next. After end it is answered with 503.
func (r *requests) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		http.Error(w, "the shop is closed", http.StatusServiceUnavailable)
		return
	}
	r.running.Add(1)
	r.mu.Unlock()
	defer r.running.Done()
	r.next.ServeHTTP(w, q)
}

// end refuses further requests, and waits for those in progress. It may be called
// several times.
func (r *requests) end() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.running.Wait()
}
