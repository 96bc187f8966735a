package main

import (
	"context"

	"conclave"
	"conclave/testbed"
	"conclave/testbed/load"
)

// connection is a client of another registry than Conclave.
type connection struct {
	load.Client // nil: its other methods are not called
	// write registers an instance of a service, or changes its value, and returns when that
	// is stored.
	write func(ctx context.Context, service, instance, value string, change bool) error
	// watch calls changed with the values of a service, and then at least with those that
	// change, one call at a time.
	watch func(service string, changed func(values []string)) error
	// end withdraws what was registered.
	end func(ctx context.Context) error
	// room bounds the requests without an answer: with thousands of them etcd's renewals of
	// leases come too late, and the registrations expire.
	room chan struct{}
}

func newRoom() chan struct{} { return make(chan struct{}, 50) }

func (c *connection) Publish(ctx context.Context, dataID string, values []string) (testbed.Publication, error) {
	p := &publication{connection: c, ctx: ctx, service: dataID, instance: unused()}
	return p, p.Update(values)
}

func (c *connection) Subscribe(dataID string, pushed func(conclave.Datum)) error {
	return c.watch(dataID, func(values []string) { pushed(conclave.Datum{Values: values}) })
}

func (c *connection) Close(ctx context.Context) error { return c.end(ctx) }

// publication is an instance. One goroutine updates it.
type publication struct {
	testbed.Publication // nil, as above
	*connection
	ctx               context.Context // of Publish
	service, instance string
	stored            chan struct{} // closed when the last update has an answer
	err               error
}

func (p *publication) Update(values []string) error {
	change, stored := p.stored != nil, make(chan struct{})
	p.stored = stored
	p.room <- struct{}{}
	go func() {
		p.err = p.write(p.ctx, p.service, p.instance, values[0], change)
		<-p.room
		close(stored)
	}()
	return nil
}

func (p *publication) Stored(ctx context.Context) error {
	select {
	case <-p.stored:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
