package load

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"conclave/client"
	"conclave/testbed"
	"conclave/testbed/outside"
	"conclave/wire"
)

// Client is a client under load.
type Client interface {
	testbed.Client
	// Lost returns how often it has lost its session.
	Lost() int64
	// Kill ends it as if its process had died: it withdraws nothing.
	Kill()
}

// Start starts a client by the SDK.
func Start(c client.Config) (Client, error) { return outside.NewClient(c, func() {}) }

// Leave withdraws all registrations of a client and ends it, so that nothing is left
// for the next measurement.
func Leave(c Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = c.Close(ctx) // if it fails, the session withdraws them after the client lease
}

// Pool starts clients, the n-th at the n-th session of a cluster, and again at the
// first one after the last. Its methods may be called from several goroutines.
type Pool struct {
	// Start starts a client.
	Start func(client.Config) (Client, error)

	config client.Config // with all sessions

	mu      sync.Mutex // guards clients
	clients []Client
}

// NewPool returns a pool for the sessions of a client's configuration, with its token
// and TLS.
func NewPool(c client.Config) *Pool { return &Pool{Start: Start, config: c} }

// perAddress is how many clients dial from one address, which has 28,000 ports.
const perAddress = 10_000

// Connect starts a client, which may not have reached its session yet.
func (p *Pool) Connect(name string) (Client, error) {
	sessions := p.config.Sessions
	if len(sessions) == 0 {
		return nil, fmt.Errorf("connect %s: the cluster has no session", name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	network := &wire.TCP{} // as that of applications
	if n := len(p.clients) / perAddress; n > 0 {
		network.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(n))}
	}
	c, err := p.Start(client.Config{
		Name: name, Sessions: []string{sessions[len(p.clients)%len(sessions)]},
		Network: network, Token: p.config.Token, TLSFrom: p.config.TLSFrom,
	})
	if err == nil {
		p.clients = append(p.clients, c)
	}
	return c, err
}

// Lost returns how often a client has lost its session.
func (p *Pool) Lost() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.clients {
		n += c.Lost()
	}
	return n
}
