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
)

// Config says who a session is and how patient it is. Zero durations take the
// defaults of DefaultConfig.
type Config struct {
	// Node is the session's name and the incarnation of this start; the caller
	// draws the incarnation (conclave.NewIncarnation).
	Node conclave.NodeID
	// Listen is host:port of the one port; port 0 takes a free one.
	Listen string
	// Advertise is the address that others are told; "" is the listener's own.
	Advertise string
	// DataCenter is told to the leader, which refuses a node of another one.
	// Default "default".
	DataCenter string
	// Metas are addresses of meta nodes; one that answers is enough.
	Metas []string
	// Token, when set, must be shown by whoever registers or changes anything.
	// Without one only loopback is listened on, unless Insecure.
	Token    string
	Insecure bool

	// Network is how the session listens and dials; nil is TCP.
	Network wire.Network
	// Logger is told what changes; nil is silence.
	Logger hclog.Logger
	// Rand seeds every loop's own stream; nil draws a seed.
	Rand *rand.Rand
	// Now is wall time, read only to show it; nil is time.Now.
	Now func() time.Time
	// Version is what /version answers.
	Version string
	// Trace hears what this node claims; nil: nobody listens.
	Trace trace.Sink

	// Beat is the time between two beats to the meta leader, and the one
	// expected between two beats of a data node's feed: two missed are a broken
	// feed. Default 1 s.
	Beat time.Duration
	// ClientLease is how long the registrations of a broken connection are kept
	// for their client to come back, and how long a silent connection counts as
	// whole: at least three times the client's ping, which is a fifth of it.
	// Default 5 s.
	ClientLease time.Duration
	// SessionGrace is how long tombstones are remembered, by clients as well, how
	// long removals count as one mass, and, with 5 s more, the longest time that the push guard holds.
	// ClientLease is two thirds of it at most. Default 15 s, as on the data nodes.
	SessionGrace time.Duration
	// PushWindow is the time after a push of a datum within which its further
	// changes are merged, unless the switch push-window-ms says another.
	// Default 10 ms.
	PushWindow time.Duration
	// DrainTimeout is how long a graceful stop waits for clients to move to
	// another session. Default 10 s.
	DrainTimeout time.Duration
}

// DefaultConfig holds every default that is not derived from another field.
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

// withDefaults fills what was left zero.
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

// Validate checks every field and the relations between them; the error names
// the field.
func (c Config) Validate() error {
	if err := conclave.ValidateName(c.Node.Name); err != nil {
		return err
	}
	if c.Node.Incarnation == "" {
		return fmt.Errorf("session %s has no incarnation", c.Node.Name)
	}
	if err := wire.CheckListen(c.Listen, c.Token, c.Insecure); err != nil {
		return err
	}
	if c.Advertise != "" {
		if _, _, err := net.SplitHostPort(c.Advertise); err != nil {
			return fmt.Errorf("advertise address %q: want HOST:PORT", c.Advertise)
		}
	}
	if len(c.Metas) == 0 {
		return fmt.Errorf("session %s knows no meta: give at least one address", c.Node.Name)
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
	if c.ClientLease > wordAge(c.SessionGrace) {
		return fmt.Errorf("client lease %s is above two thirds of the session grace %s: a client is heard only once in a lease, "+
			"and nobody would vouch for its registrations in between", c.ClientLease, c.SessionGrace)
	}
	return nil
}

// stream is a random stream of its own for one loop.
func (c Config) stream() *rand.Rand {
	return rand.New(rand.NewPCG(c.Rand.Uint64(), c.Rand.Uint64()))
}
