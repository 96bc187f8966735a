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

// Peer is a running client of the registry.
type Peer struct {
	*client.Client
	stop context.CancelFunc
	done sync.WaitGroup
}

// connect runs a client of the cluster that connects to a session at one of these
// addresses.
func (r *run) connect(name string, sessions ...string) (*Peer, error) {
	cfg, err := r.Cluster.ClientConfig(name)
	if err != nil {
		return nil, err
	}
	cfg.Sessions = sessions
	return runClient(cfg)
}

func runClient(cfg client.Config) (*Peer, error) {
	c, err := client.New(cfg)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &Peer{Client: c, stop: stop}
	p.done.Go(func() { _ = c.Run(ctx) }) // nil or the context's error
	return p, nil
}

// Leave withdraws all registrations of the client and ends it, so that nothing
// is left for the next measurement.
func (p *Peer) Leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = p.Close(ctx) // if it fails, the session withdraws them after the client lease
	p.stop()
	p.done.Wait()
}

// Watch subscribes to the dataIds and makes the ledger check every push.
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

// Traffic is a set of publishers that update their values one after another,
// recorded in a ledger.
type Traffic struct {
	ledger *Ledger
	names  []string
	dataID map[string]string
	made   map[string]*client.Publication
}

// PublishAll registers n publishers, per of them under each dataId of prefix,
// and waits until data nodes have stored all of them.
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

// DataID returns the i-th dataId of a prefix, from 0.
func DataID(prefix string, i int) string { return prefix + "." + strconv.Itoa(i) }

// DataIDs returns the first n dataIds of a prefix.
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
		name := t.names[i*7%len(t.names)] // not in the order of registration, to spread the updates over all slots
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

// during runs the traffic while do runs, then waits until all subscribers have
// received the newest values.
func (t *Traffic) during(ctx context.Context, tick time.Duration, do func() error) error {
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
	return t.ledger.AwaitSeen(ctx)
}
