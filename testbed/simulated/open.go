package simulated

import (
	"context"
	"errors"
	"slices"
	"time"

	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/simulated/simnet"
)

// Open starts the database and then every node, at the same instant.
func (c *Cluster) Open(_ context.Context, size testbed.Size, gate *trace.Gate) error {
	size = size.WithDefaults()
	c.size, c.gate, c.net = size, gate, simnet.New(size.Seed)
	c.clients.Config, c.clients.Closed = c.clientConfig, c.net.Kill // with the connections that it left open
	c.net.Tap = c.o.Tap
	if c.o.Recording != nil {
		c.o.Recording.listen(c.net)
	}
	c.net.Default(link)
	c.metas = addresses("meta", size.Metas, metaPort)
	names := slices.Concat([]string{testbed.Database}, size.NodesOf("meta"), size.NodesOf("data"), size.NodesOf("session"))
	for _, name := range names {
		if err := c.start(name, name); err != nil {
			return err
		}
	}
	return nil
}

// Capabilities: every step is possible, and the nodes' memory can be read.
func (c *Cluster) Capabilities() *testbed.Capabilities {
	return &testbed.Capabilities{Events: c.gate != nil, Held: c.held, Stopping: c.stopping, Partial: c.partial, SlotCopies: c.slotCopies, Lingering: c.clients.Start, ByHTTP: c.clients.StartHTTP, OfSofa: c.clients.StartSofa, Usage: c.usage}
}

// Events reports no claims: all were passed to the gate when they were made.
func (c *Cluster) Events(func(time.Time, trace.Claim)) (bool, error) { return false, nil }

// Close kills the clients and then every node that still runs.
func (c *Cluster) Close(context.Context) error {
	if c.o.Recording != nil {
		c.o.Recording.ended.Store(true)
	}
	c.killClients(c.clients.Names()...)
	for _, host := range c.hosts() {
		c.kill(host)
	}
	for _, p := range c.processes() {
		p.Kill() // it has ended; its stop may not
		if err := p.Err(); err != nil && !errors.Is(err, context.Canceled) {
			c.logger(p.host).Info("ended", "error", err)
		}
	}
	return nil
}
