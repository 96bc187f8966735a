package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"conclave"
	"conclave/internal/certs"
	"conclave/internal/random"
	"conclave/wire"
	"conclave/wire/list"
)

// Config configures a client.
type Config struct {
	// Sessions are addresses of sessions; one that answers is enough, since it
	// reports the others.
	Sessions []string
	// Resolve returns addresses of sessions, instead of or in addition to
	// Sessions. It is called at the start, and again whenever no known session
	// can be reached. While a call takes long, the Sessions are asked; it may be called
	// again before a call has returned whose context has ended.
	Resolve func(ctx context.Context) ([]string, error)
	// Bind sends to the addresses of Resolve what is sent to those that sessions
	// report: not the token itself, but one that is bound to the address, which is of
	// no use elsewhere. It is for a Resolve that asks others, and needs addresses as
	// the sessions advertise them.
	Bind bool
	// Name is how sessions display this client. Default "client".
	Name string
	// Token is sent to sessions. If they are configured with tokens, registering
	// needs one with the right publish, and subscribing one with the right read.
	Token string
	// TokenFrom, if not nil, returns the token instead; see TokenFile. It is called
	// for each attempt to connect, so that a token may be replaced while the client
	// runs: the session ends the connection when the old one is not valid any more.
	TokenFrom func() (string, error)
	// GiveUp makes a refused token final: publications and subscriptions have the
	// error, and are not tried again. It is for programs that end then. Otherwise
	// a client with a token tries again with the pauses of any reconnect.
	GiveUp bool
	// TLS, if not nil, is used to connect to sessions, which must use it too (their
	// flag --tls-dir). RootCAs are the CAs of their certificates; the name that is
	// verified is the host that is dialled, unless ServerName is set.
	TLS *tls.Config
	// TLSFrom, if not nil, returns the settings for each connection instead, so that
	// they may be replaced while the client runs; see TLSFolder.
	TLSFrom func() *tls.Config
	// Linger announces that this client ends without a good-bye: its
	// publications then stay for this long, at most an hour, and count as
	// withdrawn afterwards, so that the push guard does not take them for lost.
	// Only the session that the client left knows of it. A session that stops in order
	// hands it on, if another one takes it within five seconds. If it does not, or
	// dies, they stay for its session grace (15 s) and the push guard may hold them for
	// as long again.
	// Default 0, for clients that run until they call Close: their publications
	// are kept for the session's client lease (5 s by default), or a quarter of it
	// if the session sees that the client's process ended.
	Linger time.Duration
	// MaxWaiting limits the size in bytes of the publications that no session has
	// accepted yet, estimated: their values, their names and 64 bytes each. Publish
	// waits while it is reached. Default 64 MiB.
	MaxWaiting int
	// MaxListBytes is the size of the largest list that the client puts together, about,
	// as it is in memory. A larger one is an error of its subscription, which keeps the
	// list before it. Default 256 MiB, as on sessions.
	MaxListBytes int
	// Network is what the client dials with. Default: TCP.
	Network wire.Network
	// Logger receives the client's log. Default: none.
	Logger *slog.Logger
	// Rand is the source of ids and jitter; the client must be its only user.
	// Default: ChaCha8 with a seed of the system. Ids must not be guessed: a token of
	// the same name and the id of a registration are enough to withdraw it.
	Rand *rand.Rand
}

// Errors that callers may test for.
var (
	// ErrClosed is returned by every call that needs the client after Close
	// began.
	ErrClosed = errors.New("the client is closed")
	// ErrWithdrawn is returned by Update on a withdrawn publication.
	ErrWithdrawn = errors.New("the publication is withdrawn")
)

// TokenFile returns a function for Config.TokenFrom: it reads the token in a file,
// which is the last word of the first line that is not empty and no comment (#).
func TokenFile(path string) func() (string, error) {
	return func() (string, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("read the token: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			if words := strings.Fields(line); len(words) > 0 && !strings.HasPrefix(words[0], "#") {
				return words[len(words)-1], nil
			}
		}
		return "", fmt.Errorf("read the token: %s has none", path)
	}
}

