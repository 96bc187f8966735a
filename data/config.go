package data

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/internal/trace"
	"conclave/wire"
)

// Config is everything a data node is told. Start from DefaultConfig.
type Config struct {
	// Node is the node's name and the incarnation that the caller drew for this
	// start.
	Node conclave.NodeID
	// Listen is host:port; port 0 takes a free one. Beyond loopback it needs a
	// Token, or Insecure.
	Listen string
	// Advertise is the address that others are told; "" means the listener's.
	Advertise string
	// DataCenter is told to the leader, which refuses a node of another one.
	// Default "default".
	DataCenter string
	// Metas are addresses of meta nodes; one that answers is enough.
	Metas []string
	// Token is asked for by every changing request, and shown with every call.
	Token    string
	Insecure bool

	// Network is the seam to the world; nil is TCP.
	Network wire.Network
	// Logger is the node's; nil is silence.
	Logger hclog.Logger
	// Rand seeds the jitter of every loop; nil draws a seed.
	Rand *rand.Rand
	// Now is read only to show the time; nil is the wall clock.
	Now func() time.Time
	// Version is what /version answers.
	Version string
	// Trace hears what this node claims; nil: nobody listens.
	Trace trace.Sink

	// Beat is the time between two beats to the leader, and on every silent feed.
	// Default 1 s; at most a third of the cluster's node lease.
	Beat time.Duration
	// SessionGrace is how long the publishers of a lost session stay, and how
	// long removals that nobody confirmed stay marked. Default 15 s; not less
	// than the slowest client's reconnect (a SOFA client takes 5 s and more).
	SessionGrace time.Duration
	// FinishTimeout bounds how long a successor waits for the old leader of a
	// slot, feed included, before it hears the sessions instead. Default 300 ms.
	FinishTimeout time.Duration
	// DiffTimeout bounds one call to a session. Default 1 s. A diff that a slot
	// waits for is tried again until it is answered or the session is gone.
	DiffTimeout time.Duration
	// RepairEvery is within what time a slot that a session wrote to is compared
	// with that session; RepairAll within what time everything is. Default 6 s
	// (the original's interval for everything) and 5 min; RepairEvery is the
	// smaller.
	RepairEvery time.Duration
	RepairAll   time.Duration
}

// DefaultConfig has every default; Node, Listen and Metas are left to the caller.
func DefaultConfig() Config {
	return Config{
		DataCenter:    "default",
		Beat:          time.Second,
		SessionGrace:  15 * time.Second,
		FinishTimeout: 300 * time.Millisecond,
		DiffTimeout:   time.Second,
		RepairEvery:   6 * time.Second,
		RepairAll:     5 * time.Minute,
	}
}

// Validate says what is wrong, naming the field and what it must fit.
func (c Config) Validate() error {
	if err := conclave.ValidateName(c.Node.Name); err != nil {
		return err
	}
	if c.Node.Incarnation == "" {
		return fmt.Errorf("node %s has no incarnation", c.Node.Name)
	}
	if len(c.Metas) == 0 {
		return fmt.Errorf("no meta is configured: a data node needs the address of at least one meta node")
	}
	for _, d := range [...]struct {
		name string
		d    time.Duration
	}{
		{"Beat", c.Beat}, {"SessionGrace", c.SessionGrace}, {"FinishTimeout", c.FinishTimeout},
		{"DiffTimeout", c.DiffTimeout}, {"RepairEvery", c.RepairEvery}, {"RepairAll", c.RepairAll},
	} {
		if d.d <= 0 {
			return fmt.Errorf("%s is %s: want more than zero", d.name, d.d)
		}
	}
	if c.RepairAll < c.RepairEvery {
		return fmt.Errorf("RepairAll (%s) is shorter than RepairEvery (%s)", c.RepairAll, c.RepairEvery)
	}
	return wire.CheckListen(c.Listen, c.Token, c.Insecure)
}

func (c Config) withDefaults() Config {
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
	if c.DataCenter == "" {
		c.DataCenter = "default"
	}
	return c
}
