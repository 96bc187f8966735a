package soak

import (
	"context"
	"net"
	"time"

	"conclave/client"
)

// Cluster is the cluster under test: processes or containers. Its methods may
// be called from several goroutines.
type Cluster interface {
	// Open starts every process and returns without waiting until they are
	// ready.
	Open(ctx context.Context) error
	// Do applies a fault, and returns when it has taken effect. It is no error
	// if the fault is in effect already.
	Do(ctx context.Context, f Fault) error
	// Addresses returns the nodes' HTTP addresses by name. Dial connects to
	// them, whatever is cut between the nodes.
	Addresses() map[string]string
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	// Client returns the configuration of a client on the named host.
	Client(host string) (ClientConfig, error)
	// Processes returns the state of each process that was started.
	Processes(ctx context.Context) ([]Process, error)
	// Token returns the token for changing requests; "": none is needed.
	Token() string
	// LogFiles returns the processes' log files, by name.
	LogFiles(ctx context.Context) (map[string]string, error)
	// Stop stops the cluster gracefully.
	Stop(ctx context.Context) error
	// Close ends whatever still runs. It may be called after Stop.
	Close(ctx context.Context) error
}

// ClientConfig is the configuration of a client of the SDK.
type ClientConfig = client.Config

// Fault is one act on a process or a link.
type Fault struct {
	Act  Act // Kill, Stop, Start, Pause, Resume, Cut, Mend, Slow, Reset
	Node string
	Peer string        // the other end of a link
	By   time.Duration // of Slow
}

// Process is one process of the cluster.
type Process struct {
	Name    string
	PID     int // 0: it is down
	Running bool
	Code    int    // exit code, if it was not ended by a signal
	Signal  string // the signal that ended it
	RSS     int64  // resident bytes; 0: unknown
}

// Capabilities describe a Cluster's size and what it can do beyond signals.
type Capabilities struct {
	Metas, Sessions, Datas int
	Links                  bool          // Cut, Mend, Slow and Reset between two nodes
	LookEvery              time.Duration // how often Processes may be asked
}

// database is the name of the database's process.
const database = "db"
