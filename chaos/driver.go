package chaos

import (
	"context"
	"errors"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
)

// Driver does to a cluster what a scenario says. There is one for the bubble,
// one for local processes, one for containers; the same file runs on all.
//
// The player calls it from one goroutine; Look may be called while Do is under
// way. No method may judge anything: what is true is found in the History.
type Driver interface {
	// Open starts the cluster, every node at once, and returns without waiting
	// for a leader. What the nodes claim goes to the gate's Sink; a driver whose
	// nodes are other processes ignores it, and says so by Claims.
	Open(ctx context.Context, c Cluster, gate *trace.Gate) error

	// Do does one act, and returns when it has taken hold, never when its
	// consequences are over: a Stop returns when the node has been asked to stop.
	// Acts that cannot be done here return an error that is ErrUnsupported.
	// Doing what is done already (killing the dead, starting what runs, mending
	// what is whole) is no error.
	Do(ctx context.Context, a Act) error

	// Look says what can be seen from outside at this moment, quickly.
	Look(ctx context.Context) Sight

	// Client starts a client that knows every session. Names are unique; the name
	// is its host in Acts on links. It may be called by several goroutines at once.
	Client(name string) (Client, error)

	// Claims says whether the nodes' claims reach the gate. Where they do not, Hold
	// is not possible, and judges that need claims have nothing to check.
	Claims() bool

	// Told hands over, at the end of the story, what the nodes claimed and the gate
	// has not heard: each with the moment at which it was made, by this machine's
	// clock. had says that there is such a record; the history then holds the claims,
	// though nobody could be held at them.
	Told(told func(at time.Time, c trace.Claim)) (had bool, err error)

	// Close ends whatever still runs, clients included, and joins it.
	Close(ctx context.Context) error
}

// Dated is a Driver whose acts take a while: it knows when one that began a fault,
// and was done between began and now, took hold. Nothing that follows from a fault
// may be older than the fault.
type Dated interface {
	TookHold(ctx context.Context, a Act, began time.Time) time.Time
}

// PartialCounter is a Driver that can ask the data nodes for how many slots are
// served without a session that could not be reached.
type PartialCounter interface {
	Partial(ctx context.Context) int
}

// Comparer is a Driver that can read the copies of the data nodes' slots at one
// moment. The bubble can; processes and containers cannot: what their HTTP API
// returns of two nodes is never of the same moment.
type Comparer interface {
	// SlotCopies returns the complete copies: of leaders that serve, of followers
	// that read their leader's feed, and detached ones.
	SlotCopies() []SlotCopy
}

// SlotCopy summarizes one slot's copy at one data node.
type SlotCopy struct {
	Node     string
	Slot     int
	Leads    bool
	Detached bool           // what was taken of an earlier feed, or of one that broke; sessions may have written to it since
	Epoch    conclave.Epoch // of the leader
	Position uint64         // in the leader's feed: at one position all copies that are not detached are equal
	Digest   uint64         // of every registration's owner, id and version
	Entries  int
}

// ErrUnsupported says that this driver cannot do such an act. A scenario whose
// needs are known (Scenario.Needs) is skipped where they are not met.
var ErrUnsupported = errors.New("this driver cannot do that")

// Cluster is how large the cluster is, and its timings; zeros are the defaults
// of the processes.
type Cluster struct {
	Metas, Sessions, Datas int           // 3, 2, 3
	Slots, Replicas        int           // 16, 2
	Takeover               string        // "witness" (default) or "lease"
	Lease                  time.Duration // of the leader and of the nodes; 3 s
	Seed                   uint64        // of every random stream
}

// Database is the name of the database's host; nodes are meta-1.., session-1..,
// data-1.., clients have the names that they were started with.
const Database = "db"

// Verb is a kind of Act.
type Verb string

