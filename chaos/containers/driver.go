package containers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"conclave/chaos"
	"conclave/chaos/outside"
	"conclave/client"
	"conclave/internal/compose"
	"conclave/internal/trace"
)

// Config says how the project is made and ended.
type Config struct {
	// Start brings the project up; every node answers, and the token is what it
	// asks for.
	Start func(ctx context.Context, c chaos.Cluster) (p *compose.Project, token string, err error)
	// End takes it down.
	End func(ctx context.Context) error
	// Nodes are the services that are nodes of the cluster, by their published role:
	// meta-1 and so on.
	Nodes []string
}

// Driver is a chaos.Driver over containers.
type Driver struct {
	cfg     Config
	project *compose.Project
	token   string
	view    *outside.View

	cables map[cable]compose.Membership // taken out; Do's alone

	mu      sync.Mutex // guards clients
	clients map[string]*outside.Client
}

// cable is a service's way into a network of the project.
type cable struct{ service, network string }

var _ chaos.Driver = (*Driver)(nil)

// New makes a driver for one run.
func New(c Config) *Driver {
	return &Driver{cfg: c, clients: map[string]*outside.Client{}, cables: map[cable]compose.Membership{}}
}

// Open brings the project up.
func (d *Driver) Open(ctx context.Context, c chaos.Cluster, _ *trace.Gate) error {
	count := func(role string) (n int) {
		for _, s := range d.cfg.Nodes {
			if strings.HasPrefix(s, role+"-") {
				n++
			}
		}
		return n
	}
	if c.Metas != count("meta") || c.Sessions != count("session") || c.Datas != count("data") {
		return fmt.Errorf("a cluster of %d metas, %d sessions and %d data nodes: %w", c.Metas, c.Sessions, c.Datas, chaos.ErrUnsupported)
	}
	var err error
	if d.project, d.token, err = d.cfg.Start(ctx, c); err != nil {
		return err
	}
	d.view = &outside.View{
		Nodes: d.published,
		HTTP:  &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: d.project.Outside().DialContext}},
		Token: d.token,
	}
	return nil
}

// published are the ports of this machine that lead to the nodes.
func (d *Driver) published() map[string]string {
	out := map[string]string{}
	for _, s := range d.cfg.Nodes {
		if ways := d.project.Published(s); len(ways) > 0 {
			out[s] = ways[0]
		}
	}
	return out
}

// Look asks the nodes, and the engine who runs.
func (d *Driver) Look(ctx context.Context) chaos.Sight {
	s := d.view.Look(ctx)
	all, err := d.project.Containers(ctx)
	for _, c := range all {
		if err == nil && (c.State == "running" || c.State == "paused") && slices.Contains(d.cfg.Nodes, c.Service) {
			s.Up = append(s.Up, c.Service)
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

// Claims is false: nodes are in containers.
func (d *Driver) Claims() bool { return false }

// Told has nothing to tell.
func (d *Driver) Told(func(time.Time, trace.Claim)) (bool, error) { return false, nil }

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
	return errors.Join(ctx.Err(), d.cfg.End(context.WithoutCancel(ctx)))
}
