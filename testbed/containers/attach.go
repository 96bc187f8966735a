package containers

import (
	"context"
	"fmt"
	"slices"

	"conclave/testbed"
	"conclave/testbed/containers/compose"
)

// Attach returns a cluster of the containers of a project that is up. Its size is that
// of the project. Close ends the cuts that were made here, which no other process
// knows, and leaves the project as it is otherwise.
func Attach(ctx context.Context, p *compose.Project, access Access) (*Cluster, error) {
	d := New(Config{End: func(context.Context) error { return nil }})
	d.project, d.access, d.found = p, access, true
	all, err := p.Find(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if _, isNode := ports[testbed.Process{Name: c.Service}.Role()]; isNode {
			d.nodes = append(d.nodes, c.Service)
		}
	}
	if len(d.nodes) == 0 {
		return nil, fmt.Errorf("%w: project %s has no nodes", compose.ErrNoContainer, p.Name())
	}
	d.observe()
	return d, d.watch(ctx)
}

// size returns the scenario's cluster with the size that is possible: that of a
// project that was up before, or the nearest one for which there are services.
func (d *Cluster) size(c testbed.Size) testbed.Size {
	if !d.found {
		return size(c)
	}
	c.Metas, c.Sessions, c.Datas = 0, 0, 0
	for _, n := range d.nodes {
		c.Add(testbed.Process{Name: n}.Role())
	}
	return c
}

// States returns the status of each node and of the database, by name, as the engine
// has reported it. The error is not nil if it does not report any more.
func (d *Cluster) States() (map[string]Status, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]Status{}
	for _, n := range slices.Concat(d.nodes, []string{testbed.Database}) {
		if s, known := d.states[n]; known {
			out[n] = s
		}
	}
	return out, d.blind
}
