package client

import (
	"cmp"
	"context"
	"maps"
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
// Publications are taken in the order of their classes (window.go), as far as the
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
