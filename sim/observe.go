package sim

import (
	"time"

	"github.com/stretchr/testify/assert"

	"conclave/slot"
)

// Leader is who leads, in which term.
type Leader struct {
	Name string
	Term uint64
}

// Leads is the leader by its own word, at this instant; with two at once the
// test fails.
func (c *Cluster) Leads() (Leader, bool) {
	var found Leader
	for _, name := range c.names() {
		m, ok := c.nodes[name].server.(*metaNode)
		if !ok || !c.runs(name) || !m.up() {
			continue
		}
		if term, leads := m.Elector().Leading(); leads {
			assert.Empty(c.t, found.Name, "two leaders at one instant, in a network without faults")
			found = Leader{Name: name, Term: term.Number}
		}
	}
	return found, found.Name != ""
}

// Leader waits for one.
func (c *Cluster) Leader() Leader {
	var l Leader
	c.Await("a leader", 10*time.Second, func() (ok bool) { l, ok = c.Leads(); return ok })
	return l
}

// NextLeader waits for a leader of a term above the given one.
func (c *Cluster) NextLeader(after uint64, limit time.Duration) (Leader, time.Duration) {
	var l Leader
	took := c.Await("the next leader", limit, func() (ok bool) { l, ok = c.Leads(); return ok && l.Term > after })
	return l, took
}

// table is the newest slot table that the leader has published.
func (c *Cluster) table() (slot.Table, bool) {
	l, ok := c.Leads()
	if !ok {
		return slot.Table{}, false
	}
	t := c.nodes[l.Name].server.(*metaNode).View().Table()
	return t, len(t.Slots) > 0
}

// Stable waits until every slot is stable, and led by a node that runs.
func (c *Cluster) Stable(limit time.Duration) {
	c.t.Helper()
	c.Await("all slots to be stable", limit, func() bool { return c.ServedWithout("") })
}

// ServedWithout says that every slot is stable, and neither led nor followed by
// the named node.
func (c *Cluster) ServedWithout(name string) bool {
	t, ok := c.table()
	if !ok || !t.StableAll() {
		return false
	}
	for _, s := range t.Slots {
		if s.Leader.Name == name || !c.runs(s.Leader.Name) {
			return false
		}
	}
	return true
}

// runs says that the node's Run has not returned.
func (c *Cluster) runs(name string) bool {
	p := c.nodes[name]
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}
