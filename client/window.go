package client

import (
	"math"
	"time"
)

// window limits what was sent on a link, of some classes, and its session has not
// accepted yet: to two messages, and to a number of bytes. What waits at the
// session, and on the way there, is then no more than it handles within a fraction
// of the client lease: a session that is slow, or has many clients, is sent less.
// The rest waits here, where it is sent in fewer messages, and a newer version
// replaces an older one.
//
// The number of bytes follows the time from the sending of a message to its
// acceptance, as the congestion window of TCP follows losses: it is halved when
// that time is long, and grows while it is short and the window is what limits
// the link.
type window struct {
	long time.Duration // a time to acceptance above this halves the size

	size     int                    // in bytes
	used     int                    // by what is in flight
	sent     map[*Publication][]one // in flight, of each publication the oldest version first
	messages int                    // in flight
	full     bool                   // something had to wait since the last measurement
}

// one is a version of a publication in flight.
type one struct {
	version int64
	bytes   int
	message *flight
}

// flight is a message in flight: it has landed when each of its publications was
// accepted, in this version or a newer one, or refused. A newer version that was
// sent meanwhile does not replace it: a client that changes one publication all
// the time would have any number of messages in flight.
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

// windows are the two of a link: withdrawals, and updates of what its session holds,
// have one of their own. A session that has no room accepts late what is new to it, and
// what is urgent does not wait for that (ADR 0079).
type windows [2]window

func newWindows(long time.Duration) windows { return windows{newWindow(long), newWindow(long)} }

// windowOf returns the index of the window of a class.
func windowOf(class int) int {
	if class > updates {
		return 1
	}
	return 0
}

// idle reports whether the session has accepted all that was sent.
func (w *windows) idle() bool { return w[0].idle() && w[1].idle() }

// accept records in both windows that the session has accepted a version, since an
// update may be in flight together with the new publication that it updates.
func (w *windows) accept(p *Publication, version int64, now time.Time) (opened bool) {
	for i := range w {
		opened = w[i].accept(p, version, now) || opened
	}
	return opened
}

// drop forgets a publication that is in flight, because it was refused or is not
// wanted any more.
func (w *windows) drop(p *Publication, now time.Time) (opened bool) {
	return w.accept(p, math.MaxInt64, now)
}

func newWindow(long time.Duration) window {
	return window{long: long, size: windowFirst, sent: map[*Publication][]one{}}
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
	w.used += bytes
	w.sent[p] = append(w.sent[p], one{p.version, bytes, m})
}

// wait records that something waits because the window is full.
func (w *window) wait() { w.full = true }

// accept records that the session has accepted a version, and with it those
// before it. It reports whether something may be sent that could not be sent
// before.
func (w *window) accept(p *Publication, version int64, now time.Time) (opened bool) {
	closed, all := w.room() <= 0, w.sent[p]
	left := all
	for len(left) > 0 && left[0].version <= version {
		w.land(left[0], now)
		left = left[1:]
	}
	switch {
	case len(left) > 0:
		w.sent[p] = left
	case len(all) > 0:
		delete(w.sent, p)
	}
	return closed && w.room() > 0
}

// land records that a version is not in flight any more.
func (w *window) land(s one, now time.Time) {
	w.used -= s.bytes
	if s.message.open--; s.message.open == 0 {
		w.messages--
		w.measure(now.Sub(s.message.began))
	}
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

// The classes in which a link sends publications, in this order (ADR 0079). Each
// class takes at most three quarters of what those before it have left of a
// message, if anything waits behind it, so that none waits for ever.
const (
	withdrawals = iota
	updates     // of what the link's session has accepted in an older version
	changes     // of what another session has accepted in an older version: new to this one
	others      // new, or sent to another session again
	classes
)

// classOf returns the class of a publication on the link of that number.
func classOf(p *Publication, link uint64) int {
	switch {
	case p.withdrawn:
		return withdrawals
	case p.accepted.version == 0 || p.accepted.version >= p.version:
		return others
	case p.acceptedBy != link:
		return changes
	}
	return updates
}

// waiting holds the publications that wait to be sent on a link, each once. It is
// not safe for concurrent use.
type waiting struct {
	class map[*Publication]int    // of each that waits
	lanes [classes][]*Publication // by class, oldest first; entries whose class is another one by now are skipped
}

// add adds a publication of a class, and reports whether it did not wait in this one
// or an earlier one: if so, it keeps its place.
func (w *waiting) add(p *Publication, class int) (added bool) {
	if was, waits := w.class[p]; waits && was <= class {
		return false
	}
	if w.class == nil {
		w.class = map[*Publication]int{}
	}
	w.class[p] = class
	w.lanes[class] = append(w.lanes[class], p)
	return true
}

// remove removes a publication, if it waits.
func (w *waiting) remove(p *Publication) { delete(w.class, p) }

// has reports whether a publication waits.
func (w *waiting) has(p *Publication) bool {
	_, waits := w.class[p]
	return waits
}

// first returns the oldest of a class, or nil.
func (w *waiting) first(class int) *Publication {
	lane := w.lanes[class]
	for len(lane) > 0 {
		if now, waits := w.class[lane[0]]; waits && now == class {
			break
		}
		lane[0] = nil
		lane = lane[1:]
	}
	if len(lane) == 0 {
		lane = nil
	}
	if w.lanes[class] = lane; lane == nil {
		return nil
	}
	return lane[0]
}

// behind reports whether anything waits in a later class.
func (w *waiting) behind(class int) bool {
	for later := class + 1; later < classes; later++ {
		if w.first(later) != nil {
			return true
		}
	}
	return false
}

// empty reports whether nothing waits.
func (w *waiting) empty() bool { return len(w.class) == 0 }
