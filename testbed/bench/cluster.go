package bench

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave"
	"conclave/meta/metaclient"
	"conclave/testbed"
	"conclave/testbed/load"
	"conclave/testbed/outside"
	"conclave/wire"
)

// cluster is a cluster that is measured, and an operator's client of it.
type cluster struct {
	testbed.RealCluster
	admin *metaclient.Admin
	read  map[string]uint64 // the newest event read of each data node, by its incarnation
}

func newCluster(c testbed.RealCluster) *cluster {
	out := &cluster{RealCluster: c, read: make(map[string]uint64)}
	out.admin = out.adminOf(out.addresses("meta"))
	return out
}

// adminOf returns a client with short timeouts, so that a slow meta does not distort a
// figure.
func (c *cluster) adminOf(metas []string) *metaclient.Admin {
	dialer := &net.Dialer{Timeout: 500 * time.Millisecond}
	return metaclient.NewAdmin(metaclient.AdminConfig{Metas: metas, TokenFor: func(string) string { return c.Token() }, HTTP: &http.Client{
		Timeout: 15 * time.Second, Transport: c.Secure(&http.Transport{DialContext: dialer.DialContext}),
	}})
}

func (c *cluster) close() { c.admin.HTTP.CloseIdleConnections() }

// names returns the names of a role's processes, whether or not they run.
func (c *cluster) names(role string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.Addresses())), func(name string) bool { return testbed.RoleOf(name) != role })
}

// addresses returns the HTTP addresses of a role's processes.
func (c *cluster) addresses(role string) (out []string) {
	all := c.Addresses()
	for _, name := range c.names(role) {
		out = append(out, all[name])
	}
	return out
}

// client starts a client that connects to a session at one of these addresses.
func (c *cluster) client(name string, sessions ...string) (load.Client, error) {
	cfg, err := c.ClientConfig(name)
	if err != nil {
		return nil, err
	}
	cfg.Sessions = sessions
	return load.Start(cfg)
}

// do kills, stops or starts a process.
func (c *cluster) do(ctx context.Context, verb testbed.Verb, name string) error {
	return c.Do(ctx, testbed.Action{Verb: verb, Node: name})
}

// settled waits until every process is ready and no slot is being handed over,
// which is the state in which each repetition begins.
func (c *cluster) settled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := c.AwaitReady(ctx); err != nil {
		return err
	}
	return c.stable(ctx)
}

func (c *cluster) stable(ctx context.Context) error {
	return await(ctx, 10*time.Millisecond, "stable slots", func() bool {
		s, err := c.admin.Slots(ctx)
		return err == nil && s.Stable
	})
}

// ended waits until a process that was killed or stopped has ended.
func (c *cluster) ended(ctx context.Context, name string) error {
	return await(ctx, 5*time.Millisecond, name+" to end", func() bool {
		ps, err := c.Processes(ctx)
		return err == nil && slices.ContainsFunc(ps, func(p testbed.Process) bool { return p.Name == name && p.PID == 0 })
	})
}

// restart starts a process that was killed or stopped.
func (c *cluster) restart(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := c.ended(ctx, name); err != nil {
		return err
	}
	return c.do(ctx, testbed.Start, name)
}

// killData kills a data node, and returns how long it took until all its slots were
// served by others.
func (c *cluster) killData(ctx context.Context, name string) (time.Duration, error) {
	mine := func(x metaclient.SlotInfo) bool { return x.Leader == name }
	before, err := c.admin.Slots(ctx)
	if err != nil {
		return 0, err
	}
	lost := make(map[int]bool)
	for _, x := range before.Slots {
		lost[x.ID] = mine(x)
	}
	start := time.Now()
	if err := c.do(ctx, testbed.Kill, name); err != nil {
		return 0, err
	}
	err = await(ctx, 2*time.Millisecond, "the slots of "+name+" to be served", func() bool {
		now, err := c.admin.Slots(ctx)
		return err == nil && !slices.ContainsFunc(now.Slots, func(x metaclient.SlotInfo) bool {
			return lost[x.ID] && (mine(x) || x.State == "crash" || x.State == "switching")
		})
	})
	return time.Since(start), err
}