// The acts. A is Act.Node, B is Act.Peer; an empty B is everybody else.
const (
	// Processes. A is a node, Database, or (Kill only) a client.
	Kill   Verb = "kill"   // kill -9: connections close as a kernel closes them, nobody is told
	Stop   Verb = "stop"   // SIGTERM: the graceful stop is begun
	Start  Verb = "start"  // what was killed or has stopped, as a new incarnation
	Pause  Verb = "pause"  // SIGSTOP: sockets stay open, nothing is read, sent or answered
	Resume Verb = "resume" // SIGCONT
	Twin   Verb = "twin"   // a second process with A's name at another address

	// StartWrong starts A, which is down, with an advertised address at which
	// nothing listens; Start starts it again with its own.
	StartWrong Verb = "start at a wrong address"

	// The network. Bytes that a cut holds back arrive once it is mended, as TCP
	// sends them again; dials across it hang until then.
	Cut      Verb = "cut"       // A and B do not hear each other
	CutOne   Verb = "cut-one"   // B does not hear A; A hears B
	Mend     Verb = "mend"      // ends Cut, CutOne and Slow between A and B
	Slow     Verb = "slow"      // each way takes By longer, with Jitter; Rate bytes a second when not 0
	Reset    Verb = "reset"     // every connection between A and B breaks now, on both sides
	HalfOpen Verb = "half-open" // every connection between A and B is gone for B; A is not told
	// A session or data node to which dials are refused. Its connections stay, and
	// it goes on dialling others.
	ClosePort Verb = "close port"
	OpenPort  Verb = "open port"

	LoseNext Verb = "lose-next" // the next answer of B to A is lost, after B has done what it was asked: the connection breaks instead

	// Clocks. Only wall clocks can be set; nobody can slow the time that passes.
	Skew Verb = "skew" // A's wall clock is By off; Database is a clock, too; 0 ends it

	// Points in the code, by the claims (Act.Point). The player does these itself.
	Hold    Verb = "hold"     // A waits when it comes to the point, as often as it does
	HoldOne Verb = "hold one" // A waits when it next comes to the point; what comes behind passes
	Release Verb = "release"  // it goes on

	// The operator.
	Resign   Verb = "resign"   // the leader A is asked to hand over
	Quit     Verb = "quit"     // A becomes an observer
	Join     Verb = "join"     // and a candidate again
	Forbid   Verb = "forbid"   // A is put on the blacklist by an operator
	Allow    Verb = "allow"    // and taken off it
	Freeze   Verb = "freeze"   // the switch arrange is turned off
	Unfreeze Verb = "unfreeze" // and on
	Switch   Verb = "switch"   // the switch A is set to B

	// AnnounceStop announces to A alone that the whole cluster stops, as
	// `conclave down` does where no leader answers: POST /v1/stopping. The
	// announcement ends by itself after a minute.
	AnnounceStop Verb = "announce stop"
)

// switchDefaults are the switches that a scenario can set, and their defaults.
var switchDefaults = map[string]string{"stop-push": "off", "push-guard": "on", "push-window-ms": "10", "protection-floor": "0"}

// Act is one thing done at one moment. Faults that last are ended by an act of
// their own; the player keeps account of what must be undone.
type Act struct {
	Verb   Verb
	Node   string // A
	Peer   string // B; "": everybody else
	By     time.Duration
	Jitter time.Duration
	Rate   int // bytes per second
	Point  trace.Kind
	Force  bool // an operator's act that the leader would refuse as unsafe

	// MustRefuse is an operator's act that must be refused as unsafe. Drivers do it
	// like any other; the player looks at what comes of it.
	MustRefuse bool
}

// Sight is what can be seen from outside at one moment. What a driver does not
// know it leaves empty.
type Sight struct {
	Leader string // the node that leads and trusts itself now; "" when there is none
	Term   uint64 // of Leader
	Leads  int    // how many nodes believe to lead; more than one is possible, and shown
	Table  slot.Table
	Frozen bool
	// Partial is how many slots are served without a session that could not be
	// reached; known only while it is expected (PartialCounter).
	Partial int
	Forbid  []string // names on the blacklist, drain entries included
	Up      []string // names of nodes that run, sorted; a paused one runs
	Ready   []string // of these, the ones that have joined (metas: know a leader)
}

// Client is one client of the cluster, through the SDK.
type Client interface {
	// Publish returns once the client keeps it; see Publication for the rest.
	Publish(ctx context.Context, dataID string, values []string) (Publication, error)
	// Subscribe calls back with each push, one at a time, in order.
	Subscribe(dataID string, pushed func(conclave.Datum)) error
	// Connected names the sessions that know this client now.
	Connected() []conclave.NodeID
	// Close withdraws everything and says good-bye.
	Close(ctx context.Context) error
}

// Publication is one registration of a client; the SDK's is one.
type Publication interface {
	ID() string
	Version() int64
	Update(values []string) error
	Withdraw() error
	Accepted(ctx context.Context) error
	Stored(ctx context.Context) error
}
