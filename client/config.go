package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/wire"
)

// Config says where sessions are and who the client is.
type Config struct {
	// Sessions are addresses of sessions; one that answers is enough, since it
	// tells the others.
	Sessions []string
	// Resolve finds addresses instead of, or besides, Sessions. It is asked at
	// the start, and again whenever no known session can be reached.
	Resolve func(ctx context.Context) ([]string, error)
	// Name is shown to people; "" is "client".
	Name string
	// Token is shown to sessions; registering needs it when they are configured
	// with one, subscribing does not.
	Token string
	// Linger announces that this client leaves without a good-bye: what it
	// published stays this long, at most an hour, and counts as withdrawn then,
	// so that the push guard does not take it for lost. 0, for clients that mean
	// to stay: it is kept for the session's client lease (5 s by default).
	Linger time.Duration
	// Network is how the client dials; nil is TCP.
	Network wire.Network
	// Logger is told when a session is found and lost; nil is silence.
	Logger hclog.Logger
	// Rand draws ids and jitter; nil draws a seed. The client is its only user.
	Rand *rand.Rand
}

// Errors that callers meet.
var (
	// ErrClosed is returned by whatever is asked of a client after Close began.
	ErrClosed = errors.New("the client is closed")
	// ErrWithdrawn is returned when a withdrawn publication is updated.
	ErrWithdrawn = errors.New("the publication is withdrawn")
)

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = "client"
	}
	if c.Network == nil {
		c.Network = wire.NewTCP()
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.Rand == nil {
		c.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	return c
}

// Validate names the field that is wrong.
func (c Config) Validate() error {
	if len(c.Sessions) == 0 && c.Resolve == nil {
		return errors.New("no session is known: give Sessions or Resolve")
	}
	if c.Linger < 0 {
		return fmt.Errorf("linger %v is below zero", c.Linger)
	}
	for _, a := range c.Sessions {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return fmt.Errorf("session address %q: want HOST:PORT", a)
		}
	}
	return nil
}

// Option refines one publication or subscription.
type Option func(*options)

type options struct {
	group, instance string
	onPush          func(conclave.Datum)
	limit           time.Duration
}

// Group names the group; the default is conclave.DefaultGroup.
func Group(g string) Option { return func(o *options) { o.group = g } }

// Instance names the instance (a tenant); the default is conclave.DefaultInstance.
func Instance(i string) Option { return func(o *options) { o.instance = i } }

// OnPush lets a subscription call fn with every push, instead of using its
// channel. Calls for one subscription come one after the other; while fn runs,
// newer pushes replace each other, so that it sees the newest next. A slow fn
// holds up no other subscription. It must not call Close of the client.
func OnPush(fn func(conclave.Datum)) Option { return func(o *options) { o.onPush = fn } }

// HoldAtMost limits how long the first list of a subscription is held back while
// registrations are missing that are expected to come back. After d it is pushed
// as it is, with Datum.Unconfirmed set. Without the option the session decides:
// up to its session grace and five seconds. Sessions of older builds ignore it.
func HoldAtMost(d time.Duration) Option { return func(o *options) { o.limit = d } }

func name(dataID string, opts []Option) (conclave.DataInfoID, options, error) {
	var o options
	for _, set := range opts {
		set(&o)
	}
	data, err := conclave.NewDataInfoID(dataID, o.instance, o.group)
	return data, o, err
}
