package session

import (
	"slices"
	"sync"
)

// largeSends makes the large messages to the clients of one address take turns when
// they have many bytes together: a message is encoded while it is sent, and clients
// that do not read would keep any number of such copies. Each turn ends within
// sendLimit, and the next one is that of the message that has waited longest.
type largeSends struct {
	each int // bytes for each address

	mu sync.Mutex // guards the rest
	by map[string]*sendTurns
}

// sendTurns are those of one address.
type sendTurns struct {
	used    int // bytes of the messages that are being sent
	waiting []*sendTurn
}

// sendTurn is that of one message.
type sendTurn struct {
	host  string
	bytes int
	given chan struct{} // closed when the message may be sent
}

const (
	largeSend     = 256 << 10 // smaller messages do not wait
	largeSendEach = 256 << 20
)

func newLargeSends(each int) *largeSends { return &largeSends{each: each, by: map[string]*sendTurns{}} }

// enter returns the turn of a message, which may have to wait. Call leave after it. A
// message that is larger than all may be is sent alone. l may be nil; the turn of a
// small message is nil.
func (l *largeSends) enter(host string, bytes int) *sendTurn {
	if l == nil || bytes <= largeSend {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t, all := &sendTurn{host, bytes, make(chan struct{})}, l.by[host]
	if all == nil {
		all = &sendTurns{}
		l.by[host] = all
	}
	all.waiting = append(all.waiting, t)
	l.give(all)
	return t
}

// leave ends a turn: the message was sent, or it is not sent, whether or not it waits
// still.
func (l *largeSends) leave(t *sendTurn) {
	if t == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.by[t.host]
	if at := slices.Index(all.waiting, t); at >= 0 {
		all.waiting = slices.Delete(all.waiting, at, at+1)
	} else {
		all.used -= t.bytes
	}
	if l.give(all); all.used == 0 {
		delete(l.by, t.host)
	}
}

// give gives turns to those that have waited longest, as far as they fit. mu is held.
func (l *largeSends) give(all *sendTurns) {
	for len(all.waiting) > 0 && (all.used == 0 || all.used+all.waiting[0].bytes <= l.each) {
		all.used += all.waiting[0].bytes
		close(all.waiting[0].given)
		all.waiting = slices.Delete(all.waiting, 0, 1)
	}
}

// waits reports whether the message has to wait.
func (t *sendTurn) waits() bool {
	if t == nil {
		return false
	}
	select {
	case <-t.given:
		return false
	default:
		return true
	}
}
