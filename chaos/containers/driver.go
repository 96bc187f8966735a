package containers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"conclave/chaos"
	"conclave/chaos/outside"
	"conclave/client"
	"conclave/internal/compose"
	"conclave/internal/trace"
)

// Config says how the project is made and ended.
type Config struct {
	// Start brings the project up with these nodes, after the named file of compose
	// was added to its own; every node answers, and the token is what it asks for.
	Start func(ctx context.Context, c chaos.Cluster, nodes []string, file string) (p *compose.Project, token string, err error)
	// End takes it down.
	End func(ctx context.Context) error
	// Dir is a folder of this machine in which the nodes write what they claim. An
	// engine on another machine cannot see it.
	Dir string
	// NoClaims leaves out what the nodes write about themselves: in a long run these
	// files grow without end.
	NoClaims bool
}

// Driver is a chaos.Driver over containers.
type Driver struct {
	cfg     Config
	project *compose.Project
	token   string
	view    *outside.View

	nodes  []string // services
	traces string   // folder of the claims

	cables   map[cable]compose.Membership // taken out; Do's alone, and so is
	stopping map[string]bool              // told to stop

	watching sync.WaitGroup
	unwatch  context.CancelFunc

	mu      sync.Mutex // guards the rest
	clients map[string]*outside.Client
	up      map[string]bool      // services that run, or are paused
	killed  map[string]time.Time // when each was killed last
	blind   error                // why the engine tells nothing any more
}

// cable is a service's way into a network of the project.
type cable struct{ service, network string }

var _ chaos.Driver = (*Driver)(nil)

// New makes a driver for one run.
func New(c Config) *Driver {
	return &Driver{cfg: c, clients: map[string]*outside.Client{}, up: map[string]bool{}, killed: map[string]time.Time{}, cables: map[cable]compose.Membership{}, stopping: map[string]bool{}}
}

// Open brings the project up.
func (d *Driver) Open(ctx context.Context, c chaos.Cluster, _ *trace.Gate) error {
	if has := size(c); c.Metas != has.Metas || c.Sessions != has.Sessions || c.Datas != has.Datas {
		return fmt.Errorf("a cluster of %d metas, %d sessions and %d data nodes: %w", c.Metas, c.Sessions, c.Datas, chaos.ErrUnsupported)
	}
	d.nodes = nodes(c)
	file, err := d.overlay(c)
	if err != nil {
		return err
	}
	if d.project, d.token, err = d.cfg.Start(ctx, c, d.nodes, file); err != nil {
		return err
	}
	d.view = &outside.View{
		Nodes: d.published,
		HTTP:  &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: d.project.Outside().DialContext}},
		Token: d.token,
	}
	return d.watch(ctx)
}

// watch listens to the engine until Close: to ask it at every look would take most
// of the time.
func (d *Driver) watch(ctx context.Context) error {
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

// happened takes the engine's word.
func (d *Driver) happened(e compose.Event) {
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

// published are the ports of this machine that lead to the nodes.
func (d *Driver) published() map[string]string {
	out := map[string]string{}
	for _, s := range d.nodes {
		if ways := d.project.Published(s); len(ways) > 0 {
			out[s] = ways[0]
		}
	}
	return out
}

// Look asks the nodes; who runs is the engine's word.
func (d *Driver) Look(ctx context.Context) chaos.Sight {
	s := d.view.Look(ctx)
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
func (d *Driver) Client(name string) (chaos.Client, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.clients[name] != nil {
		return nil, fmt.Errorf("there is a client %s already", name)
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

// Claims is false: nodes are in containers, and cannot be held at what they say.
func (d *Driver) Claims() bool { return false }

// Told reads what the nodes have written down. Containers of one machine have one
// clock: the moments can be compared.
func (d *Driver) Told(told func(at time.Time, c trace.Claim)) (had bool, err error) {
	return outside.Claims(d.traces, told)
}

// Close ends the clients and the project.
func (d *Driver) Close(ctx context.Context) error {
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
