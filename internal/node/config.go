package node

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"reflect"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/internal/certs"
	"conclave/internal/random"
	"conclave/internal/trace"
	"conclave/wire"
	"conclave/wire/rights"
	"conclave/wire/serve"
)

// Config is the part of a role's configuration that all roles share; the
// roles' configurations embed it. A zero field stands for its default. A role
// sets the defaults first and validates the result, so that what is checked is
// what is used.
type Config struct {
	// Node is the node's name and its incarnation, which must be new with each
	// start (conclave.NewIncarnation).
	Node conclave.NodeID
	// Listen is the address of the node's one port, HOST:PORT; port 0 takes a
	// free one. Beyond loopback it needs a Token, or Insecure.
	Listen string
	// Advertise is the address that other nodes and clients dial. Default: the
	// listener's own.
	Advertise string
	// DataCenter is sent to the meta leader, which refuses a node of another
	// data center. Default "default".
	DataCenter string
	// Metas are addresses of meta nodes. One that answers is enough; a meta
	// itself needs none, and may be given its own.
	Metas []string
	// Token, if set, is required of requests, and sent with every call. It has the
	// right operator. Tokens, if not nil, are used instead.
	Token  string
	Tokens *rights.Tokens
	// PublicReads makes reading and subscribing need no token.
	PublicReads bool
	// Insecure allows a node without a token to listen beyond loopback.
	Insecure bool
	// TLS, if not nil, is used on the node's port and for its calls to others, which
	// must use it too. With ClientCerts, clients need a certificate as well.
	TLS         *certs.Set
	ClientCerts bool
	// Hosts are names under which browsers and other HTTP/1.1 clients may address
	// the node, besides its addresses, localhost, its name and the advertised host.
	Hosts []string
	// MaxConnections is how many connections the node has at a time;
	// MaxAddressConnections is how many of them come from one address. Clients behind a
	// proxy, or on one machine, have the same. There are twice as many requests at a
	// time: each client of a session is one that lasts, and may ping by another. Defaults
	// 100,000 and 20,000.
	MaxConnections, MaxAddressConnections int
	// Pprof serves profiles at /debug/pprof/, to requests from loopback addresses.
	Pprof bool
	// Beat is the time between two beats: to the meta leader, and on the feeds
	// between session and data nodes; of a meta, between two renewals of the
	// leadership. At most a third of the cluster's node lease. Default 1 s; of
	// a meta, a third of its lease.
	Beat time.Duration

	// Network is what the node listens and dials with. Default TCP.
	Network wire.Network
	// Logger receives the log lines; nil discards them.
	Logger hclog.Logger
	// Rand is the source of the random streams of the node's loops. If nil, a
	// seed is drawn from the system.
	Rand *rand.Rand
	// Now is the wall clock, used only for times that are displayed, and by a
	// meta once for the version floor of a table made from nothing. Default
	// time.Now.
	Now func() time.Time
	// Version is what /version returns.
	Version string
	// Trace receives the events of this node; nil discards them.
	Trace trace.Sink
}

// WithDefaults returns c with its zero fields set to the defaults.
func (c Config) WithDefaults() Config {
	return Filled(c, Config{
		DataCenter: "default", Beat: time.Second, MaxConnections: 100_000, MaxAddressConnections: 20_000,
		Network: wire.NewTCP(), Logger: hclog.NewNullLogger(), Rand: random.New(), Now: time.Now,
	})
}

// Filled returns a configuration whose zero fields, also those of structs in it, are
// those of the defaults.
func Filled[T any](c, defaults T) T {
	fill(reflect.ValueOf(&c).Elem(), reflect.ValueOf(defaults))
	return c
}

func fill(c, defaults reflect.Value) {
	for i := range c.NumField() {
		switch field := c.Field(i); {
		case field.Kind() == reflect.Struct:
			fill(field, defaults.Field(i))
		case field.IsZero():
			field.Set(defaults.Field(i))
		}
	}
}

// Validate reports the first invalid field of a node of that role, and the
// constraint that it violates.
func (c Config) Validate(role conclave.Role) error {
	if err := conclave.ValidateName(c.Node.Name); err != nil {
		return err
	}
	if c.Node.Incarnation == "" {
		return fmt.Errorf("node %s has no incarnation", c.Node.Name)
	}
	if err := c.CheckListen(c.Listen); err != nil {
		return err
	}
	if err := cmp.Or(rights.CheckToken(c.Token), c.validateAdvertise()); err != nil {
		return err
	}
	if len(c.Metas) == 0 && role != conclave.RoleMeta {
		return fmt.Errorf("no meta node is configured: want the address of at least one")
	}
	for _, a := range c.Metas {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return fmt.Errorf("meta address %q: want HOST:PORT", a)
		}
	}
	if c.ClientCerts && c.TLS == nil {
		return fmt.Errorf("certificates of clients are required, but TLS is not configured: set --tls-dir")
	}
	return Positive(c)
}

// CheckListen returns an error if the node may not listen on an address: beyond loopback
// without a token, unless it is Insecure.
func (c Config) CheckListen(address string) error {
	return serve.CheckListen(address, c.HasTokens(), c.Insecure)
}

// HasTokens reports whether requests need a token.
func (c Config) HasTokens() bool { return !c.tokens().Open() }

// tokens returns the tokens that requests need.
func (c Config) tokens() *rights.Tokens {
	if c.Tokens != nil {
		return c.Tokens
	}
	return rights.Fixed(c.Token)
}

// validateAdvertise refuses an advertised address that other nodes could not
// dial.
func (c Config) validateAdvertise() error {
	if c.Advertise != "" {
		if host, port, err := net.SplitHostPort(c.Advertise); err != nil || host == "" || port == "" || port == "0" {
			return fmt.Errorf("advertised address %q: want HOST:PORT", c.Advertise)
		}
		return nil
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return fmt.Errorf("listen address %q accepts on every address: set the one for other nodes with --advertise", c.Listen)
	}
	return nil
}

// Positive returns an error if one of the durations and numbers of a configuration, except
// those of structs in it, is not positive.
func Positive(c any) error {
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		if field := v.Field(i); field.CanInt() && field.Int() <= 0 {
			return fmt.Errorf("%s %v: want a positive value", v.Type().Field(i).Name, field)
		}
	}
	return nil
}
