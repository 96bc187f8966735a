package session

import (
	"time"

	"connectrpc.com/connect"

	"conclave/internal/signal"
	"conclave/session/registry"
	wirev1 "conclave/wire/v1"
)

// connection is one Connect stream of a client.
type connection struct {
	*registry.Owner // what it owns; the registry's lock guards it
	since           time.Time
	linger          time.Duration // how long its registrations stay after it broke
	authorized      bool
	out             *outbox
	extend          func()        // the client is not silent: its stream may stay for another client lease; any goroutine may call it
	abort           func()        // ends the stream from this side; any goroutine may call it
	settled         signal.Signal // data has more of what it registered
	asked           bool          // asked to move; guarded by clients.mu
}

// clientStream is one Connect call, as the session sees it.
type clientStream = connect.BidiStream[wirev1.ClientMessage, wirev1.ServerMessage]
