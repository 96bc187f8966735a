package session

import (
	"sync"

	wirev1 "conclave/wire/v1"
)

// outbox is what one connection is still to be told. It is bounded by what the
// client itself asked for: one entry per registration and per subscription, the
// newest wins. So a client that reads slowly sees fewer versions, never an older
// one after a newer one, and holds up nobody else.
type outbox struct {
	wake chan struct{} // one token: there is something to send

	mu       sync.Mutex // guards the rest
	accepted []ack
	stored   []ack
	refused  []*wirev1.Refusal
	pushes   []pushed // in order of arrival; one whose datum was replaced is skipped
	newest   map[string]*datum
	sessions []string
	move     string
	pong     uint64
	hello    *wirev1.Welcome
}

// pushed is a place in the order of pushes.
type pushed struct {
	subscription string
	datum        *datum
}

func newOutbox() *outbox {
	return &outbox{wake: make(chan struct{}, 1), newest: map[string]*datum{}}
}

// add changes the outbox and wakes its sender. It never waits, so callers may
// hold locks of their own.
func (o *outbox) add(change func()) {
	o.mu.Lock()
	change()
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *outbox) push(subscription string, d *datum) {
	o.add(func() {
		o.newest[subscription] = d
		o.pushes = append(o.pushes, pushed{subscription, d})
		if len(o.pushes) > 4*len(o.newest)+64 {
			kept := o.pushes[:0]
			for _, p := range o.pushes {
				if o.newest[p.subscription] == p.datum {
					kept = append(kept, p)
				}
			}
			clear(o.pushes[len(kept):])
			o.pushes = kept
		}
	})
}

// messageBytes and messageAcks bound one message to a client.
const (
	messageBytes = 1 << 20
	messageAcks  = 4096
)

// next takes the next message; nil when nothing is left to be told. Pushes of
// one datum to several subscriptions of the connection travel once.
func (o *outbox) next() *wirev1.ServerMessage {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := &wirev1.ServerMessage{Welcome: o.hello, Sessions: o.sessions, Pong: o.pong}
	if o.move != "" {
		m.Move = &wirev1.Move{Reason: o.move}
	}
	something := o.hello != nil || o.sessions != nil || o.pong != 0 || o.move != ""
	o.hello, o.sessions, o.pong, o.move = nil, nil, 0, ""

	m.Accepted, o.accepted = acksOut(o.accepted)
	m.Stored, o.stored = acksOut(o.stored)
	m.Refused, o.refused = o.refused, nil
	size, taken := 0, 0
	at := map[*datum]*wirev1.Push{}
	for _, p := range o.pushes {
		if size > messageBytes {
			break
		}
		taken++
		if o.newest[p.subscription] != p.datum {
			continue // overtaken by a newer version
		}
		delete(o.newest, p.subscription)
		if out := at[p.datum]; out != nil {
			out.Subscriptions = append(out.Subscriptions, p.subscription)
			continue
		}
		out := &wirev1.Push{Subscriptions: []string{p.subscription}, Datum: p.datum.message, Hash: p.datum.hash}
		at[p.datum] = out
		m.Pushes = append(m.Pushes, out)
		size += p.datum.size
	}
	o.pushes = o.pushes[taken:]
	if len(o.pushes) == 0 {
		o.pushes = nil
	}
	if !something && len(m.Accepted)+len(m.Stored)+len(m.Refused)+len(m.Pushes) == 0 {
		return nil
	}
	return m
}

// acksOut takes as many acknowledgements as one message carries.
func acksOut(acks []ack) (out []*wirev1.Ack, rest []ack) {
	n := min(len(acks), messageAcks)
	block := make([]wirev1.Ack, n) // one allocation for all
	for i, a := range acks[:n] {
		block[i].Id, block[i].Version = a.id, a.version
		out = append(out, &block[i])
	}
	if n == len(acks) {
		return out, nil
	}
	return out, acks[n:]
}
