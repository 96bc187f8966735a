package client

import (
	"time"
)

// window limits what was sent on a link and its session has not accepted yet.
// It keeps what waits at the session, and on the way there, to what the session
// handles within a fraction of the client lease: a session that is slow, or has
// many clients, is sent less. The rest waits here, where a newer version
// replaces an older one.
//
// The size follows the time from sending to acceptance, as the congestion
// window of TCP follows losses: it is halved when that time is long, and grows
// while it is short and the window is what limits the link.
type window struct {
	long time.Duration // a time to acceptance above this halves the size

	size int                  // in bytes
	used int                  // by what is in flight
	sent map[*Publication]one // in flight: the last of each publication
	full bool                 // something had to wait since the last measurement

	// One publication in flight at a time is measured.
	probe *Publication
	began time.Time
}

// one is a publication in flight.
type one struct {
	version int64
	bytes   int
}

// Limits of the size of a window in bytes. The least lets one message of small
// publications through; a larger publication is sent alone. The most is as much
// as a session takes in some 100 ms.
const (
	windowLeast = 16 << 10
	windowFirst = 256 << 10
	windowMost  = 4 << 20
)

func newWindow(long time.Duration) window {
	return window{long: long, size: windowFirst, sent: map[*Publication]one{}}
}

// room returns how many bytes may be sent now: none, or less, if the window is
// full. If nothing is in flight, something may be sent in any case.
func (w *window) room() int {
	if len(w.sent) == 0 {
		return w.size
	}
	return w.size - w.used
}

// idle reports whether the session has accepted all that was sent.
func (w *window) idle() bool { return len(w.sent) == 0 }

// send records that a version is sent.
func (w *window) send(p *Publication, bytes int, now time.Time) {
	w.used += bytes - w.sent[p].bytes
	w.sent[p] = one{p.version, bytes}
	if w.probe == nil {
		w.probe, w.began = p, now
	}
}

// wait records that something waits because the window is full.
func (w *window) wait() { w.full = true }

// accept records that the session has accepted a version, and reports whether
// something else may be sent that could not be sent before.
func (w *window) accept(p *Publication, version int64, now time.Time) (opened bool) {
	if s, in := w.sent[p]; !in || s.version > version {
		return false
	}
	closed := w.room() <= 0
	if p == w.probe {
		w.measure(now.Sub(w.began))
	}
	w.drop(p)
	return closed && w.room() > 0
}

// drop forgets a publication that is in flight, because it was accepted or
// refused, or is not wanted any more.
func (w *window) drop(p *Publication) (opened bool) {
	closed := w.room() <= 0
	w.used -= w.sent[p].bytes
	delete(w.sent, p)
	if p == w.probe {
		w.probe = nil
	}
	return closed && w.room() > 0
}

// measure adapts the size to the time that the acceptance of a publication has
// taken.
func (w *window) measure(took time.Duration) {
	switch {
	case took > w.long:
		w.size = max(w.size/2, windowLeast)
	case took < w.long/2 && w.full:
		w.size = min(w.size*2, windowMost)
	}
	w.full = false
}
