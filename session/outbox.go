package session

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/proto"

	"conclave/internal/contain"
	"conclave/internal/signal"
	"conclave/session/registry"
	"conclave/wire/admit"
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
	large  *admit.Budget                     // of bytes, by host; nil: large messages do not wait for their turn
	host   string                            // of the client
	log    hclog.Logger                      // of panics; may be nil

	mu      sync.Mutex // guards the rest
	what    registry.Outbox
	sending bool          // a goroutine sends
	ended   bool          // no further goroutine is started
	changed signal.Signal // set by what is added and by the end, for a goroutine whose lists wait for their turn
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
	o.changed.Set()
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

// Large messages to the clients of one address take turns when they have many bytes
// together: a message is encoded while it is sent, and clients that do not read would
// keep any number of such copies. Each turn ends within sendLimit.
const (
	largeSend     = 256 << 10 // smaller messages do not wait
	largeSendEach = 256 << 20 // bytes for each address
)

// run sends until nothing is left or the stream has failed.
func (o *outbox) run() {
	late := time.AfterFunc(sendLimit, o.unread)
	late.Stop() // other clients may be the reason to wait
	defer late.Stop()
	for m, bytes := o.next(); m != nil; m, bytes = o.next() {
		if o.sendInTurn(late, m, bytes) != nil {
			o.cut()
			o.failed()
		}
	}
}

// sendInTurn sends a message. While its lists have to wait for their turn, the answers
// in it and all further ones are sent. The lists are not sent if the connection ends
// meanwhile.
func (o *outbox) sendInTurn(late *time.Timer, m *wirev1.ServerMessage, bytes int) error {
	var turn *admit.Turn
	if bytes > largeSend {
		turn = o.large.Join(o.host, bytes)
	}
	defer turn.Leave()
	if turn.Waits() {
		lists := &wirev1.ServerMessage{Pushes: m.Pushes, Withheld: m.Withheld}
		m.Pushes, m.Withheld = nil, nil
		if sent, err := o.answerUntil(turn.Given(), late, m); !sent {
			return err
		}
		m = lists
	}
	return o.sendOne(late, m)
}

// answerUntil sends answers, first those in m, until given is closed. It reports false
// if the connection ends, or cannot send, before that.
func (o *outbox) answerUntil(given <-chan struct{}, late *time.Timer, m *wirev1.ServerMessage) (was bool, err error) {
	changed := signal.New()
	o.mu.Lock()
	o.changed = changed
	o.mu.Unlock()
	if proto.Size(m) == 0 {
		m = nil
	}
	for {
		if m != nil {
			if err := o.sendOne(late, m); err != nil {
				return false, err
			}
		}
		select {
		case <-given:
			return true, nil
		default:
		}
		var ended bool
		if m, ended = o.answers(); ended {
			return false, nil
		}
		if m != nil {
			continue
		}
		select {
		case <-given:
		case <-changed.C():
		}
	}
}

// answers removes and returns the answers that wait, nil if there are none, and reports
// whether the connection is ending.
func (o *outbox) answers() (m *wirev1.ServerMessage, ended bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return nil, true
	}
	if m, something := o.what.Answers(); something {
		return m, false
	}
	return nil, false
}

// sendOne sends a message, which the client has to read in time.
func (o *outbox) sendOne(late *time.Timer, m *wirev1.ServerMessage) error {
	late.Reset(sendLimit)
	defer late.Stop()
	return o.send(m)
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

// finish sends what is left, except lists that have to wait for their turn. Call wait
// after it.
func (o *outbox) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.start()
	}
	o.ended = true
	o.changed.Set()
}

// cut drops what is left: only the message that is being sent may still be sent.
// Call wait after it.
func (o *outbox) cut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended, o.what = true, registry.Outbox{}
	o.changed.Set()
}

// wait returns when no goroutine sends any more, after finish or cut.
func (o *outbox) wait() { o.senders.Wait() }

// overflows reports whether more waits than the client may leave unread.
func (o *outbox) overflows() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.what.Overflows()
}
