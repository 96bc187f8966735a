package simulated

import (
	"slices"

	"conclave/client"
	"conclave/internal/logging"
	"conclave/testbed"
	"conclave/testbed/simulated/simnet"
)

// Client starts a client on its own host, which knows every session.
func (c *Cluster) Client(name string) (testbed.Client, error) { return c.clients.Start(name, 0) }

// clientConfig prepares the host of a client, and returns its configuration.
func (c *Cluster) clientConfig(name string) (client.Config, error) {
	c.applyStanding(name)
	c.net.Budget(name, simnet.Budget(c.size.Budgets.OfHost(name)))
	return client.Config{
		Name: name, Sessions: addresses("session", c.size.Sessions, sessionPort), Network: c.net.Host(name), Rand: c.stream(name), Logger: logging.Slog(c.logger(name)),
	}, nil
}

// killClients ends clients as kill -9 does, and reports whether there was one.
func (c *Cluster) killClients(names ...string) bool {
	for _, name := range names {
		if slices.Contains(c.clients.Names(), name) {
			c.net.Kill(name)
		}
	}
	return c.clients.Kill(names...)
}
