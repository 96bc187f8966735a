package chaos

import (
	"context"

	"conclave"
	"conclave/client"
)

// SDK is a Client through the Go SDK, which every driver hands out.
type SDK struct{ *client.Client }

var (
	_ Client      = SDK{}
	_ Publication = (*client.Publication)(nil)
)

// Publish is the SDK's, without options.
func (c SDK) Publish(ctx context.Context, dataID string, values []string) (Publication, error) {
	p, err := c.Client.Publish(ctx, dataID, values)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Subscribe hands every push on.
func (c SDK) Subscribe(dataID string, pushed func(conclave.Datum)) error {
	_, err := c.Client.Subscribe(dataID, client.OnPush(pushed))
	return err
}
