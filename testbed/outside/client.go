package outside

import (
	"context"

	"conclave/client"
	"conclave/testbed"
)

// Client is a client that can be killed.
type Client struct {
	testbed.SDK
	end  context.CancelFunc
	done chan struct{}
}

// NewClient starts a client.
func NewClient(c client.Config) (*Client, error) {
	sdk, err := client.New(c)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	out := &Client{SDK: testbed.SDK{Client: sdk}, end: end, done: make(chan struct{})}
	go func() {
		defer close(out.done)
		_ = sdk.Run(ctx) // ended by Close or Kill
	}()
	return out, nil
}

// Kill ends the client as if its process had died, and waits until it has
// ended.
func (c *Client) Kill() {
	c.end()
	<-c.done
}
