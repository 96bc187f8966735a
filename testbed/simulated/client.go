package simulated

import (
	"slices"
	"time"

	"conclave/client"
	"conclave/internal/logging"
	"conclave/testbed"
	"conclave/testbed/simulated/simnet"
)

// Client starts a client on its own host, which knows every session.
func (c *Cluster) Client(name string) (testbed.Client, error) { return c.lingering(name, 0) }

func (c *Cluster) lingering(name string, linger time.Duration) (testbed.Client, error) {
	c.applyStanding(name)
	c.net.Budget(name, simnet.Budget(c.size.Budgets.OfHost(name)))
	return c.clients.Start(client.Config{
		Name: name, Linger: linger, Sessions: addresses("session", c.size.Sessions, sessionPort), Network: c.net.Host(name), Rand: c.stream(name), Logger: logging.Slog(c.logger(name)),
	}, func() { c.net.Kill(name) }) // closes the connections that it left open
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
