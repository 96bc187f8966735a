package containers

import (
	"context"
	"net"
	"strings"

	"conclave/client"
)

// ports are the roles' HTTP ports inside the containers.
var ports = map[string]string{"meta": "9615", "data": "9622", "session": "9603"}

// Addresses returns the addresses that the nodes advertise, by name. Dial
// reaches them, also after a restart that changed a node's port on this
// machine.
func (d *Cluster) Addresses() map[string]string {
	out := map[string]string{}
	for _, name := range d.nodes {
		role, _, _ := strings.Cut(name, "-")
		out[name] = net.JoinHostPort(name, ports[role])
	}
	return out
}

// Dial connects to one of Addresses from this machine.
func (d *Cluster) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return d.project.Outside().DialContext(ctx, network, address)
}

// ClientConfig returns the configuration of a client on this machine that knows
// every session.
func (d *Cluster) ClientConfig(name string) client.Config {
	c := client.Config{Name: name, Network: d.project.Outside(), Token: d.token}
	for _, node := range d.nodes {
		if address, isSession := d.Addresses()[node], strings.HasPrefix(node, "session-"); isSession {
			c.Sessions = append(c.Sessions, address)
		}
	}
	return c
}
