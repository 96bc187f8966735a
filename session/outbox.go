package session

import (
	"sync"
	"time"

	"conclave/session/registry"
	wirev1 "conclave/wire/v1"
)

// outbox is what is still to be sent on one connection. It is sent by a goroutine
// that exists only while there is something to send: most of the thousands of
// connections of a session are idle, and each goroutine costs 8 KiB of stack.
//
//	        add                      nothing is left
//	(idle) -----> (sending: run) --------------------> (idle)
//	   |             |    ^ add: the same goroutine sends it
//	   |             |
//	   +------+------+  finish, cut, or the stream has failed
//	          v
//	       (ended)
type outbox struct {
	send   func(*wirev1.ServerMessage) error // nil: what is added waits for ever
	failed func()                            // called when send has failed
	unread func()                            // called when the client has not read a message within sendLimit: it makes send fail

	mu      sync.Mutex // guards the rest
	what    registry.Outbox
	sending bool // a goroutine sends
	ended   bool // no further goroutine is started
	senders sync.WaitGroup
}

// add runs change under the lock and makes sure that the result is sent, unless the
// connection is ending. It never waits for the network, so callers may hold locks of
// their own.
func (o *outbox) add(change func(*registry.Outbox)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	change(&o.what)
	o.start()
}

// start starts a goroutine that sends, unless there is one. mu is held.
func (o *outbox) start() {
	if o.send != nil && !o.sending {
		o.sending = true
		o.senders.Go(o.run)
	}
}

// sendLimit is how long a client may take to read one message. It is several times
// what a slow network needs. Without it a client that pings, or has said good-bye, and
// does not read would keep what waits for it for ever.
const sendLimit = 30 * time.Second

// run sends until nothing is left or the stream has failed.
func (o *outbox) run() {
	late := time.AfterFunc(sendLimit, o.unread)
	defer late.Stop()
	for m := o.next(); m != nil; m = o.next() {
		late.Reset(sendLimit)
		if o.send(m) != nil {
			o.cut()
			o.failed()
		}
	}
}

// next removes and returns the next message. If there is none, or the stream has
// failed, it returns nil, and the goroutine that sends is to end.
func (o *outbox) next() *wirev1.ServerMessage {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := o.what.Next()
	o.sending = m != nil
	return m
}

// finish sends what is left. Call wait after it.
func (o *outbox) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.start()
	}
	o.ended = true
}

// cut drops what is left: only the message that is being sent may still be sent.
// Call wait after it.
func (o *outbox) cut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended, o.what = true, registry.Outbox{}
}

// wait returns when no goroutine sends any more, after finish or cut.
func (o *outbox) wait() { o.senders.Wait() }

// overflows reports whether more waits than the client may leave unread.
func (o *outbox) overflows() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.what.Overflows()
}
