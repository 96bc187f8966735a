package testbed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
)

// Cluster is a cluster that can be started, disturbed and observed. There are
// three: simulated, of local processes, and of containers; the same scenario runs
// on all of them.
//
// The player calls it from one goroutine; Observe may be called while Do is in
// progress. No method checks anything: that is done on the History.
type Cluster interface {
	// Open starts the cluster, every node at once, and returns without waiting
	// for a leader. The nodes' events go to the gate's Sink; a cluster whose
	// nodes are other processes ignores the gate.
	Open(ctx context.Context, c Size, gate *trace.Gate) error

	// Do carries out one act. It returns when the act has taken effect, and
	// does not wait for the consequences: Stop returns when the node has been
	// asked to stop. The error is ErrUnsupported if this cluster cannot do it. It is no error if there is nothing to do (kill a dead node, start a
	// running one, mend a link that is not cut).
	Do(ctx context.Context, a Action) error

	// Observe returns what can be observed from outside now. It does not take
	// long.
	Observe(ctx context.Context) Snapshot

	// Client starts a client that knows every session. Names are unique, and
	// are the client's host in Actions on links. Client may be called by several
	// goroutines at once.
	Client(name string) (Client, error)

	// Capabilities returns what this cluster can do beyond these methods. It is
	// called after Open.
	Capabilities() *Capabilities

	// Events passes on, at the end of the scenario, the nodes' events that have
	// not reached the gate, each with its time by this machine's clock. had
	// reports whether there is such a record; if so the history holds the
	// events, although no node could be held at them.
	Events(report func(at time.Time, c trace.Claim)) (had bool, err error)

	// Close ends all nodes and clients that still run, and joins them.
	Close(ctx context.Context) error
}

// SlotCopy summarizes one slot's copy at one data node.
type SlotCopy struct {
	Node     string
	Slot     int
	Leads    bool
	Detached bool           // taken from an earlier feed, or from one that broke; sessions may have written to it since
	Epoch    conclave.Epoch // of the leader
	Position uint64         // in the leader's feed: at one position all copies that are not detached are equal
	Digest   uint64         // of every registration's owner, id and version
	Entries  int
}

// ErrUnsupported reports that a cluster cannot carry out an action. A scenario
// that contains one is skipped.
var ErrUnsupported = errors.New("this cluster cannot do that")

// Size is the size of a cluster and its timings. Zeros mean the defaults
// of the processes.
type Size struct {
	Metas, Sessions, Datas int           // 3, 2, 3
	Slots, Replicas        int           // 16, 2
	Takeover               string        // "witness" (default) or "lease"
	Lease                  time.Duration // of the leader and of the nodes; 3 s
	Seed                   uint64        // of every random stream
	Budgets                Budgets       // only the simulated cluster has any
}

// DefaultLease is the lease of a cluster whose Size has none.
const DefaultLease = 3 * time.Second

// WithDefaults returns the size with the defaults in place of zeros.
func (c Size) WithDefaults() Size {
	c.Metas, c.Sessions, c.Datas = cmp.Or(c.Metas, 3), cmp.Or(c.Sessions, 2), cmp.Or(c.Datas, 3)
	c.Slots, c.Replicas = cmp.Or(c.Slots, 16), cmp.Or(c.Replicas, 2)
	c.Takeover, c.Lease = cmp.Or(c.Takeover, "witness"), cmp.Or(c.Lease, DefaultLease)
	return c
}

// Add counts one more node of a role; those of other roles are not counted.
func (c *Size) Add(role string) {
	switch role {
	case "meta":
		c.Metas++
	case "session":
		c.Sessions++
	case "data":
		c.Datas++
	}
}

// NodesOf returns the names of the nodes of a role, in order.
func (c Size) NodesOf(role string) []string {
	return Numbered(role, map[string]int{"meta": c.Metas, "session": c.Sessions, "data": c.Datas}[role])
}

// Nodes returns the names of all nodes: metas, sessions, data nodes.
func (c Size) Nodes() []string {
	return slices.Concat(c.NodesOf("meta"), c.NodesOf("session"), c.NodesOf("data"))
}

// Numbered returns role-1, role-2 .. role-n.
func Numbered(role string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%d", role, i+1)
	}
	return out
}

// RoleOf returns the role in the name of a node: what stands before its number.
func RoleOf(name string) string {
	role, _, _ := strings.Cut(name, "-")
	return role
}

