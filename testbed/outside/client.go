package outside

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"conclave"
	"conclave/client"
	"conclave/testbed"
)

// Client is a client by the SDK that can be killed. Every Cluster returns this one.
type Client struct {
	*client.Client
	end    context.CancelFunc
	done   chan struct{}
	closed func() // called by Close, not by Kill; may be nil
}

var (
	_ testbed.Client      = (*Client)(nil)
	_ testbed.Publication = (*client.Publication)(nil)
)

// NewClient starts a client.
func NewClient(c client.Config) (*Client, error) {
	sdk, err := client.New(c)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	out := &Client{Client: sdk, end: end, done: make(chan struct{})}
	go func() {
		defer close(out.done)
		_ = sdk.Run(ctx) // ended by Close or Kill
	}()
	return out, nil
}

// Publish is the SDK's Publish without options.
func (c *Client) Publish(ctx context.Context, dataID string, values []string) (testbed.Publication, error) {
	p, err := c.Client.Publish(ctx, dataID, values)
	if err != nil {
		return nil, err // and no publication that is not nil
	}
	return p, nil
}

// Subscribe passes on every push.
func (c *Client) Subscribe(dataID string, pushed func(conclave.Datum)) error {
	_, err := c.Client.Subscribe(dataID, client.OnPush(pushed))
	return err
}

// Close withdraws what the client has published, and ends it.
func (c *Client) Close(ctx context.Context) error {
	err := c.Client.Close(ctx)
	c.Kill() // what was not acknowledged in time is given up
	if c.closed != nil {
		c.closed()
	}
	return err
}

// Kill ends the client as if its process had died, and waits until it has
// ended.
func (c *Client) Kill() {
	c.end()
	<-c.done
}

// Clients are the clients of a cluster that live, by name.
type Clients struct {
	// Config prepares a new client, and returns its configuration.
	Config func(name string) (client.Config, error)
	// Closed, if not nil, is called when a client was closed, not when it was killed.
	Closed func(name string)

	mu     sync.Mutex // guards byName
	byName map[string]living
}

// living is a client that can be killed.
type living interface {
	testbed.Client
	Kill()
}

// Start starts a client by the SDK whose name no other one has, and which may linger when
// it was closed.
func (c *Clients) Start(name string, linger time.Duration) (testbed.Client, error) {
	return c.start(name, func(cfg client.Config, closed func()) (living, error) {
		cfg.Linger = linger
		started, err := NewClient(cfg)
		if err != nil {
			return nil, err
		}
		started.closed = closed
		return started, nil
	})
}

// StartHTTP starts a client without the SDK.
func (c *Clients) StartHTTP(name string) (testbed.Client, error) {
	return c.start(name, func(cfg client.Config, closed func()) (living, error) { return NewHTTPClient(cfg, closed), nil })
}

// StartSofa starts a client of SOFARegistry.
func (c *Clients) StartSofa(name string) (testbed.Client, error) {
	return c.start(name, func(cfg client.Config, closed func()) (living, error) { return NewSofaClient(cfg, closed), nil })
}

// start adds what a function starts, which calls the function that it is passed when it was
// closed.
func (c *Clients) start(name string, one func(cfg client.Config, closed func()) (living, error)) (testbed.Client, error) {
	cfg, err := c.Config(name)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byName[name] != nil {
		return nil, fmt.Errorf("client %s exists already", name)
	}
	started, err := one(cfg, func() {
		c.mu.Lock()
		delete(c.byName, name)
		c.mu.Unlock()
		if c.Closed != nil {
			c.Closed(name)
		}
	})
	if err != nil {
		return nil, err
	}
	if c.byName == nil {
		c.byName = map[string]living{}
	}
	c.byName[name] = started
	return started, nil
}

// Names returns the names that clients have, also of those that were killed, sorted.
func (c *Clients) Names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.byName))
}

// Kill kills the clients with these names, and reports whether there was one.
func (c *Clients) Kill(names ...string) (found bool) {
	for _, name := range names {
		c.mu.Lock()
		one := c.byName[name]
		c.mu.Unlock()
		if one != nil {
			found = true
			one.Kill()
		}
	}
	return found
}
