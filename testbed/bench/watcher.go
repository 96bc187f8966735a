package bench

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"conclave/meta/metaclient"
	"conclave/testbed"
	"conclave/wire"
)

// watcher observes the processes of a cluster under load.
type watcher struct {
	cluster         testbed.RealCluster
	admin           *metaclient.Admin
	metas, sessions []string // addresses
	before          counts
}

// counts are what should not happen because of load. -1: not known.
type counts struct {
	gone      int // clients whose lease has expired with registrations
	elections int
	evictions int // of nodes
}

// watch starts to count.
func watch(ctx context.Context, c testbed.RealCluster) (*watcher, error) {
	r := &run{Config: Config{Cluster: c}}
	metas, err := r.addresses(ctx, "meta")
	if err != nil {
		return nil, err
	}
	sessions, err := r.addresses(ctx, "session")
	if err != nil {
		return nil, err
	}
	w := &watcher{cluster: c, admin: newAdmin(metas, c), metas: metas, sessions: sessions}
	w.before = w.total(ctx)
	return w, nil
}

func (w *watcher) close() { w.admin.HTTP.CloseIdleConnections() }

// events returns the counts since the last call, or since watch.
func (w *watcher) events(ctx context.Context) counts {
	now := w.total(ctx)
	since := func(now, before int) int {
		if now < 0 || before < 0 {
			return -1
		}
		return now - before
	}
	out := counts{since(now.gone, w.before.gone), since(now.elections, w.before.elections), since(now.evictions, w.before.evictions)}
	w.before = now
	return out
}

func (w *watcher) total(ctx context.Context) counts {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	n := counts{gone: w.expired(ctx), elections: -1, evictions: w.evicted(ctx)}
	if elections, err := w.admin.Elections(ctx); err == nil {
		n.elections = 0
		for _, e := range elections {
			n.elections = max(n.elections, int(e.Term)) // each election has its own term
		}
	}
	return n
}

// expired returns how many clients the sessions have declared gone.
func (w *watcher) expired(ctx context.Context) int {
	n, err := w.sum(ctx, w.sessions, "conclave_session_client_leases_expired_total")
	if err != nil {
		return -1
	}
	return int(n)
}

// sum returns the sum of a metric without labels at several processes.
func (w *watcher) sum(ctx context.Context, addresses []string, name string) (float64, error) {
	n := 0.0
	for _, address := range addresses {
		one, err := readMetric(ctx, w.admin.HTTP, address, name)
		if err != nil {
			return 0, err
		}
		n += one
	}
	return n, nil
}

// readMetric returns the value of a metric without labels.
func readMetric(ctx context.Context, c *http.Client, address, name string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	res, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(v, 64)
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("no metric %s at %s (%s)", name, address, res.Status)
}

// evicted returns how many nodes the leaders have evicted, by their events.
func (w *watcher) evicted(ctx context.Context) int {
	n := 0
	for _, address := range w.metas {
		err := wire.ReadEvents(ctx, w.admin.HTTP, address, w.admin.TokenFor(address), 0, false, func(e wire.Event) error {
			if e.Type == "node.evicted" || e.Type == "node.lost" {
				n++
			}
			return nil
		})
		if err != nil {
			return -1
		}
	}
	return n
}

// memory returns the resident memory of all processes of a role, in MiB.
func (w *watcher) memory(ctx context.Context, role string) (float64, error) {
	ps, err := w.cluster.Processes(ctx)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, p := range ps {
		if p.Role() != role || p.PID == 0 {
			continue
		}
		sum += float64(p.RSS) / (1 << 20)
	}
	return sum, nil
}

// processorTime returns how long the processes of the cluster that run have had a
// processor.
func (w *watcher) processorTime(ctx context.Context) (sum time.Duration, err error) {
	ps, err := w.cluster.Processes(ctx)
	for _, p := range ps {
		sum += p.CPU
	}
	return sum, err
}
