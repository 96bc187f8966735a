package data

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/internal/trace"
	"conclave/wire"
	"conclave/wire/serve"
)

// Config configures a data node. Start from DefaultConfig and set Node, Listen
// and Metas.
type Config struct {
	// Node is the node's name and its incarnation, which must be new with each
	// start.
	Node conclave.NodeID
	// Listen is host:port; port 0 takes a free one. Beyond loopback it needs a
	// Token, or Insecure.
	Listen string
	// Advertise is the address that other nodes reach this node at. Default:
	// the listener's address.
	Advertise string
	// DataCenter is sent to the meta leader, which refuses a node of another
	// data center. Default "default".
	DataCenter string
	// Metas are addresses of meta nodes. One that answers is enough.
	Metas []string
	// Token is required of every changing request, and sent with every call.
	Token    string
	Insecure bool

	// Network replaces TCP, for tests. Default TCP.
	Network wire.Network
	// Logger receives the log lines; nil discards them.
	Logger hclog.Logger
	// Rand is the source of every loop's jitter. If nil, a seed is drawn from
	// the system.
	Rand *rand.Rand
	// Now is the wall clock, used only for times that are displayed. Default
	// time.Now.
	Now func() time.Time
	// Version is what /version returns.
	Version string
	// Trace receives the events of this node; nil discards them.
	Trace trace.Sink

	// Beat is the time between two beats to the meta leader, and between two
	// messages on a feed without changes. At most a third of the cluster's node
	// lease. Default 1 s.
	Beat time.Duration
	// SessionGrace is how long the publishers of a lost session stay, and how
	// long unconfirmed removals stay marked. At least as long as the slowest
	// client takes to reconnect (a SOFA client takes 5 s or more). Default
	// 15 s.
	SessionGrace time.Duration
	// FinishTimeout is how long a successor waits for the old leader of a slot,
	// its feed included, before it asks the sessions instead, and after a crash
	// for the copies of other holders. Default 300 ms.
	FinishTimeout time.Duration
	// DiffTimeout limits one call to a session. A diff that a slot waits for is
	// tried again until the session answers or is gone. Default 1 s.
	DiffTimeout time.Duration
	// RepairEvery is the time within which a slot that a session wrote to is
	// compared with that session; RepairAll the time within which every slot is
	// compared with every session. RepairEvery must not be larger than
	// RepairAll. Defaults 6 s (the original's interval for everything) and
	// 5 min.
	RepairEvery time.Duration
	RepairAll   time.Duration
}

// DefaultConfig returns a Config with every default. The caller sets Node,
// Listen and Metas.
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

// Validate reports the first invalid field and the constraint that it violates.
func (c Config) Validate() error {
	if err := conclave.ValidateName(c.Node.Name); err != nil {
		return err
	}
	if c.Node.Incarnation == "" {
		return fmt.Errorf("node %s has no incarnation", c.Node.Name)
	}
	if len(c.Metas) == 0 {
		return fmt.Errorf("no meta node is configured: want the address of at least one")
	}
	for _, d := range [...]struct {
		name string
		d    time.Duration
	}{
		{"Beat", c.Beat}, {"SessionGrace", c.SessionGrace}, {"FinishTimeout", c.FinishTimeout},
		{"DiffTimeout", c.DiffTimeout}, {"RepairEvery", c.RepairEvery}, {"RepairAll", c.RepairAll},
	} {
		if d.d <= 0 {
			return fmt.Errorf("%s %s must be positive", d.name, d.d)
		}
	}
	if c.RepairAll < c.RepairEvery {
		return fmt.Errorf("RepairAll %s must be at least RepairEvery %s", c.RepairAll, c.RepairEvery)
	}
	return serve.CheckListen(c.Listen, c.Token, c.Insecure)
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
