package session

import (
	"sync"

	"conclave/internal/signal"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// outbox holds what is still to be sent on one connection. Its size is limited
// by what the client itself asked for: one entry per registration and per
// subscription, of which the newest replaces the older ones. A client that
// reads slowly therefore sees fewer versions, never an older one after a newer
// one, and delays no other client.
type outbox struct {
	ready signal.Signal // there is something to send

	mu       sync.Mutex // guards the rest
	accepted acks
	stored   acks
	refused  []*wirev1.Refusal
	pushes   []string          // subscriptions in order of arrival, each once
	newest   map[string]*datum // of each subscription in pushes
	sessions []string
	move     string
	pong     uint64
	hello    *wirev1.Welcome
}

// acks holds acknowledgements to be sent: the highest version of each id.
type acks struct {
	order   []string
	version map[string]int64
}

func (a *acks) add(more []ack) {
	if a.version == nil && len(more) > 0 {
		a.version = make(map[string]int64, len(more))
	}
	for _, m := range more {
		have, waits := a.version[m.id]
		if !waits {
			a.order = append(a.order, m.id)
		}
		a.version[m.id] = max(have, m.version)
	}
}

// take removes and returns as many as one message carries.
func (a *acks) take() (out []*wirev1.Ack) {
	n := min(len(a.order), messageAcks)
	block := make([]wirev1.Ack, n) // one allocation for all
	for i, id := range a.order[:n] {
		block[i].Id, block[i].Version = id, a.version[id]
		delete(a.version, id)
		out = append(out, &block[i])
	}
	if a.order = a.order[n:]; len(a.order) == 0 {
		*a = acks{}
	}
	return out
}

func newOutbox() *outbox {
	return &outbox{ready: signal.New(), newest: map[string]*datum{}}
}

// add runs change under the lock and wakes the sender. It never waits for the
// network, so callers may hold locks of their own.
func (o *outbox) add(change func()) {
	o.mu.Lock()
	change()
	o.mu.Unlock()
	o.ready.Set()
}

func (o *outbox) push(subscription string, d *datum) {
	o.add(func() {
		if o.newest[subscription] == nil {
			o.pushes = append(o.pushes, subscription)
		}
		o.newest[subscription] = d
	})
}

// maxRefusals is how many refusals may wait for a client that does not read
// them. Refusals are the only thing that a client can cause without limit.
const maxRefusals = 64 << 10

// overflows reports whether more refusals wait than the client may leave
// unread.
func (o *outbox) overflows() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.refused) > maxRefusals
}

// messageBytes and messageAcks limit one message to a client.
const (
	messageBytes = 1 << 20
	messageAcks  = 4096
)

// next removes and returns the next message, or nil when nothing is left to be
// sent. A datum for several subscriptions of the connection is sent once.
func (o *outbox) next() *wirev1.ServerMessage {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := &wirev1.ServerMessage{Welcome: o.hello, Sessions: o.sessions, Pong: o.pong}
	if o.move != "" {
		m.Move = &wirev1.Move{Reason: o.move}
	}
	something := o.hello != nil || o.sessions != nil || o.pong != 0 || o.move != ""
	o.hello, o.sessions, o.pong, o.move = nil, nil, 0, ""

	m.Accepted, m.Stored = o.accepted.take(), o.stored.take()
	m.Refused, o.refused = o.refused, nil
	size, taken := 0, 0
	at := map[*datum]*wirev1.Push{}
	for _, subscription := range o.pushes {
		if size > messageBytes {
			break
		}
		taken++
		d := o.newest[subscription]
		delete(o.newest, subscription)
		if out := at[d]; out != nil {
			out.Subscriptions = append(out.Subscriptions, subscription)
			continue
		}
		out := &wirev1.Push{Subscriptions: []string{subscription}, Datum: d.message, Hash: d.hash, UnconfirmedMs: wire.Ms(d.unconfirmed)}
		at[d] = out
		m.Pushes = append(m.Pushes, out)
		size += d.size
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
