package conclavegrpc

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/resolver"

	"conclave"
	"conclave/client"
)

// Scheme is that of the targets: conclave:///NAME, with ?group=G and ?instance=I
// for a name that is not in the default ones.
const Scheme = "conclave"

// NewBuilder returns a builder of resolvers that subscribe with c, which the caller
// runs and closes. It serves any number of connections; those to one name
// have a subscription each. Pass it to grpc.WithResolvers, or to resolver.Register
// before the first connection is made.
func NewBuilder(c *client.Client) resolver.Builder { return builder{c} }

type builder struct{ client *client.Client }

// Scheme implements resolver.Builder.
func (b builder) Scheme() string { return Scheme }

// Build implements resolver.Builder. It returns at once; the connection waits for
// the first push.
func (b builder) Build(target resolver.Target, conn resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	name, opts, err := parse(target.URL)
	if err != nil {
		return nil, fmt.Errorf("conclavegrpc: the target %q: %w", &target.URL, err)
	}
	sub, err := b.client.Subscribe(name, append(opts, client.OnPush(func(d conclave.Datum) { push(conn, d) }))...)
	if err != nil {
		return nil, fmt.Errorf("conclavegrpc: %w", err)
	}
	n := &names{sub: sub, conn: conn, closing: make(chan struct{})}
	n.watching.Go(n.reportRefusal)
	return n, nil
}

// parse returns the name in a target, and the options that its query stands for.
func parse(target url.URL) (name string, opts []client.Option, err error) {
	if target.Host != "" {
		return "", nil, fmt.Errorf("names no session: the client has those, write %s:///NAME", Scheme)
	}
	query, err := url.ParseQuery(target.RawQuery)
	if err != nil {
		return "", nil, err
	}
	for key, values := range query {
		option := map[string]func(string) client.Option{"group": client.Group, "instance": client.Instance}[key]
		if option == nil || len(values) != 1 {
			return "", nil, fmt.Errorf("%s: want group or instance, each once", key)
		}
		opts = append(opts, option(values[0]))
	}
	name = strings.TrimPrefix(target.Path, "/")
	if name == "" {
		return "", nil, fmt.Errorf("names no name, write %s:///NAME", Scheme)
	}
	return name, opts, nil
}

// push gives a list to a connection. A value that is no address is left out. A list
// without an address makes calls fail at once, or wait if they are WaitForReady.
func push(conn resolver.ClientConn, d conclave.Datum) {
	var state resolver.State
	for _, value := range slices.Compact(slices.Sorted(slices.Values(d.Values))) {
		if _, _, err := net.SplitHostPort(value); err != nil {
			grpclog.Component(Scheme).Warningf("%s: %q is not host:port: %v", d.Data.DataID, value, err)
			continue
		}
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: value}}})
	}
	if err := conn.UpdateState(state); err != nil && len(state.Endpoints) > 0 {
		grpclog.Component(Scheme).Warningf("%s: the connection does not accept the list: %v", d.Data.DataID, err)
	}
}

// names is the resolver of one connection.
type names struct {
	sub      *client.Subscription
	conn     resolver.ClientConn
	closing  chan struct{}
	watching sync.WaitGroup
}

// reportRefusal reports to the connection why there is no list yet, if a session has
// refused the subscription (a token, with client.Config.GiveUp): calls fail with that
// instead of waiting. Once there is a list, it stays, and the client's log has the rest.
func (n *names) reportRefusal() {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		if _, pushed := n.sub.Last(); pushed {
			return
		}
		if err := n.sub.Err(); err != nil {
			n.conn.ReportError(fmt.Errorf("conclavegrpc: %w", err))
		}
		select {
		case <-second.C:
		case <-n.closing:
			return
		}
	}
}

// ResolveNow implements resolver.Resolver. It does nothing: pushes come by themselves.
func (n *names) ResolveNow(resolver.ResolveNowOptions) {}

// Close implements resolver.Resolver.
func (n *names) Close() {
	n.sub.Close()
	close(n.closing)
	n.watching.Wait()
}
