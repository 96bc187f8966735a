package simulated

import (
	"fmt"

	"conclave"
	"conclave/internal/inprocess"
	"conclave/testbed"
	"conclave/testbed/simulated/simnet"
)

// start starts a new incarnation of a node on a host. It does nothing if a
// process runs there.
func (c *Cluster) start(name, host string) error { return c.startAt(name, host, "") }

// startAt is start with another advertised address, if it is not empty.
func (c *Cluster) startAt(name, host, advertise string) error {
	if c.process(host) != nil {
		return nil
	}
	c.mu.Lock()
	c.starts++
	c.mu.Unlock()
	rng := c.stream(host)
	c.net.Budget(host, simnet.Budget(c.size.Budgets.OfHost(host)))
	p := &process{host: host, node: conclave.NodeID{Name: name, Incarnation: conclave.NewIncarnation(rng)}, advertise: advertise}
	s, err := c.server(p, rng)
	if err != nil {
		return fmt.Errorf("start %s: %w", host, err)
	}
	p.Process = inprocess.Start(s, func() { c.net.Kill(host) }) // an ended process leaves no connections
	c.mu.Lock()
	c.nodes[host] = p
	c.mu.Unlock()
	return nil
}

// process returns the process that runs on a host, or nil.
func (c *Cluster) process(host string) *process {
	c.mu.Lock()
	p := c.nodes[host]
	c.mu.Unlock()
	if p == nil || !p.Running() {
		return nil
	}
	return p
}

// kill ends a process as kill -9 does, also one that is stopping: first its
// connections, then its goroutines. It returns when they have ended.
func (c *Cluster) kill(host string) {
	p := c.process(host)
	if p == nil {
		return
	}
	c.net.Kill(host)
	if c.gate != nil {
		c.gate.Free(p.node.Name)
	}
	if host == testbed.Database {
		c.freeStatements()
	}
	p.Kill()
}

// stop begins the graceful stop of a process, as SIGTERM does, and returns the
// process or nil.
func (c *Cluster) stop(host string) *process {
	p := c.process(host)
	if p == nil {
		return nil
	}
	p.Stop(func(err error) { c.logger(host).Info("stopped", "error", err) })
	return p
}

// stopping reports whether a node has been asked to stop and still runs.
func (c *Cluster) stopping(name string) bool {
	p := c.process(name)
	return p != nil && p.Asked()
}