// Snapshot is what can be observed from outside at one moment. A cluster leaves
// empty what is not known.
type Snapshot struct {
	Leader string // the node that leads and trusts itself now; "" when there is none
	Term   uint64 // of Leader
	Leads  int    // how many nodes believe they lead; it can be more than one
	Table  slot.Table
	Frozen bool
	// Partial is the number of slots that are served without a session that could
	// not be reached. It is known only while it is expected (PartialCounter).
	Partial int
	Forbid  []string // names on the blacklist, drain entries included
	Up      []string // names of nodes that run, sorted; a paused one runs
	Ready   []string // those of Up that have joined (metas: that know a leader)
}

// Client is one client of the cluster, through the SDK.
type Client interface {
	// Publish returns once the client has taken the registration; the
	// Publication reports what becomes of it.
	Publish(ctx context.Context, dataID string, values []string) (Publication, error)
	// Subscribe calls pushed for each push, one at a time, in order.
	Subscribe(dataID string, pushed func(conclave.Datum)) error
	// Connected returns the sessions that know this client now.
	Connected() []conclave.NodeID
	// Close withdraws everything and sends its good-bye.
	Close(ctx context.Context) error
}

// Publication is one registration of a client. The SDK's Publication implements
// it.
type Publication interface {
	Update(values []string) error
	Withdraw() error
	Stored(ctx context.Context) error
}

// Capabilities are what is possible on a cluster. What its fields leave out is
// not possible, or not known; the player does without it.
type Capabilities struct {
	// Can returns why a step is not possible; nil: every step is.
	Can func(Step) error
	// Size returns the cluster to expect for a wanted one, where the size
	// cannot be chosen freely; nil: the wanted one.
	Size func(Size) Size

	// Events: the nodes' events reach the recorder. Without them a node cannot be
	// held at a point, and checkers that need events have nothing to check.
	Events bool

	// Held returns how many goroutines of a node wait at a point. Nil: none can be held.
	Held func(node string, at trace.Kind) int

	// EffectTime returns the time at which an action that began a fault, and was
	// carried out between began and now, took effect: no consequence of a fault
	// may be recorded with an earlier time than the fault. Nil: actions take
	// effect at once.
	EffectTime func(ctx context.Context, a Action, began time.Time) time.Time

	// Stopping reports whether the named node was asked to stop and still runs.
	// The player kills such a node before it starts it, and the history has that
	// kill. Nil: Start kills it.
	Stopping func(node string) bool

	// Partial returns how many slots the data nodes serve without a session that
	// could not be reached. Data nodes that do not answer count as 0.
	Partial func(ctx context.Context) int

	// ProcessesEvery is how often RealCluster.Processes may be asked.
	ProcessesEvery time.Duration

	// SlotCopies returns the complete copies of the data nodes' slots, all of one
	// moment: of leaders that serve, of followers that read their leader's feed,
	// and detached ones. Only the simulated cluster can read them.
	SlotCopies func() []SlotCopy

	// Lingering starts a client as Client does. It announces a linger, and Kill ends
	// it in order with that. Nil: clients cannot linger here.
	Lingering func(name string, linger time.Duration) (Client, error)

	// ByHTTP starts a client as Client does, but without the SDK. Nil: there are none
	// here.
	ByHTTP func(name string) (Client, error)

	// OfSofa starts a client as Client does, but one of SOFARegistry. Nil: only simulated
	// sessions serve them.
	OfSofa func(name string) (Client, error)

	// Usage returns what the processors of the hosts with a budget had to do
	// since the last call, sorted by host. Nil: a node cannot have a budget here.
	Usage func() []Usage
}

// Allows returns why a step is not possible. HealAll always is, and so is
// everything if c is nil.
func (c *Capabilities) Allows(s Step) error {
	if c == nil || c.Can == nil || s.Verb == HealAll {
		return nil
	}
	return c.Can(s)
}

// HasBudgets reports whether nodes can have budgets.
func (c *Capabilities) HasBudgets() bool { return c == nil || c.Can == nil || c.Usage != nil }

// Lingers reports whether clients can have a linger.
func (c *Capabilities) Lingers() bool { return c == nil || c.Can == nil || c.Lingering != nil }

// SpeaksHTTP reports whether clients can be without the SDK.
func (c *Capabilities) SpeaksHTTP() bool { return c == nil || c.Can == nil || c.ByHTTP != nil }

// ServesSofa reports whether clients can be those of SOFARegistry.
func (c *Capabilities) ServesSofa() bool { return c == nil || c.Can == nil || c.OfSofa != nil }

// Fit returns the cluster to expect for a wanted one.
func (c *Capabilities) Fit(wanted Size) Size {
	if c == nil || c.Size == nil {
		return wanted
	}
	return c.Size(wanted)
}
