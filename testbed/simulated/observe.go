package simulated

import (
	"context"
	"net"
	"slices"

	"conclave/data"
	"conclave/internal/inprocess"
	"conclave/testbed"
	"conclave/wire"
)

// Observe reads the nodes' memory, without requests over the network.
func (c *Cluster) Observe(context.Context) testbed.Snapshot {
	var out testbed.Snapshot
	var newest wire.State
	var nodes []*process
	for _, p := range c.processes() {
		if c.process(p.host) != p || p.host != p.node.Name {
			continue
		}
		out.Up = append(out.Up, p.host)
		nodes = append(nodes, p)
		v, ok := p.Server.(interface{ View() *wire.View })
		if !ok {
			continue
		}
		state := v.View().State()
		if state.Table.Epoch.Compare(newest.Table.Epoch) > 0 {
			newest.Table = state.Table
		}
		if state.Members.Epoch.Compare(newest.Members.Epoch) > 0 {
			newest.Members = state.Members
		}
		if state.Blacklist.Epoch.Compare(newest.Blacklist.Epoch) > 0 {
			newest.Blacklist = state.Blacklist
		}
		if state.Freeze.Epoch.Compare(newest.Freeze.Epoch) > 0 {
			newest.Freeze = state.Freeze
		}
	}
	for _, p := range nodes {
		m, ok := p.Server.(*inprocess.Meta)
		switch {
		case !ok:
			if p.host == testbed.Database || newest.Members.Has(p.node) {
				out.Ready = append(out.Ready, p.host)
			}
		case m.Up():
			if !m.Elector().Current().Leader.IsZero() {
				out.Ready = append(out.Ready, p.host)
			}
			if term, ok := m.Elector().Leading(); ok {
				out.Leads++
				if term.Number > out.Term {
					out.Leader, out.Term = p.host, term.Number
				}
			}
		}
	}
	out.Table, out.Frozen = newest.Table, newest.Freeze.Frozen
	for _, e := range newest.Blacklist.Entries {
		out.Forbid = append(out.Forbid, e.Name)
	}
	slices.Sort(out.Forbid)
	if c.o.Recording != nil {
		c.o.Recording.observe(out)
	}
	return out
}

// Statuses returns the state of every node that was started; "": it runs.
func (c *Cluster) Statuses() (out []testbed.Status) {
	for _, p := range c.processes() {
		if p.host != p.node.Name {
			continue // a twin
		}
		s := testbed.Status{Name: p.host, Role: testbed.RoleOf(p.host), HTTP: c.address(p.host), PID: 1}
		switch {
		case c.process(p.host) != p && p.Asked():
			s.PID, s.State = 0, "exited"
		case c.process(p.host) != p:
			s.PID, s.State = 0, "killed"
		case c.net.Awake(p.host) != nil:
			s.State = "suspended"
		case p.host == testbed.Database:
			s.State = "ready"
		}
		if p.host == testbed.Database {
			s.HTTP = ""
		}
		out = append(out, s)
	}
	return out
}

// Dial connects as a host does.
func (c *Cluster) Dial(host string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return c.net.Host(host).DialContext
}

// slotCopies returns the copies of all data nodes that run.
func (c *Cluster) slotCopies() []testbed.SlotCopy {
	var out []testbed.SlotCopy
	for _, p := range c.processes() {
		d, ok := p.Server.(*data.Server)
		if !ok || c.process(p.host) != p {
			continue
		}
		for _, x := range d.Copies() {
			out = append(out, testbed.SlotCopy{
				Node: p.host, Slot: x.Slot, Leads: x.Leads, Detached: x.Detached, Epoch: x.Epoch, Position: x.Position, Digest: x.Digest, Entries: x.Entries,
			})
		}
	}
	return out
}

// usage returns what the processors of the nodes and clients with a budget had to
// do since the last call.
func (c *Cluster) usage() []testbed.Usage {
	var out []testbed.Usage
	hosts := append(c.hosts(), c.clients.Names()...)
	slices.Sort(hosts)
	for _, host := range hosts {
		if c.size.Budgets.OfHost(host) != (testbed.Budget{}) {
			u := c.net.Usage(host)
			out = append(out, testbed.Usage{Node: host, Offered: u.Offered, Waited: u.Waited, Queued: u.Queued, Blocked: u.Blocked})
		}
	}
	return out
}

// meta returns the named meta if it runs and listens, or nil.
func (c *Cluster) meta(host string) *inprocess.Meta {
	p := c.process(host)
	if p == nil {
		return nil
	}
	if m, ok := p.Server.(*inprocess.Meta); ok && m.Up() {
		return m
	}
	return nil
}

func leads(m *inprocess.Meta) bool {
	_, ok := m.Elector().Leading()
	return ok
}
