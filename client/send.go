package client

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"conclave/internal/sleep"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Limits of one message.
const (
	messageBytes         = 64 << 10
	messageSubscriptions = 4096
)

// runSend sends what is queued, many items per message, as far as the window
// allows, and the pings of a link on which nothing else waits. It ends the
// request in order only when the client leaves for good: to the session that is
// the client's last message, after which it goes on publishing what a client
// with a linger leaves. A client that moves to another session may change and
// withdraw there what it registered here.
func (l *link) runSend(ctx context.Context) {
	for pings := uint64(1); ; {
		for m := l.next(); m != nil; m = l.next() {
			if l.stream.Send(m) != nil {
				return // the receiver gets the error
			}
		}
		l.settled.Set()
		select {
		case <-ctx.Done():
			return
		case <-l.ready.C():
		case <-l.pings.C():
			if l.stream.Send(&wirev1.ClientMessage{Ping: pings}) != nil {
				return
			}
			pings++
		case <-l.leave:
			l.client.mu.Lock()
			goodbye := l.goodbye
			l.client.mu.Unlock()
			if goodbye {
				_ = l.stream.Send(&wirev1.ClientMessage{Goodbye: true}) // if it fails, the stream has ended anyway
			}
			_ = l.stream.CloseRequest() // likewise
			return
		}
	}
}

// next makes the next message; nil when nothing is queued that may be sent now.
// Publications are taken in the order of their classes (classOf), as far as the
// window allows. The rest of a message is limited by its size: applications may
// close tens of thousands of subscriptions at once.
func (l *link) next() *wirev1.ClientMessage {
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	defer l.noteIdle()
	now := time.Now()
	l.client.forget(now)
	l.sendAgain(now)
	m := &wirev1.ClientMessage{}
	size, flights := 0, [len(l.windows)]*flight{{began: now}, {began: now}}
	for class := range classes {
		i := windowOf(class)
		window, flight := &l.windows[i], flights[i]
		share := min(size+window.room(), messageBytes)
		if l.waiting.behind(class) {
			share -= (share - size) / 4
		}
		for p := l.waiting.first(class); p != nil && size < share; p = l.waiting.first(class) {
			l.waiting.remove(p)
			if l.client.pubs[p.id] != p { // refused or forgotten meanwhile
				continue
			}
			bytes := p.size()
			m.Publishers = append(m.Publishers, p.message())
			window.send(flight, p, bytes)
			size += bytes
		}
		if l.waiting.first(class) != nil {
			window.wait()
		}
	}
	taken := 0
	for _, s := range l.subscribes {
		if taken >= messageSubscriptions || size > messageBytes {
			break
		}
		taken++
		delete(l.unfit, s) // what the session sends after this message may not fit either
		if !s.closed {
			if passes(s.err) { // of the last answer
				s.err = nil
			}
			m.Subscribe = append(m.Subscribe, s.message())
			size += 64 + len(s.key) + 4*len(m.Subscribe[len(m.Subscribe)-1].Publishers)
		}
	}
	l.subscribes = l.subscribes[taken:]
	m.Unsubscribe = takeIDs(&l.unsubscribes, &size)
	m.Unwatch = takeIDs(&l.unwatches, &size)
	if len(l.unwatches) == 0 { // a session takes the end of a watch first, and an id may be watched again
		m.Watch = takeIDs(&l.watches, &size)
	}
	if len(m.Publishers)+len(m.Subscribe)+len(m.Unsubscribe)+len(m.Watch)+len(m.Unwatch) == 0 {
		return nil
	}
	return m
}

// takeIDs removes and returns the first ids of a list, as many as fit into a
// message of this size, to which it adds theirs.
func takeIDs(list *[]string, size *int) []string {
	taken := 0
	for taken < len(*list) && *size <= messageBytes {
		*size += 16 + len((*list)[taken])
		taken++
	}
	ids := (*list)[:taken:taken]
	*list = (*list)[taken:]
	return ids
}

// over holds what a session has refused because of a limit of what a client or its
// address may hold there. The limit of an address may be reached because of other
// clients, so each of these is sent to the session again after a while, which grows,
// and, like all else, to the next session.
type over struct {
	pubs map[*Publication]bool
	subs map[*Subscription]bool
	at   time.Time // when they are sent again
	wait time.Duration
	last time.Time // when something was refused
}

// The time after which what is over a limit is sent again.
const (
	overFirst = 5 * time.Second
	overMost  = 2 * time.Minute
)

// passes reports whether a refusal may pass.
func passes(err error) bool { return wire.CodeOf(err) == wire.CodeLimitReached }

// final returns why the publication was refused for good, or nil.
func (p *Publication) final() error {
	if passes(p.err) {
		return nil
	}
	return p.err
}

// errAfter returns the error of the publication after a session has accepted a version
// or, with err, refused it.
func (p *Publication) errAfter(accepted int64, err error) error {
	switch {
	case err != nil && p.final() == nil:
		return err
	case err == nil && passes(p.err) && accepted >= p.version:
		return nil
	}
	return p.err
}

// plan sets when what was refused is sent again, unless that is set. The wait does not
// grow from refusals that are long past.
func (o *over) plan(now time.Time) {
	if now.Sub(o.last) > 2*overMost {
		o.wait = 0
	}
	o.last = now
	if o.at.IsZero() {
		o.wait = sleep.Longer(o.wait, overFirst, overMost)
		o.at = now.Add(o.wait)
	}
}

// accept records that the session has accepted a version of a publication.
func (o *over) accept(p *Publication, version int64) {
	if version >= p.version {
		delete(o.pubs, p)
	}
}

// overLimit records that a publication is over a limit of the session. A newer version
// that waits may fit. The client's lock is held.
func (l *link) overLimit(p *Publication, err error) {
	if l.waiting.has(p) {
		if l.windows.drop(p, time.Now()) {
			l.ready.Set()
		}
		return
	}
	if p.err == nil {
		l.client.log.Error("publication refused for now", "dataId", p.data.DataID, "id", p.id, "error", err)
	}
	p.acknowledge(0, 0, err)
	l.dropOwed(p)
	if l.over.pubs == nil {
		l.over.pubs = map[*Publication]bool{}
	}
	l.over.pubs[p] = true
	l.over.plan(time.Now())
}

// subscriptionOverLimit does the same of a subscription. What it has stays. The
// client's lock is held.
func (l *link) subscriptionOverLimit(s *Subscription, err error) {
	if !s.over {
		l.client.log.Error("subscription refused for now", "dataId", s.data.DataID, "id", s.id, "error", err)
	}
	s.err, s.over = err, true
	if l.over.subs == nil {
		l.over.subs = map[*Subscription]bool{}
	}
	l.over.subs[s] = true
	l.over.plan(time.Now())
}

// sendAgain queues what was over a limit, when it is time. A link calls it whenever it
// looks for something to send, which is at each ping at the latest. The client's lock
// is held.
func (l *link) sendAgain(now time.Time) {
	if l.over.at.IsZero() || now.Before(l.over.at) {
		return
	}
	pubs := slices.SortedFunc(maps.Keys(l.over.pubs), func(a, b *Publication) int { return cmp.Compare(a.seq, b.seq) })
	subs := slices.SortedFunc(maps.Keys(l.over.subs), func(a, b *Subscription) int { return cmp.Compare(a.seq, b.seq) })
	l.over.pubs, l.over.subs, l.over.at = nil, nil, time.Time{}
	for _, p := range pubs {
		if l.client.pubs[p.id] == p {
			l.queue(p)
		}
	}
	l.subscribes = append(l.subscribes, subs...)
}

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
