package session

import (
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/internal/trace"
	"conclave/wire"
	"conclave/wire/serve"
)

// Config configures a session. Zero durations take the values of DefaultConfig.
type Config struct {
	// Node is the session's name and incarnation; the caller draws the
	// incarnation (conclave.NewIncarnation).
	Node conclave.NodeID
	// Listen is the address of the session's one port, HOST:PORT; port 0 takes
	// a free one.
	Listen string
	// Advertise is the address that other nodes and clients dial. Default: the
	// listener's own.
	Advertise string
	// DataCenter is sent to the leader, which refuses a node of another data
	// center. Default "default".
	DataCenter string
	// Metas are addresses of meta nodes; one that answers is enough.
	Metas []string
	// Token, if set, is required of every client that registers and of every
	// caller that changes anything. Without a token the session listens on
	// loopback only, unless Insecure is set.
	Token    string
	Insecure bool

	// Network is what the session listens and dials with. Default: TCP.
	Network wire.Network
	// Logger receives the session's log. Default: none.
	Logger hclog.Logger
	// Rand seeds the random stream of each loop. Default: a random seed.
	Rand *rand.Rand
	// Now returns wall time, which is only displayed. Default: time.Now.
	Now func() time.Time
	// Version is what /version returns.
	Version string
	// Trace receives this node's trace events. Default: none.
	Trace trace.Sink

	// Beat is the time between two beats to the meta leader, and the expected
	// time between two beats of a data node's feed, which counts as broken
	// after two missed beats. Default 1 s.
	Beat time.Duration
	// ClientLease is how long the registrations of a broken connection are kept
	// for their client to come back, and how long a silent connection counts as
	// open. It is at least three times the client's ping interval, which is a
	// fifth of it. Default 5 s.
	ClientLease time.Duration
	// SessionGrace is how long tombstones are remembered, also by clients; the
	// time within which removals are counted together; and, with 5 s added, the
	// longest time for which the push guard holds a push back. ClientLease is
	// at most two thirds of it. Default 15 s, as on the data nodes.
	SessionGrace time.Duration
	// PushWindow is the time after a push of a datum within which its further
	// changes are merged, unless the switch push-window-ms overrides it.
	// Default 10 ms.
	PushWindow time.Duration
	// DrainTimeout is how long a graceful stop waits for clients to move to
	// another session. Default 10 s.
	DrainTimeout time.Duration
}

// DefaultConfig returns every default that is not derived from another field.
func DefaultConfig() Config {
	return Config{
		Listen:       "127.0.0.1:9603",
		DataCenter:   "default",
		Beat:         time.Second,
		ClientLease:  5 * time.Second,
		SessionGrace: 15 * time.Second,
		PushWindow:   10 * time.Millisecond,
		DrainTimeout: 10 * time.Second,
	}
}

// withDefaults returns c with its zero fields set to the defaults.
func (c Config) withDefaults() Config {
	d := DefaultConfig()
	if c.Listen == "" {
		c.Listen = d.Listen
	}
	if c.DataCenter == "" {
		c.DataCenter = d.DataCenter
	}
	for _, f := range []struct{ set, byDefault *time.Duration }{
		{&c.Beat, &d.Beat}, {&c.ClientLease, &d.ClientLease}, {&c.SessionGrace, &d.SessionGrace},
		{&c.PushWindow, &d.PushWindow}, {&c.DrainTimeout, &d.DrainTimeout},
	} {
		if *f.set == 0 {
			*f.set = *f.byDefault
		}
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
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Validate checks every field and the relations between them. The error names
// the field.
func (c Config) Validate() error {
	if err := conclave.ValidateName(c.Node.Name); err != nil {
		return err
	}
	if c.Node.Incarnation == "" {
		return fmt.Errorf("session %s has no incarnation", c.Node.Name)
	}
	if err := serve.CheckListen(c.Listen, c.Token, c.Insecure); err != nil {
		return err
	}
	if c.Advertise != "" {
		if _, _, err := net.SplitHostPort(c.Advertise); err != nil {
			return fmt.Errorf("advertise address %q: want HOST:PORT", c.Advertise)
		}
	}
	if len(c.Metas) == 0 {
		return fmt.Errorf("session %s has no meta address: give at least one", c.Node.Name)
	}
	for _, a := range c.Metas {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return fmt.Errorf("meta address %q: want HOST:PORT", a)
		}
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{
		{"beat", c.Beat}, {"client lease", c.ClientLease}, {"session grace", c.SessionGrace},
		{"push window", c.PushWindow}, {"drain timeout", c.DrainTimeout},
	} {
		if f.d < 0 {
			return fmt.Errorf("%s %s is negative", f.name, f.d)
		}
	}
	if c.ClientLease > freshFor(c.SessionGrace) {
		return fmt.Errorf("client lease %s is above two thirds of the session grace %s: a client may be silent for a lease, "+
			"and its registrations would be held back in between", c.ClientLease, c.SessionGrace)
	}
	return nil
}

// stream returns a random stream for one loop.
func (c Config) stream() *rand.Rand {
	return rand.New(rand.NewPCG(c.Rand.Uint64(), c.Rand.Uint64()))
}
