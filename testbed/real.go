//go:build !js

package testbed

import (
	"context"
	"net"
	"net/http"
	"time"

	"conclave/client"
)

// RealCluster is a Cluster whose nodes are processes: of this machine, or in
// containers. Its methods may be called from several goroutines.
type RealCluster interface {
	Cluster
	// Addresses returns the nodes' HTTP addresses by name. Dial connects to
	// them, whatever is cut between the nodes.
	Addresses() map[string]string
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	// ClientConfig returns the configuration of a client on the named host that
	// knows every session.
	ClientConfig(host string) (client.Config, error)
	// Secure returns a transport for the nodes' addresses: t, with TLS if the cluster
	// uses it.
	Secure(t *http.Transport) http.RoundTripper
	// Token returns the token for changing requests; "": none is needed.
	Token() string
	// Processes returns the state of each process that was started, sorted by
	// name.
	Processes(ctx context.Context) ([]Process, error)
	// AwaitReady waits until every process is ready.
	AwaitReady(ctx context.Context) error
	// LogFiles returns the processes' log files, by name.
	LogFiles(ctx context.Context) (map[string]string, error)
	// Stop stops the cluster gracefully. Close must still follow.
	Stop(ctx context.Context) error
}

// Process is one process of a cluster.
type Process struct {
	Name    string
	PID     int // 0: it is down
	Running bool
	Code    int           // exit code, if it was not ended by a signal
	Signal  string        // the signal that ended it
	RSS     int64         // resident bytes; 0: unknown
	CPU     time.Duration // processor time since its start; 0: unknown
}

// Role returns meta, session, data or db.
func (p Process) Role() string { return RoleOf(p.Name) }
