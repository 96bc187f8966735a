package playground

import (
	"context"
	"errors"

	"conclave/internal/trace"
	"conclave/testbed/console"
	"conclave/testbed/console/journal"
)

// Why implements console.Source: of the violation or, if there is none, of the last election.
// Times are since the start.
func (w *World) Why(context.Context, console.Request) (links []journal.Link, err error) {
	w.in(func(b *inside) { w.aside(func() { links = b.why() }, true) })
	if links == nil {
		err = errors.New("there was no election in what is kept, the newest messages and events")
	}
	return links, err
}

// List implements console.Source.
func (w *World) List(context.Context, console.Request) (console.Listing, error) {
	return console.Listing{}, errors.New("the nodes of a simulated cluster are not asked for lists: each question would change the run, which could not be repeated by its address then")
}

func (b *inside) why() []journal.Link {
	h := b.source.History()
	if h == nil {
		return nil
	}
	records, led := b.passed.Records(h), -1
	for n, r := range records {
		records[n].At += h.Began.Sub(b.began)
		if r.Entry != nil && r.Entry.Event != nil && r.Entry.Event.Kind == trace.Led {
			led = n
		}
	}
	if id, v := b.source.Violation(b.began); id != "" {
		return journal.WhyBroken(records, b.began, id, v)
	}
	return journal.Why(records, b.began, led)
}
