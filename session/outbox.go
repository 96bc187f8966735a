package session

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave/internal/contain"
	"conclave/internal/signal"
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
//	   +------+------+  finish, cut, too much waits, or the stream has failed
//	          v
//	       (ended)
type outbox struct {
	send   func(*wirev1.ServerMessage) error // nil: what is added waits for ever
	failed func()                            // called when send has failed
	unread func()                            // called when the client has not read a message within sendLimit: it makes send fail
	full   func()                            // called when more waits than what.Limit: it makes send fail
	large  *largeSends                       // nil: large messages do not wait for their turn
	host   string                            // of the client
	log    hclog.Logger                      // of panics; may be nil

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
	if o.what.Exceeds() {
		o.ended, o.what = true, registry.Outbox{}
		o.senders.Go(o.full)
		return
	}
	o.start()
}

// start starts a goroutine that sends, unless there is one. mu is held.
func (o *outbox) start() {
	if o.send != nil && !o.sending {
		o.sending = true
		o.senders.Go(func() { contain.Run(o.log, func(error) { o.cut(); o.failed() }, o.run) })
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
	for m, bytes := o.next(); m != nil; m, bytes = o.next() {
		late.Stop() // other clients may be the reason to wait
		o.large.enter(o.host, bytes)
		late.Reset(sendLimit)
		err := o.send(m)
		o.large.leave(o.host, bytes)
		if err != nil {
			o.cut()
			o.failed()
		}
	}
}

// next removes and returns the next message, and the bytes of its lists. If there is
// none, or the stream has failed, it returns nil, and the goroutine that sends is to
// end.
func (o *outbox) next() (m *wirev1.ServerMessage, bytes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m = o.what.Next()
	o.sending = m != nil
	return m, o.what.Taken()
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

// largeSends makes the large messages to the clients of one address wait for each
// other when they have many bytes together: a message is encoded while it is sent,
// and clients that do not read would keep any number of such copies. Each ends within
// sendLimit.
type largeSends struct {
	each int // bytes for each address

	mu   sync.Mutex // guards the rest
	by   map[string]int
	free signal.Broadcast
}

const (
	largeSend     = 256 << 10 // smaller messages do not wait
	largeSendEach = 256 << 20
)

func newLargeSends(each int) *largeSends { return &largeSends{each: each, by: map[string]int{}} }

// enter waits until a message may be sent. One that is larger than all may be is sent
// alone.
func (l *largeSends) enter(host string, bytes int) {
	for l != nil && bytes > largeSend {
		free := l.free.Next()
		if l.take(host, bytes) {
			return
		}
		<-free
	}
}

func (l *largeSends) take(host string, bytes int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if used := l.by[host]; used > 0 && used+bytes > l.each {
		return false
	}
	l.by[host] += bytes
	return true
}

// leave is called when it was sent, or has failed.
func (l *largeSends) leave(host string, bytes int) {
	if l == nil || bytes <= largeSend {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by[host] -= bytes; l.by[host] == 0 {
		delete(l.by, host)
	}
	l.free.Notify()
}
