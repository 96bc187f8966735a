package outside

import (
	"context"

	"conclave/client"
	"conclave/testbed"
)

// Client is a client that can be killed.
type Client struct {
	testbed.SDK
	end    context.CancelFunc
	done   chan struct{}
	closed func()
}

// NewClient starts a client. closed is called when it was closed, not when it was
// killed.
func NewClient(c client.Config, closed func()) (*Client, error) {
	sdk, err := client.New(c)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	out := &Client{SDK: testbed.SDK{Client: sdk}, end: end, done: make(chan struct{}), closed: closed}
	go func() {
		defer close(out.done)
		_ = sdk.Run(ctx) // ended by Close or Kill
	}()
	return out, nil
}

// Close withdraws what the client has published, and ends it.
func (c *Client) Close(ctx context.Context) error {
	err := c.SDK.Close(ctx)
	c.Kill() // what was not acknowledged in time is given up
	c.closed()
	return err
}

// Kill ends the client as if its process had died, and waits until it has
// ended.
func (c *Client) Kill() {
	c.end()
	<-c.done
}
