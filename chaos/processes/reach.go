package processes

import (
	"context"
	"net"
	"slices"
	"strings"

	"conclave/client"
	"conclave/internal/supervisor"
	"conclave/wire"
)

// ClientConfig is the configuration of a client on the named host: it knows every
// session, and its connections go through the proxies.
func (d *Driver) ClientConfig(host string) (client.Config, error) {
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
	for name, address := range d.told {
		if strings.HasPrefix(name, "session-") {
			sessions = append(sessions, address)
		}
	}
	slices.Sort(sessions)
	return client.Config{Name: host, Sessions: sessions, Network: network, Token: d.view.Token}, nil
}

// Addresses are the nodes' own HTTP addresses by name, which no fault of the network
// reaches.
func (d *Driver) Addresses() map[string]string { return d.listening() }

// Rows lists the processes as the supervisor has written them down.
func (d *Driver) Rows() ([]supervisor.Process, error) { return d.nodes.Rows() }

// LogPath is the log of the process of that name.
func (d *Driver) LogPath(name string) string { return supervisor.LogPath(d.nodes.Dir(), name) }

// Stop ends the cluster gracefully; Close still has to follow.
func (d *Driver) Stop(ctx context.Context) error { return d.end(ctx, false) }
