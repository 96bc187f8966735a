package chaos

import (
	"context"
	"errors"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
)

// Driver runs a cluster and carries out the acts of a scenario. There are
// three: for the bubble, for local processes and for containers; the same file
// runs on all of them.
//
// The player calls it from one goroutine; Look may be called while Do is in
// progress. No method checks anything: that is done on the History.
type Driver interface {
	// Open starts the cluster, every node at once, and returns without waiting
	// for a leader. The nodes' events go to the gate's Sink; a driver whose
	// nodes are other processes ignores the gate, and Claims returns false.
	Open(ctx context.Context, c Cluster, gate *trace.Gate) error

	// Do carries out one act. It returns when the act has taken effect, and
	// does not wait for the consequences: Stop returns when the node has been
	// asked to stop. The error is ErrUnsupported if this driver cannot do the
	// act. It is no error if there is nothing to do (kill a dead node, start a
	// running one, mend a link that is not cut).
	Do(ctx context.Context, a Act) error

	// Look returns what can be observed from outside now. It does not take
	// long.
	Look(ctx context.Context) Sight

	// Client starts a client that knows every session. Names are unique, and
	// are the client's host in Acts on links. Client may be called by several
	// goroutines at once.
	Client(name string) (Client, error)

	// Claims reports whether the nodes' events reach the gate. If they do not,
	// Hold is not possible, and checkers that need events have nothing to
	// check.
	Claims() bool

	// Told passes on, at the end of the scenario, the nodes' events that have
	// not reached the gate, each with its time by this machine's clock. had
	// reports whether there is such a record; if so the history holds the
	// events, although no node could be held at them.
	Told(told func(at time.Time, c trace.Claim)) (had bool, err error)

	// Close ends all nodes and clients that still run, and joins them.
	Close(ctx context.Context) error
}

// Dated is a Driver whose acts take a while. TookHold returns the time at which
// an act that began a fault, and was carried out between began and now, took
// effect: no consequence of a fault may be recorded with an earlier time than
// the fault.
type Dated interface {
	TookHold(ctx context.Context, a Act, began time.Time) time.Time
}

// Stopper is a Driver that knows which nodes have been asked to stop and still
// run. The player kills such a node before it starts it, and the history has
// that kill. Other drivers kill it in Start.
type Stopper interface {
	// Stopping reports whether the named node is one of them.
	Stopping(node string) bool
}

// PartialCounter is a Driver that can ask the data nodes how many slots they
// serve without a session that could not be reached.
type PartialCounter interface {
	// Partial returns that number. Data nodes that do not answer count as 0.
	Partial(ctx context.Context) int
}

// Comparer is a Driver that can read the copies of the data nodes' slots at one
// moment. The bubble can. Processes and containers cannot, because what the
// HTTP API returns of two nodes is never of the same moment.
type Comparer interface {
	// SlotCopies returns the complete copies: of leaders that serve, of
	// followers that read their leader's feed, and detached ones.
	SlotCopies() []SlotCopy
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

// ErrUnsupported reports that a driver cannot carry out an act. A scenario that
// contains such an act (Scenario.Needs) is skipped.
var ErrUnsupported = errors.New("this driver cannot do that")

// Cluster is the size of the cluster and its timings. Zeros mean the defaults
// of the processes.
type Cluster struct {
	Metas, Sessions, Datas int           // 3, 2, 3
	Slots, Replicas        int           // 16, 2
	Takeover               string        // "witness" (default) or "lease"
	Lease                  time.Duration // of the leader and of the nodes; 3 s
	Seed                   uint64        // of every random stream
}

// Database is the name of the database's host. Nodes are named meta-1..,
// session-1.. and data-1..; clients have the names with which they were
// started.
const Database = "db"

// Verb is a kind of Act.
type Verb string

// The acts. A is Act.Node, B is Act.Peer; an empty B means all other hosts.
const (
	// Processes. A is a node, Database, or (Kill only) a client.
	Kill   Verb = "kill"   // kill -9: the kernel closes its connections
	Stop   Verb = "stop"   // SIGTERM: a graceful stop begins
	Start  Verb = "start"  // a node that was killed or has stopped, as a new incarnation
	Pause  Verb = "pause"  // SIGSTOP: sockets stay open, nothing is read, sent or answered
	Resume Verb = "resume" // SIGCONT
	Twin   Verb = "twin"   // a second process with A's name at another address

	// StartWrong starts A, which is down, with an advertised address at which
	// nothing listens. Start ends it and starts A with its own address.
	StartWrong Verb = "start at a wrong address"

	// The network. Bytes that a cut holds back arrive once it is mended, as TCP
	// retransmits them; dials across it hang until then.
	Cut      Verb = "cut"       // nothing passes between A and B
	CutOne   Verb = "cut-one"   // nothing passes from A to B
	Mend     Verb = "mend"      // ends Cut, CutOne and Slow between A and B
	Slow     Verb = "slow"      // each way takes By longer, with Jitter; Rate bytes a second when not 0
	Reset    Verb = "reset"     // every connection between A and B breaks now, on both sides
	HalfOpen Verb = "half-open" // every connection between A and B is closed at B; A does not notice

	// ClosePort: dials to A, a session or a data node, are refused. A's
	// connections stay, and A can still dial other nodes. OpenPort ends it.
	ClosePort Verb = "close port"
	OpenPort  Verb = "open port"

	LoseNext Verb = "lose-next" // B executes A's next request, and the connection breaks before the answer

	// Clocks. Only wall clocks can be set; monotonic clocks are not affected.
	Skew Verb = "skew" // A's wall clock is By off; A may be Database; 0 ends it

	// Points in the code, named by events (Act.Point). The player does these
	// itself.
	Hold    Verb = "hold"     // A waits whenever it reaches the point
	HoldOne Verb = "hold one" // A waits when it next reaches the point; later calls pass
	Release Verb = "release"  // A continues

	// Commands of an operator.
	Resign   Verb = "resign"   // the leader A is asked to hand over
	Quit     Verb = "quit"     // A becomes an observer
	Join     Verb = "join"     // A becomes a candidate again
	Forbid   Verb = "forbid"   // A is put on the blacklist
	Allow    Verb = "allow"    // A is removed from the blacklist
	Freeze   Verb = "freeze"   // the switch arrange is turned off
	Unfreeze Verb = "unfreeze" // and on again
	Switch   Verb = "switch"   // the switch A is set to B

	// AnnounceStop announces to A alone that the whole cluster stops, as
	// `conclave down` does if no leader answers: POST /v1/stopping. The
	// announcement expires after a minute.
	AnnounceStop Verb = "announce stop"
)

// switchDefaults are the switches that a scenario can set, and their defaults.
var switchDefaults = map[string]string{"stop-push": "off", "push-guard": "on", "push-window-ms": "10", "protection-floor": "0"}

// Act is one action on one node at one moment. A fault that lasts is ended by
// an act of its own; the player keeps track of the faults that it has to end.
type Act struct {
	Verb   Verb
	Node   string // A
	Peer   string // B; "": all other hosts
	By     time.Duration
	Jitter time.Duration
	Rate   int // bytes per second
	Point  trace.Kind
	Force  bool // also a command that the leader would refuse as unsafe

	// MustRefuse marks a command that the leader must refuse as unsafe. A driver
	// sends it like any other; the player checks the result.
	MustRefuse bool
}

// Sight is what can be observed from outside at one moment. A driver leaves
// empty what it does not know.
type Sight struct {
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
	ID() string
	Version() int64
	Update(values []string) error
	Withdraw() error
	Accepted(ctx context.Context) error
	Stored(ctx context.Context) error
}
