package local

import (
	"context"
	"net"

	"conclave/testbed"
	"conclave/testbed/local/supervisor"
	"conclave/testbed/outside"
)

// Addresses returns the nodes' own HTTP addresses by name. Faults of the
// network do not affect them.
func (d *Cluster) Addresses() map[string]string { return d.listening() }

// Dial connects to one of Addresses.
func (d *Cluster) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// AwaitReady waits until every process is ready.
func (d *Cluster) AwaitReady(ctx context.Context) error { return d.nodes.AwaitReady(ctx) }

// Supervisor returns the handle of the processes.
func (d *Cluster) Supervisor() *supervisor.Handle { return d.nodes }

// Processes returns what the supervisor has recorded.
func (d *Cluster) Processes(context.Context) ([]testbed.Process, error) {
	rows, err := d.nodes.Rows()
	var out []testbed.Process
	for _, p := range rows {
		out = append(out, testbed.Process{Name: p.Name, PID: p.PID, Running: p.PID > 0, Code: p.Code, Signal: p.Signal, RSS: outside.Resident(p.PID), CPU: outside.ProcessorTime(p.PID)})
	}
	return out, err
}

// LogFiles returns the paths of the processes' logs.
func (d *Cluster) LogFiles(context.Context) (map[string]string, error) {
	rows, err := d.nodes.Rows()
	files := map[string]string{}
	for _, p := range rows {
		files[p.Name] = supervisor.LogPath(d.nodes.Dir(), p.Name)
	}
	return files, err
}

// Stop ends the cluster gracefully. Close must still follow.
func (d *Cluster) Stop(ctx context.Context) error { return d.end(ctx, false) }
