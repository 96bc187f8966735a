package blackbox

import (
	"context"
	"maps"
	"slices"
	"sync"

	"conclave"
	"conclave/testbed"
)

// Client is a client that can be killed.
type Client interface {
	testbed.Client
	// Kill ends it as if its process had died.
	Kill()
}

// Observe returns a client, through which the oracle sees what is done with c and
// what it receives. A registration has one value, see the package comment.
func (o *Oracle) Observe(name string, c Client) Client {
	out := &observed{Client: c, oracle: o, name: name}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clients[out] = struct{}{}
	return out
}

// KillAll kills the clients that have not ended.
func (o *Oracle) KillAll() {
	o.mu.Lock()
	left := slices.Collect(maps.Keys(o.clients))
	o.mu.Unlock()
	for _, c := range left {
		c.Kill()
	}
}

type observed struct {
	Client
	oracle *Oracle
	name   string

	mu    sync.Mutex // guards the rest
	ids   []string   // of the registrations
	lists []string   // the dataIds that it subscribes to
}

// Publish implements testbed.Client.
func (c *observed) Publish(ctx context.Context, dataID string, values []string) (testbed.Publication, error) {
	id, err := c.oracle.publishing(dataID, values)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.ids = append(c.ids, id)
	c.mu.Unlock()
	p, err := c.Client.Publish(ctx, dataID, values)
	if err != nil {
		c.oracle.ending(true, id) // the client has ended, or ctx
		return nil, err
	}
	return publication{Publication: p, oracle: c.oracle, id: id, dataID: dataID}, nil
}

// Subscribe implements testbed.Client.
func (c *observed) Subscribe(dataID string, pushed func(conclave.Datum)) error {
	c.oracle.subscribing(c.name, dataID)
	c.mu.Lock()
	c.lists = append(c.lists, dataID)
	c.mu.Unlock()
	return c.Client.Subscribe(dataID, func(d conclave.Datum) {
		c.oracle.pushed(c.name, dataID, d.Version, d.Values)
		pushed(d)
	})
}

// Close implements testbed.Client.
func (c *observed) Close(ctx context.Context) error {
	ids := c.end(false)
	err := c.Client.Close(ctx)
	if err == nil {
		c.oracle.withdrawn(ids...)
	}
	return err
}

// Kill implements Client.
func (c *observed) Kill() {
	c.end(true)
	c.Client.Kill()
}

// end records that the client ends. It returns its registrations.
func (c *observed) end(killed bool) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.oracle.ending(killed, c.ids...)
	c.oracle.ended(c, c.name, c.lists)
	return c.ids
}

type publication struct {
	testbed.Publication
	oracle     *Oracle
	id, dataID string
}

// Update implements testbed.Publication.
func (p publication) Update(values []string) error {
	if _, err := p.oracle.publishing(p.dataID, values); err != nil {
		return err
	}
	return p.Publication.Update(values)
}

// Withdraw implements testbed.Publication.
func (p publication) Withdraw() error {
	p.oracle.ending(false, p.id)
	return p.Publication.Withdraw()
}

// Stored implements testbed.Publication.
func (p publication) Stored(ctx context.Context) error {
	newest, ending := p.oracle.newest(p.id)
	err := p.Publication.Stored(ctx)
	switch {
	case err == nil && ending:
		p.oracle.withdrawn(p.id)
	case err == nil:
		p.oracle.stored(p.id, newest)
	case ctx.Err() == nil && !ending:
		p.oracle.Expect(Accepted, false, "%s on %s was refused: %v", p.id, p.dataID, err)
	}
	return err
}
