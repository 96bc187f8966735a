package testbed

import (
	"context"

	"conclave"
	"conclave/client"
)

// SDK is a Client that uses the Go SDK. Every Cluster returns this one.
type SDK struct{ *client.Client }

var (
	_ Client      = SDK{}
	_ Publication = (*client.Publication)(nil)
)

// Publish is the SDK's Publish without options.
func (c SDK) Publish(ctx context.Context, dataID string, values []string) (Publication, error) {
	p, err := c.Client.Publish(ctx, dataID, values)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Subscribe passes on every push.
func (c SDK) Subscribe(dataID string, pushed func(conclave.Datum)) error {
	_, err := c.Client.Subscribe(dataID, client.OnPush(pushed))
	return err
}
