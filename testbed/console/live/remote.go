package live

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"conclave/meta/metaclient"
	"conclave/testbed/local/supervisor"
	"conclave/testbed/outside"
)

// Remote returns the processes of a cluster that is known by the addresses of its
// metas: those that the leader lists now or has listed before. A node that does not
// answer is unreachable.
func Remote(metas []string, c *http.Client, tokenFor func(address string) string) func(ctx context.Context) ([]supervisor.Process, error) {
	known := map[string]supervisor.Process{} // by address; only one goroutine asks
	for _, m := range metas {
		known[m] = supervisor.Process{Name: m, Role: "meta", HTTP: m}
	}
	return func(ctx context.Context) ([]supervisor.Process, error) {
		admin := metaclient.NewAdmin(metaclient.AdminConfig{Metas: metas, HTTP: c, TokenFor: tokenFor})
		nodes, err := ask(ctx, admin, func(a *metaclient.Admin, ctx context.Context) ([]metaclient.NodeInfo, error) { return a.Nodes(ctx, "") })
		if err == nil {
			for _, n := range nodes {
				for address, p := range known { // it may be known by another address
					if p.Name == n.Name && address != n.Address {
						delete(known, address)
					}
				}
				known[n.Address] = supervisor.Process{Name: n.Name, Role: string(n.Role), HTTP: n.Address}
			}
		}
		out := slices.Collect(maps.Values(known))
		probeAll(ctx, c, out, func(supervisor.Process) bool { return true })
		for _, p := range out {
			known[p.HTTP] = p
		}
		slices.SortFunc(out, func(a, b supervisor.Process) int { return strings.Compare(a.Name, b.Name) })
		return slices.CompactFunc(out, func(a, b supervisor.Process) bool { return a.Name == b.Name }), nil
	}
}

// Known returns the processes of list. Those with an address and no state run: what
// they answer is filled in.
func Known(list func() []supervisor.Process, c *http.Client) func(ctx context.Context) ([]supervisor.Process, error) {
	return func(ctx context.Context) ([]supervisor.Process, error) {
		out := list()
		probeAll(ctx, c, out, func(p supervisor.Process) bool { return p.HTTP != "" && p.State == "" })
		return out, nil
	}
}

// probe asks a node about itself. What it does not answer in time is zero.
func probe(ctx context.Context, c *http.Client, address string) outside.Condition {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	seen, _ := outside.Probe(ctx, c, address)
	return seen
}

// probeAll fills in what the nodes that match answer about themselves.
func probeAll(ctx context.Context, c *http.Client, nodes []supervisor.Process, match func(supervisor.Process) bool) {
	var all sync.WaitGroup
	for i := range nodes {
		if match(nodes[i]) {
			all.Go(func() { fill(&nodes[i], probe(ctx, c, nodes[i].HTTP)) })
		}
	}
	all.Wait()
}

// fill fills in what a node has answered.
func fill(p *supervisor.Process, seen outside.Condition) {
	p.Why = seen.Why
	if seen.Name == "" {
		p.State = "unreachable"
		return
	}
	p.Name, p.Incarnation, p.State = seen.Name, seen.Incarnation, "ready"
	if !seen.Ready || seen.Why != "" {
		p.State = "starting"
		if strings.Contains(p.Why, "draining") {
			p.State = "draining"
		}
	}
}
