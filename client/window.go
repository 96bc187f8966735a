package client

import (
	"time"
)

// window limits what was sent on a link and its session has not accepted yet: to
// two messages, and to a number of bytes. What waits at the session, and on the
// way there, is then no more than it handles within a fraction of the client
// lease: a session that is slow, or has many clients, is sent less. The rest
// waits here, where it is sent in fewer messages, and a newer version replaces an
// older one.
//
// The number of bytes follows the time from the sending of a message to its
// acceptance, as the congestion window of TCP follows losses: it is halved when
// that time is long, and grows while it is short and the window is what limits
// the link.
type window struct {
	long time.Duration // a time to acceptance above this halves the size

	size     int                  // in bytes
	used     int                  // by what is in flight
	sent     map[*Publication]one // in flight: the last of each publication
	messages int                  // in flight
	full     bool                 // something had to wait since the last measurement
}

// one is a publication in flight.
type one struct {
	version int64
	bytes   int
	message *flight
}

// flight is a message in flight: it has landed when each of its publications was
// accepted or refused, or was sent again.
type flight struct {
	began time.Time
	open  int // publications that it is in flight with
}

// Limits of a window: in bytes, and in messages. A publication that is larger
// than the window is sent alone. The most is as much as a session takes in some
// 100 ms.
const (
	windowLeast    = 8 << 10
	windowFirst    = 32 << 10
	windowMost     = 4 << 20
	windowMessages = 2
)

func newWindow(long time.Duration) window {
	return window{long: long, size: windowFirst, sent: map[*Publication]one{}}
}

// room returns how many bytes the next message may have: none, or less, if the
// window is full. If nothing is in flight, something may be sent in any case.
func (w *window) room() int {
	switch {
	case len(w.sent) == 0:
		return w.size
	case w.messages >= windowMessages:
		return 0
	}
	return w.size - w.used
}

// idle reports whether the session has accepted all that was sent.
func (w *window) idle() bool { return len(w.sent) == 0 }

// send records that the present version of a publication is sent in a message.
func (w *window) send(m *flight, p *Publication, bytes int) {
	if m.open == 0 {
		w.messages++
	}
	m.open++
	w.drop(p, m.began)
	w.used += bytes
	w.sent[p] = one{p.version, bytes, m}
}

// wait records that something waits because the window is full.
func (w *window) wait() { w.full = true }

// accept records that the session has accepted a version, and reports whether
// something may be sent that could not be sent before.
func (w *window) accept(p *Publication, version int64, now time.Time) (opened bool) {
	if s, in := w.sent[p]; !in || s.version > version {
		return false
	}
	return w.drop(p, now)
}

// drop forgets a publication that is in flight, because it was accepted or
// refused, is sent again, or is not wanted any more.
func (w *window) drop(p *Publication, now time.Time) (opened bool) {
	s, in := w.sent[p]
	if !in {
		return false
	}
	closed := w.room() <= 0
	delete(w.sent, p)
	w.used -= s.bytes
	if s.message.open--; s.message.open == 0 {
		w.messages--
		w.measure(now.Sub(s.message.began))
	}
	return closed && w.room() > 0
}

// measure adapts the size to the time that the acceptance of a message has taken.
func (w *window) measure(took time.Duration) {
	switch {
	case took > w.long:
		w.size = max(w.size/2, windowLeast)
	case took < w.long/2 && w.full:
		w.size = min(w.size*2, windowMost)
	}
	w.full = false
}
