package containers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"conclave/client"
	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/containers/compose"
	"conclave/testbed/outside"
)

// Config describes how the project is started and ended.
type Config struct {
	// Start starts these nodes of the project, with the named compose file
	// added to the project's own. It returns when every node answers; token is
	// the operator's token.
	Start func(ctx context.Context, c testbed.Size, nodes []string, file string) (p *compose.Project, token string, err error)
	// End ends the project.
	End func(ctx context.Context) error
	// Dir is a folder of this machine into which the nodes write their trace
	// events. An engine on another machine cannot see it.
	Dir string
	// Logs is the folder into which LogFiles copies the containers' logs.
	Logs string
	// NoEvents turns off the nodes' trace files, which grow without limit in a
	// long run.
	NoEvents bool
}

// Cluster is a testbed.Cluster of containers.
type Cluster struct {
	cfg     Config
	project *compose.Project
	token   string
	view    *outside.View

	nodes  []string // services
	traces string   // folder of the trace files

	doing    sync.Mutex                   // held by Do: one action at a time, apart from an operator's commands
	logged   time.Time                    // until when LogFiles has read the logs; only LogFiles uses it
	cables   map[cable]compose.Membership // disconnected; only Do uses this and
	stopping map[string]bool              // services that were asked to stop

	watching sync.WaitGroup
	unwatch  context.CancelFunc

	mu      sync.Mutex // guards the rest
	clients map[string]*outside.Client
	up      map[string]bool      // services that run, or are paused
	killed  map[string]time.Time // when each was killed last
	blind   error                // why no more events of the engine arrive
}

// cable is the connection of a service to a network of the project.
type cable struct{ service, network string }

var _ testbed.RealCluster = (*Cluster)(nil)

// New returns a cluster for one run.
func New(c Config) *Cluster {
	return &Cluster{cfg: c, clients: map[string]*outside.Client{}, up: map[string]bool{}, killed: map[string]time.Time{}, cables: map[cable]compose.Membership{}, stopping: map[string]bool{}}
}

// Open starts the project.
func (d *Cluster) Open(ctx context.Context, c testbed.Size, _ *trace.Gate) error {
	if has := size(c); c.Metas != has.Metas || c.Sessions != has.Sessions || c.Datas != has.Datas {
		return fmt.Errorf("a cluster of %d metas, %d sessions and %d data nodes: %w", c.Metas, c.Sessions, c.Datas, testbed.ErrUnsupported)
	}
	d.nodes = nodes(c)
	dir, err := filepath.Abs(d.cfg.Dir)
	if err != nil {
		return err
	}
	d.traces = filepath.Join(dir, "claims")
	traces := d.traces
	if d.cfg.NoEvents {
		traces = ""
	}
	file, err := overlay(dir, c, traces)
	if err != nil {
		return err
	}
	if d.project, d.token, err = d.cfg.Start(ctx, c, d.nodes, file); err != nil {
		return err
	}
	d.view = &outside.View{
		Nodes: d.published,
		HTTP:  &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: d.project.Outside().DialContext}},
		Token: func() string { return d.token },
	}
	return d.watch(ctx)
}

// watch follows the engine's events until Close. Asking the engine at every
// Observe would take too long.
func (d *Cluster) watch(ctx context.Context) error {
	from := time.Now()
	all, err := d.project.Containers(ctx)
	if err != nil {
		return err
	}
	for _, c := range all {
		d.up[c.Service] = c.State == "running" || c.State == "paused"
	}
	ctx, d.unwatch = context.WithCancel(context.WithoutCancel(ctx))
	d.watching.Go(func() {
		err := d.project.Watch(ctx, from, d.happened)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.blind = err
	})
	return nil
}

// happened updates the state with an event of the engine.
func (d *Cluster) happened(e compose.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch e.Action {
	case "start":
		d.up[e.Service] = true
	case "die":
		d.up[e.Service] = false
	case "kill":
		if e.Signal == syscall.SIGKILL {
			d.killed[e.Service] = e.At
		}
	}
}

// published returns the addresses on this machine that lead to the nodes, by
// name.
func (d *Cluster) published() map[string]string {
	out := map[string]string{}
	for _, s := range d.nodes {
		if ways := d.project.Published(s); len(ways) > 0 {
			out[s] = ways[0]
		}
	}
	return out
}

// Observe observes the nodes from outside. Which of them run is known from the
// engine's events.
func (d *Cluster) Observe(ctx context.Context) testbed.Snapshot {
	s := d.view.Observe(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.nodes {
		if d.up[n] && d.blind == nil {
			s.Up = append(s.Up, n)
		}
	}
	slices.Sort(s.Up)
	return s
}

// Client starts a client on this machine.
func (d *Cluster) Client(name string) (testbed.Client, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.clients[name] != nil {
		return nil, fmt.Errorf("client %s exists already", name)
	}
	var sessions []string
	for service, address := range d.published() {
		if strings.HasPrefix(service, "session-") {
			sessions = append(sessions, address)
		}
	}
	slices.Sort(sessions)
	c, err := outside.NewClient(client.Config{Name: name, Sessions: sessions, Network: d.project.Outside(), Token: d.token})
	if err != nil {
		return nil, err
	}
	d.clients[name] = c
	return c, nil
}

// Events reads the nodes' trace files. The times can be compared because the
// containers of one machine have one clock.
func (d *Cluster) Events(report func(at time.Time, c trace.Claim)) (had bool, err error) {
	return outside.Events(d.traces, report)
}

// Close ends the clients and the project.
func (d *Cluster) Close(ctx context.Context) error {
	d.mu.Lock()
	clients := d.clients
	d.mu.Unlock()
	for _, c := range clients {
		c.Kill()
	}
	if d.project == nil {
		return nil
	}
	if d.unwatch != nil {
		d.unwatch()
		d.watching.Wait()
	}
	return errors.Join(ctx.Err(), d.blind, d.cfg.End(context.WithoutCancel(ctx)))
}
