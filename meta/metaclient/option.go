package metaclient

import (
	"context"
	"net/url"
)

// Option changes how an operator's request is done.
type Option func(*options)

type options struct {
	force  bool
	effect *Effect
}

// Force makes a request succeed although the cluster would not serve
// afterwards, which is otherwise refused with wire.CodeNoSuccessor or
// wire.CodeUnsafe.
func Force() Option { return func(o *options) { o.force = true } }

// DryRun changes nothing, and stores in into what the request would do.
func DryRun(into *Effect) Option { return func(o *options) { o.effect = into } }

// act sends a changing request with its options as the query. The answer to a
// dry run goes to its effect, not to out.
func act(ctx context.Context, send func(ctx context.Context, method, path string, in, out any) error, method, path string, in, out any, opts []Option) error {
	var o options
	for _, f := range opts {
		f(&o)
	}
	query := url.Values{}
	if o.force {
		query.Set("force", "true")
	}
	if o.effect != nil {
		query.Set("dryRun", "true")
		out = o.effect
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return send(ctx, method, path, in, out)
}