// gaps reads from the data nodes' events for how long each slot that was handed over
// since the last call was served by no node. The data nodes measure it themselves;
// those that do not answer are ignored.
func (c *cluster) gaps(ctx context.Context) (out []float64) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	nodes, _ := c.admin.Nodes(ctx, conclave.RoleData) // none of them answers if no meta does
	for _, n := range nodes {
		life := n.Name + "@" + n.Incarnation // event ids start again with each incarnation
		_ = wire.ReadEvents(ctx, c.admin.HTTP, n.Address, c.Token(), c.read[life], false, func(e wire.Event) error {
			c.read[life] = e.ID
			if ms, ok := e.Data["unreadableMs"].(float64); ok && e.Type == "slot.serving" {
				out = append(out, ms)
			}
			return nil
		})
	}
	return out
}

// The names of counts.
const (
	clientsGone = "clients whose lease has expired"
	elections   = "elections"
	evictions   = "evictions"
)

// counts are what should not happen because of load, since the start of the cluster.
// What could not be read is missing.
func (c *cluster) counts(ctx context.Context) map[string]float64 {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	out := map[string]float64{}
	if n, err := c.metric(ctx, "conclave_session_client_leases_expired_total", c.running(ctx, "session")...); err == nil {
		out[clientsGone] = n
	}
	if all, err := c.admin.Elections(ctx); err == nil {
		out[elections] = 0
		for _, e := range all {
			out[elections] = max(out[elections], float64(e.Term)) // each election has its own term
		}
	}
	removed := 0.0
	for _, address := range c.admin.Metas {
		err := wire.ReadEvents(ctx, c.admin.HTTP, address, c.Token(), 0, false, func(e wire.Event) error {
			if e.Type == "node.evicted" || e.Type == "node.lost" {
				removed++
			}
			return nil
		})
		if err != nil {
			return out
		}
	}
	out[evictions] = removed
	return out
}

// running returns the addresses of the processes of a role that run.
func (c *cluster) running(ctx context.Context, role string) (out []string) {
	ps, _ := c.Processes(ctx)
	all := c.Addresses()
	for _, p := range ps {
		if p.Role() == role && p.PID != 0 {
			out = append(out, all[p.Name])
		}
	}
	return out
}

// metric returns the sum of a metric without labels at several processes.
func (c *cluster) metric(ctx context.Context, name string, addresses ...string) (sum float64, err error) {
	for _, address := range addresses {
		n, err := readMetric(ctx, c.admin.HTTP, address, name)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func readMetric(ctx context.Context, c *http.Client, address, name string) (n float64, err error) {
	err = outside.Get(ctx, c, "http://"+address+"/metrics", "", func(res *http.Response) error {
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
			if v, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
				n, err = strconv.ParseFloat(v, 64)
				return err
			}
		}
		return cmp.Or(lines.Err(), fmt.Errorf("no metric %s at %s (%s)", name, address, res.Status))
	})
	return n, err
}

// memory returns the resident memory of all processes of a role, in MiB; 0 is not
// known.
func (c *cluster) memory(ctx context.Context, role string) (sum float64, err error) {
	ps, err := c.Processes(ctx)
	for _, p := range ps {
		if p.Role() == role && p.PID != 0 {
			sum += float64(p.RSS) / (1 << 20)
		}
	}
	return sum, err
}

// processorTime returns how long the processes of the cluster that run have had a
// processor; 0: not known.
func (c *cluster) processorTime(ctx context.Context) (sum time.Duration) {
	ps, _ := c.Processes(ctx)
	for _, p := range ps {
		sum += p.CPU
	}
	return sum
}

// await calls done every tick until it returns true. what names the condition
// in the error.
func await(ctx context.Context, tick time.Duration, what string, done func() bool) error {
	err := outside.Until(ctx, tick, func() (bool, error) { return done(), nil })
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", what, err)
	}
	return nil
}
