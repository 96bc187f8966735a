package simulated

import (
	"context"
	"fmt"

	"conclave/client"
	"conclave/internal/logging"
	"conclave/testbed"
	"conclave/testbed/simulated/simnet"
)

// Client is a client of the cluster on its own host.
type Client struct {
	testbed.SDK
	c      *Cluster
	name   string
	cancel context.CancelFunc
	done   chan struct{} // closed when Run has returned
}

var _ testbed.Client = (*Client)(nil)

// Client starts a client that knows every session.
func (c *Cluster) Client(name string) (testbed.Client, error) {
	if c.client(name) != nil {
		return nil, fmt.Errorf("client %s was already started", name)
	}
	c.applyStanding(name)
	c.net.Budget(name, simnet.Budget(c.size.Budgets.OfHost(name)))
	inner, err := client.New(client.Config{
		Name: name, Sessions: addresses("session", c.size.Sessions, sessionPort), Network: c.net.Host(name), Rand: c.stream(name), Logger: logging.Slog(c.logger(name)),
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	cl := &Client{SDK: testbed.SDK{Client: inner}, c: c, name: name, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(cl.done)
		_ = inner.Run(ctx) // the context's own error, or nil after Close
	}()
	c.mu.Lock()
	c.clients[name] = cl
	c.mu.Unlock()
	return cl, nil
}

// client returns the running client of this name, or nil.
func (c *Cluster) client(name string) *Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clients[name]
}

// Close withdraws the client's registrations and disconnects it.
func (cl *Client) Close(ctx context.Context) error {
	err := cl.SDK.Close(ctx)
	cl.end()
	return err
}

// kill ends the client as kill -9 does.
func (cl *Client) kill() {
	cl.c.net.Kill(cl.name)
	cl.end()
}

func (cl *Client) end() {
	cl.cancel()
	<-cl.done
	cl.c.net.Kill(cl.name) // closes the connections that it left open
	cl.c.mu.Lock()
	defer cl.c.mu.Unlock()
	if cl.c.clients[cl.name] == cl {
		delete(cl.c.clients, cl.name)
	}
}
