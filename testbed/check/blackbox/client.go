package blackbox

import (
	"context"
	"maps"
	"slices"

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
	known := &client{name: name, kill: c.Kill}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clients[known] = struct{}{}
	return observed{c, o, known}
}

// KillAll kills the clients that have not ended.
func (o *Oracle) KillAll() {
	o.mu.Lock()
	left := slices.Collect(maps.Keys(o.clients))
	o.mu.Unlock()
	for _, c := range left {
		o.ended(c, true)
		c.kill()
	}
}

type observed struct {
	Client
	oracle *Oracle
	known  *client
}

func (c observed) Publish(ctx context.Context, dataID string, values []string) (testbed.Publication, error) {
	id, err := c.oracle.publishing(c.known, dataID, values)
	if err != nil {
		return nil, err
	}
	p, err := c.Client.Publish(ctx, dataID, values)
	if err != nil {
		c.oracle.ending(true, id) // the client has ended, or ctx
		return nil, err
	}
	return publication{p, c, id, dataID}, nil
}

func (c observed) Subscribe(dataID string, pushed func(conclave.Datum)) error {
	c.oracle.subscribing(c.known.name, dataID)
	return c.Client.Subscribe(dataID, func(d conclave.Datum) {
		c.oracle.pushed(c.known.name, dataID, d.Version, d.Values)
		pushed(d)
	})
}

func (c observed) Close(ctx context.Context) error {
	ids := c.oracle.ended(c.known, false)
	err := c.Client.Close(ctx)
	if err == nil {
		c.oracle.withdrawn(ids...)
	}
	c.oracle.ended(c.known, true) // there is nothing left to kill
	return err
}

func (c observed) Kill() {
	c.oracle.ended(c.known, true)
	c.Client.Kill()
}

type publication struct {
	testbed.Publication
	by         observed
	id, dataID string
}

func (p publication) Update(values []string) error {
	if _, err := p.by.oracle.publishing(p.by.known, p.dataID, values); err != nil {
		return err
	}
	return p.Publication.Update(values)
}

func (p publication) Withdraw() error {
	p.by.oracle.ending(false, p.id)
	return p.Publication.Withdraw()
}

func (p publication) Stored(ctx context.Context) error {
	newest, ending := p.by.oracle.newest(p.id)
	err := p.Publication.Stored(ctx)
	switch {
	case err == nil && ending:
		p.by.oracle.withdrawn(p.id)
	case err == nil:
		p.by.oracle.stored(p.id, newest)
	case ctx.Err() == nil && !ending:
		p.by.oracle.Expect(Accepted, false, "%s on %s was refused: %v", p.id, p.dataID, err)
	}
	return err
}
