package bench

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"conclave"
	"conclave/client"
)

// Peer is one client of the registry and the function that ends it.
type Peer struct {
	*client.Client
	die  context.CancelFunc
	done sync.WaitGroup
}

// Connect runs a client that looks for a session among these addresses first.
func Connect(name string, sessions ...string) (*Peer, error) {
	return ConnectAs(client.Config{Sessions: sessions, Name: name})
}

// ConnectAs runs a client that needs more than that: a token, or a network.
func ConnectAs(cfg client.Config) (*Peer, error) {
	c, err := client.New(cfg)
	if err != nil {
		return nil, err
	}
	ctx, die := context.WithCancel(context.Background())
	p := &Peer{Client: c, die: die}
	p.done.Go(func() { _ = c.Run(ctx) }) // nil, or the context's error
	return p, nil
}

// Leave says good-bye, so that nothing of this client is left for the next
// measurement.
func (p *Peer) Leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = p.Close(ctx) // what it did not withdraw, the session does after the client lease
	p.die()
	p.done.Wait()
}

// Watch subscribes to the dataIds and has the ledger judge every push.
func (p *Peer) Watch(l *Ledger, subscriber string, dataIDs ...string) error {
	l.Subscribing(subscriber, dataIDs...)
	for _, id := range dataIDs {
		_, err := p.Subscribe(id, client.OnPush(func(d conclave.Datum) { l.Pushed(subscriber, id, d.Version, d.Values) }))
		if err != nil {
			return err
		}
	}
	return nil
}

// Traffic is publishers that update their values, one after the other, while a
// ledger watches who sees it.
type Traffic struct {
	ledger *Ledger
	names  []string
	dataID map[string]string
	made   map[string]*client.Publication
}

// PublishAll registers n publishers, spread over dataIds named by prefix, per of
// them under each, and waits until data has all of them.
func PublishAll(ctx context.Context, c *client.Client, l *Ledger, prefix string, n, per int) (*Traffic, error) {
	t := &Traffic{ledger: l, dataID: make(map[string]string), made: make(map[string]*client.Publication)}
	for i := range n {
		name, dataID := fmt.Sprintf("%s-p%d", prefix, i), DataID(prefix, i/per)
		p, err := c.Publish(ctx, dataID, []string{l.Publishing(name, dataID)})
		if err != nil {
			return nil, err
		}
		t.names, t.dataID[name], t.made[name] = append(t.names, name), dataID, p
	}
	for _, name := range t.names {
		if err := t.made[name].Stored(ctx); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// DataID names the i-th dataId of a prefix, from 0.
func DataID(prefix string, i int) string { return prefix + "." + strconv.Itoa(i) }

// DataIDs lists the first n of a prefix, in their order.
func DataIDs(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = DataID(prefix, i)
	}
	return out
}

// Run updates one publisher each tick until ctx ends.
func (t *Traffic) Run(ctx context.Context, tick time.Duration) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for i := 0; ; i++ {
		name := t.names[i*7%len(t.names)] // not in the order of registration: over all slots alike
		if err := t.made[name].Update([]string{t.ledger.Publishing(name, t.dataID[name])}); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// during runs the traffic while do is done, then waits until everybody has seen
// everything.
func (t *Traffic) during(ctx context.Context, tick time.Duration, do func() error) error {
	moving, stop := context.WithCancel(ctx)
	var traffic sync.WaitGroup
	var failed error
	traffic.Go(func() { failed = t.Run(moving, tick) })
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
	return t.ledger.AwaitSeen(ctx)
}
