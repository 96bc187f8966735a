package session

import (
	"context"
	"time"

	"conclave/internal/signal"
	"conclave/session/registry"
	"conclave/wire"
	"conclave/wire/rights"
	wirev1 "conclave/wire/v1"
)

// connection is one stream of a client.
type connection struct {
	*registry.Owner // what it owns; the registry's lock guards it
	since           time.Time
	linger          time.Duration   // how long its registrations stay after it broke
	identity        rights.Identity // of the client's token
	out             *outbox
	waiting         *backlog[*wirev1.Publisher]    // its new registrations that wait for room
	subscribing     *backlog[*wirev1.Subscription] // its subscriptions that wait for their turn
	extend          func()                         // the client is not silent: its stream may stay for another client lease; any goroutine may call it
	alive           func() time.Time               // when its client was known to live, as it has last shown
	abort           func()                         // ends the stream from this side; any goroutine may call it
	settled         signal.Signal                  // data has more of what it registered
	asked           bool                           // asked to move; guarded by clients.mu
	moved           bool                           // its client reset it without a good-bye, as one does that has moved; set before clients.release
	closed          bool                           // its end was seen: the client's side closed it soon after a ping; set before clients.release
	leased          bool                           // it is a registrant: of all fields it uses Owner, since, linger, asked and the following three
	until           time.Time                      // leases.run renews the lease of a registrant until then; the registry's lock guards it
	hiddenBy        int64                          // the version that data has above that of a registrant, or 0; the registry's lock guards it
	answered        signal.Broadcast               // data has stored or refused a registrant's registration
}

// mayPublish returns why the client may not register, or nil.
func (c *connection) mayPublish() error {
	switch id := c.identity; {
	case id.May(rights.Publish):
		return nil
	case id.Name == "":
		return wire.Errorf(wire.CodeUnauthorized, "registering needs the header Authorization: Bearer TOKEN, with the right %s", rights.Publish)
	default:
		return wire.Errorf(wire.CodeForbidden, "registering needs the right %s; %s has the right %s", rights.Publish, id.Name, id.Right)
	}
}

// clientStream is one Connect call, as the session sees it, or a connection of a client
// with another protocol. Receive returns nil for what the session need not know.
type clientStream interface {
	Receive() (*wirev1.ClientMessage, error)
	Send(*wirev1.ServerMessage) error
}

// arrival is a client that has connected.
type arrival struct {
	stream   clientStream
	response interface { // sets the deadlines of the stream
		SetReadDeadline(time.Time) error
		SetWriteDeadline(time.Time) error
	}
	body     *incoming
	identity rights.Identity
	address  string
	protocol string
	foreign  bool             // see registry.Owner
	alive    func() time.Time // when the client was known to live, as its last message shows
	linger   time.Duration    // how long its registrations stay after the stream broke
}

// poll is a request that waits for lists (polls.go).
type poll struct {
	*registry.Owner
	number int64              // in the order in which they came
	pushes chan registry.Push // the newest
	end    chan struct{}      // closed when the session wants its clients to move
}

// next waits for the next list.
func (p *poll) next(ctx context.Context) (push registry.Push, err error) {
	select {
	case push = <-p.pushes:
		return push, push.Refusal()
	default:
	}
	select {
	case push = <-p.pushes:
		return push, push.Refusal()
	case <-p.end:
		return push, wire.Errorf(wire.CodeUnavailable, "this session asks its clients to move to another one")
	case <-ctx.Done():
		return push, ctx.Err()
	}
}

// ended reports whether the session wants its clients to move.
func (p *poll) ended() bool {
	select {
	case <-p.end:
		return true
	default:
		return false
	}
}

// give gives a push to the request; it replaces one that was not taken yet. clients.mu is
// held.
func (p *poll) give(push registry.Push) {
	select {
	case <-p.pushes:
	default:
	}
	p.pushes <- push
}
