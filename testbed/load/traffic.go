package load

import (
	"context"
	"fmt"
	"sync"
	"time"

	"conclave"
	"conclave/testbed"
)

// Traffic is a set of publishers, and a ledger that knows what each has published.
type Traffic struct {
	*Ledger
	publishers []publisher
}

type publisher struct {
	name, dataID string
	made         testbed.Publication
}

// NewTraffic returns a Traffic without publishers.
func NewTraffic() *Traffic { return &Traffic{Ledger: NewLedger()} }

// Publish registers n publishers, of each client in turn and per of them under each
// dataId of prefix, and waits until data nodes have stored all of them.
func (t *Traffic) Publish(ctx context.Context, prefix string, n, per int, clients ...Client) error {
	for i := range n {
		p := publisher{name: fmt.Sprintf("%s-p%d", prefix, i), dataID: DataID(prefix, i/per)}
		var err error
		if p.made, err = clients[i%len(clients)].Publish(ctx, p.dataID, []string{t.Publishing(p.name, p.dataID)}); err != nil {
			return err
		}
		t.publishers = append(t.publishers, p)
	}
	for _, p := range t.publishers {
		if err := p.made.Stored(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Watch makes a client subscribe to the first n dataIds of prefix.
func (t *Traffic) Watch(c Client, subscriber, prefix string, n int) error {
	for i := range n {
		id := DataID(prefix, i)
		t.Subscribing(subscriber, id)
		if err := c.Subscribe(id, func(d conclave.Datum) { t.Pushed(subscriber, id, d.Version, d.Values) }); err != nil {
			return err
		}
	}
	return nil
}

// Update makes the i-th publisher publish its next value.
func (t *Traffic) Update(i int) error {
	p := t.publishers[i%len(t.publishers)]
	return p.made.Update([]string{t.Publishing(p.name, p.dataID)})
}

// Run updates one publisher each tick until ctx ends.
func (t *Traffic) Run(ctx context.Context, tick time.Duration) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for i := 0; ; i += 7 { // not in the order of registration, to spread the updates over all slots
		if err := t.Update(i); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// During runs the traffic while do runs, then waits until all subscribers have
// received the newest values.
func (t *Traffic) During(ctx context.Context, tick time.Duration, do func() error) error {
	running, stop := context.WithCancel(ctx)
	var traffic sync.WaitGroup
	var failed error
	traffic.Go(func() { failed = t.Run(running, tick) })
	err := do()
	stop()
	traffic.Wait()
	if err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return t.AwaitSeen(ctx)
}
