package load

import (
	"context"
	"fmt"
	"time"

	"conclave/client"
)

// Pool starts clients, the n-th at the n-th session of a cluster, and again at the
// first one after the last. One goroutine uses it.
type Pool struct {
	Clients // that were started
	// Start starts a client.
	Start func(client.Config) (Client, error)

	config client.Config // with all sessions
}

// NewPool returns a pool for the sessions of a client's configuration, with its token
// and TLS.
func NewPool(c client.Config) *Pool { return &Pool{Start: Start, config: c} }

// One starts a client, which may not have reached its session yet.
func (p *Pool) One(name string) (Client, error) {
	sessions := p.config.Sessions
	if len(sessions) == 0 {
		return nil, fmt.Errorf("connect %s: the cluster has no session", name)
	}
	c, err := p.Start(client.Config{
		Name: name, Sessions: []string{sessions[len(p.Clients)%len(sessions)]}, Token: p.config.Token, TLSFrom: p.config.TLSFrom,
	})
	if err == nil {
		p.Clients = append(p.Clients, c)
	}
	return c, err
}

// Connect starts n clients, and waits until each has registered something.
func (p *Pool) Connect(ctx context.Context, n int) error {
	for i := range n {
		if _, err := p.One(fmt.Sprint("load-", i)); err != nil {
			return err
		}
	}
	if _, _, err := p.Clients[len(p.Clients)-n:].Publish(ctx, n, DataIDs("warm"), Value); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return nil
}

// ServeAll starts n clients at once, which share so many names. Each publishes one value
// and subscribes to its name; ServeAll returns when all have received their value. served
// is called with the time of each since the start.
func (p *Pool) ServeAll(ctx context.Context, prefix string, n, names int, served func(time.Duration)) error {
	start := time.Now()
	all := NewArrivals(n)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		one, err := p.One(fmt.Sprint(prefix, "-", i))
		if err != nil {
			return err
		}
		err = serve(ctx, one, DataID(prefix, i%names), Value(i), func() {
			served(time.Since(start))
			all.One()
		})
		if err != nil {
			return err
		}
	}
	return all.Await(ctx, "connections had no push")
}