// TLSFolder returns a function for Config.TLSFrom. It uses the CAs in ca.pem of a
// folder, and the certificate in client.pem and client-key.pem if there is one, as
// `conclave certs` writes them. The files are read again before new connections;
// those that cannot be used change nothing. report, if not nil, is called after
// each change, with nil or the error.
func TLSFolder(dir string, report func(error)) (func() *tls.Config, error) {
	if report == nil {
		report = func(error) {}
	}
	set, err := certs.Load(dir, "", report)
	if err != nil {
		return nil, err
	}
	return set.Client, nil
}

func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, "client")
	c.MaxWaiting = cmp.Or(c.MaxWaiting, 64<<20)
	c.MaxListBytes = cmp.Or(c.MaxListBytes, list.MaxBytes)
	if token := c.Token; c.TokenFrom == nil && token != "" {
		c.TokenFrom = func() (string, error) { return token, nil }
	}
	if settings := c.TLS; c.TLSFrom == nil && settings != nil {
		c.TLSFrom = func() *tls.Config { return settings }
	}
	if c.Network == nil {
		c.Network = &wire.TCP{} // an attempt has a limit, which grows
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Rand == nil {
		c.Rand = random.New()
	}
	return c
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	if len(c.Sessions) == 0 && c.Resolve == nil {
		return errors.New("no session address: give Sessions or Resolve")
	}
	if c.Linger < 0 {
		return fmt.Errorf("linger %v is negative", c.Linger)
	}
	if c.MaxWaiting < 0 {
		return fmt.Errorf("max waiting %d is negative", c.MaxWaiting)
	}
	if c.MaxListBytes < 0 {
		return fmt.Errorf("max list bytes %d is negative", c.MaxListBytes)
	}
	for _, a := range c.Sessions {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return fmt.Errorf("session address %q: want HOST:PORT", a)
		}
	}
	return nil
}

// Option changes one publication or subscription.
type Option func(*options)

type options struct {
	group, instance string
	onPush          func(conclave.Datum)
	onChange        func(Change)
	limit           time.Duration
}

// Group sets the group. Default conclave.DefaultGroup.
func Group(g string) Option { return func(o *options) { o.group = g } }

// Instance sets the instance (a tenant). Default conclave.DefaultInstance.
func Instance(i string) Option { return func(o *options) { o.instance = i } }

// OnPush makes a subscription call fn with every push instead of using its
// channel. Calls for one subscription do not overlap; while fn runs, newer
// pushes replace each other, so that it gets the newest next. A slow fn delays
// no other subscription. It must not call Close of the client.
func OnPush(fn func(conclave.Datum)) Option { return func(o *options) { o.onPush = fn } }

// Change is how a list differs from what it was before.
type Change struct {
	Data           conclave.DataInfoID
	Version        int64         // of the list
	Unconfirmed    time.Duration // as in conclave.Datum
	Added, Removed []string      // sorted; a value that the list has twice more is in Added twice
}

// OnChange is used in the place of OnPush, and follows the same rules, but fn is called
// with what has changed since its last call, at first with all values as added. Added
// and Removed are empty if only something else has changed. Where values of a large list are
// replaced, as by an update, the client does not copy the others; Subscription.Last does.
func OnChange(fn func(Change)) Option { return func(o *options) { o.onChange = fn } }

// HoldAtMost limits how long the first list of a subscription is held back
// while registrations are missing that are expected to come back. After d it is
// pushed as it is, with Datum.Unconfirmed set. Without the option the session
// decides: up to its session grace plus five seconds. Sessions of older builds
// ignore it.
func HoldAtMost(d time.Duration) Option { return func(o *options) { o.limit = d } }

func name(dataID string, opts []Option) (conclave.DataInfoID, options, error) {
	var o options
	for _, set := range opts {
		set(&o)
	}
	data, err := conclave.NewDataInfoID(dataID, o.instance, o.group)
	return data, o, err
}
