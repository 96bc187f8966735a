package client

import (
	"context"
	"time"

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
// Publications are taken in the order of their classes (order.go), as far as the
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
