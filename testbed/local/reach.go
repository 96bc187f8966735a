package local

import (
	"context"
	"net"
	"slices"
	"strings"

	"conclave/client"
	"conclave/testbed/local/supervisor"
	"conclave/wire"
)

// ClientConfig returns the configuration of a client on the named host. The
// client knows every session, and its connections go through the proxies.
func (d *Cluster) ClientConfig(host string) (client.Config, error) {
	network := wire.NewTCP()
	if d.net != nil {
		ip, err := d.net.Join(host)
		if err != nil {
			return client.Config{}, err
		}
		network.LocalAddr = &net.TCPAddr{IP: ip}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var sessions []string
	for name, address := range d.advertised {
		if strings.HasPrefix(name, "session-") {
			sessions = append(sessions, address)
		}
	}
	slices.Sort(sessions)
	return client.Config{Name: host, Sessions: sessions, Network: network, Token: d.view.Token}, nil
}

// Addresses returns the nodes' own HTTP addresses by name. Faults of the
// network do not affect them.
func (d *Cluster) Addresses() map[string]string { return d.listening() }

// Rows returns the processes that the supervisor has recorded.
func (d *Cluster) Rows() ([]supervisor.Process, error) { return d.nodes.Rows() }

// LogPath returns the path of a process's log.
func (d *Cluster) LogPath(name string) string { return supervisor.LogPath(d.nodes.Dir(), name) }

// Stop ends the cluster gracefully. Close must still follow.
func (d *Cluster) Stop(ctx context.Context) error { return d.end(ctx, false) }
