package session

import (
	"time"

	"connectrpc.com/connect"

	"conclave/internal/signal"
	"conclave/session/registry"
	"conclave/wire"
	"conclave/wire/rights"
	wirev1 "conclave/wire/v1"
)

// connection is one Connect stream of a client.
type connection struct {
	*registry.Owner // what it owns; the registry's lock guards it
	since           time.Time
	linger          time.Duration   // how long its registrations stay after it broke
	identity        rights.Identity // of the client's token
	out             *outbox
	waiting         waiting       // its new registrations that wait for room
	subscribing     subscribing   // its subscriptions that wait for their turn
	extend          func()        // the client is not silent: its stream may stay for another client lease; any goroutine may call it
	abort           func()        // ends the stream from this side; any goroutine may call it
	settled         signal.Signal // data has more of what it registered
	asked           bool          // asked to move; guarded by clients.mu
	moved           bool          // its client ended it in order and without a good-bye, as one that has moved does; set before clients.release
	closed          bool          // its end was seen: the client's side closed it soon after a ping; set before clients.release
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

// clientStream is one Connect call, as the session sees it.
type clientStream = connect.BidiStream[wirev1.ClientMessage, wirev1.ServerMessage]
