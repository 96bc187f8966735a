package data

import (
	"slices"
	"sync"

	"conclave/internal/signal"
	wirev1 "conclave/wire/v1"
)

// feeds are the open feeds of this node: those of the nodes that follow its
// slots, and those of the sessions.
type feeds struct {
	streams  feedStreams
	watchers watchers
}

// wake wakes every feed that has something to send. No replica's lock is held.
func (f *feeds) wake() {
	f.watchers.wake()
	f.streams.wake()
}

// feedStream is the stream of one follower node.
type feedStream struct {
	wake signal.Signal

	mu       sync.Mutex // guards the fields below; taken inside a replica's lock
	requests []*wirev1.ReplicateRequest
	dirty    map[int]bool // slots that may have something to send
}

// takePending returns what is queued, and empties the queue.
func (f *feedStream) takePending() (requests []*wirev1.ReplicateRequest, dirty map[int]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	requests, dirty = f.requests, f.dirty
	f.requests, f.dirty = nil, map[int]bool{}
	return requests, dirty
}

// mark records that a slot may have something to send. A replica's lock is
// held; call feeds.wake after it has been released.
func (f *feedStream) mark(slot int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dirty[slot] = true
}

// feedStreams are all open streams.
type feedStreams struct {
	mu  sync.Mutex    // guards all
	all []*feedStream // in the order in which they were opened
}

// wake wakes every stream that has something to send. No replica's lock is
// held.
func (fs *feedStreams) wake() {
	fs.mu.Lock()
	due := slices.Clone(fs.all)
	fs.mu.Unlock()
	for _, f := range due {
		f.mu.Lock()
		waits := len(f.dirty)+len(f.requests) > 0
		f.mu.Unlock()
		if waits {
			f.wake.Set()
		}
	}
}

// set adds a stream, or removes it.
func (fs *feedStreams) set(f *feedStream, open bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if open {
		fs.all = append(fs.all, f)
		return
	}
	fs.all = slices.DeleteFunc(fs.all, func(x *feedStream) bool { return x == f })
}
