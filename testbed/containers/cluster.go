package containers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
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
	// added to the project's own. It returns when every node answers.
	Start func(ctx context.Context, c testbed.Size, nodes []string, file string) (*compose.Project, Access, error)
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

// Access is how the nodes of a project are reached.
type Access struct {
	Token string             // the operator's
	TLS   func() *tls.Config // of clients; nil without TLS
}

// HTTP returns a client that uses the certificates of clients, if there are some, and
// a new connection for each request.
func (a Access) HTTP(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	return outside.HTTP(dial, a.settings)
}

// settings returns the settings of a new connection, or nil without TLS.
func (a Access) settings() *tls.Config {
	if a.TLS == nil {
		return nil
	}
	return a.TLS()
}

// Cluster is a testbed.Cluster of containers.
type Cluster struct {
	cfg     Config
	project *compose.Project
	access  Access
	view    *outside.View

	nodes  []string // services
	traces string   // folder of the trace files; "": none is known
	found  bool     // the project was up before: others may start its containers again

	doing    sync.Mutex                   // held by Do: one action at a time, apart from an operator's commands
	logged   time.Time                    // until when LogFiles has read the logs; only LogFiles uses it
	cables   map[cable]compose.Membership // disconnected; only with doing held, as
	stopping map[string]int               // pids of services that were asked to stop

	watching sync.WaitGroup
	unwatch  context.CancelFunc

	mu      sync.Mutex // guards the rest
	clients map[string]*outside.Client
	states  map[string]Status    // of the services
	killed  map[string]time.Time // when each was killed last
	blind   error                // why no more events of the engine arrive
}

// cable is the connection of a service to a network of the project.
type cable struct{ service, network string }

var _ testbed.RealCluster = (*Cluster)(nil)

// New returns a cluster for one run.
func New(c Config) *Cluster {
	return &Cluster{cfg: c, clients: map[string]*outside.Client{}, states: map[string]Status{}, killed: map[string]time.Time{}, cables: map[cable]compose.Membership{}, stopping: map[string]int{}}
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
	if d.project, d.access, err = d.cfg.Start(ctx, c, d.nodes, file); err != nil {
		return err
	}
	d.observe()
	return d.watch(ctx)
}

// observe prepares Observe. The project is up.
func (d *Cluster) observe() {
	d.view = &outside.View{
		Nodes: d.published,
		HTTP:  d.access.HTTP(d.Dial),
		Token: d.Token,
	}
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
		d.states[c.Service] = statusOf(c)
	}
	ctx, d.unwatch = context.WithCancel(context.WithoutCancel(ctx))
	d.watching.Go(func() {
		err := d.project.Watch(ctx, from, func(e compose.Event) {
			d.happened(e, d.started(ctx, e))
		})
		d.mu.Lock()
		defer d.mu.Unlock()
		d.blind = err
	})
	return nil
}

// started finds a container that was started again, maybe by others: it may have
// other ports, and has another process, whose id is returned.
func (d *Cluster) started(ctx context.Context, e compose.Event) (pid int) {
	if e.Action != "start" || !d.found {
		return 0
	}
	all, _ := d.project.Find(ctx) // without it, the node is unreachable
	if i := slices.IndexFunc(all, func(c compose.Container) bool { return c.Service == e.Service }); i >= 0 {
		return all[i].PID
	}
	return 0
}

// happened updates the status with an event of the engine.
func (d *Cluster) happened(e compose.Event, pid int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.states[e.Service]
	switch e.Action {
	case "start":
		d.states[e.Service] = Status{Running, pid}
	case "pause":
		d.states[e.Service] = Status{Paused, was.PID}
	case "unpause":
		d.states[e.Service] = Status{Running, was.PID}
	case "die":
		d.states[e.Service] = Status{State: ended(e.Code)}
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
	seen := d.view.Observe(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.nodes {
		if d.states[n].up() && d.blind == nil {
			seen.Up = append(seen.Up, n)
		}
	}
	slices.Sort(seen.Up)
	return seen
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
	c, err := outside.NewClient(client.Config{Name: name, Sessions: sessions, Network: d.project.Outside(), Token: d.access.Token, TLSFrom: d.access.TLS}, func() { d.forget(name) })
	if err != nil {
		return nil, err
	}
	d.clients[name] = c
	return c, nil
}

// forget frees the name of a client that has ended.
func (d *Cluster) forget(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.clients, name)
}

// Events reads the nodes' trace files. The times can be compared because the
// containers of one machine have one clock.
func (d *Cluster) Events(report func(at time.Time, c trace.Claim)) (had bool, err error) {
	if d.traces == "" {
		return false, nil
	}
	return outside.Events(d.traces, report)
}

// Close ends the clients and the project.
func (d *Cluster) Close(ctx context.Context) error {
	d.mu.Lock()
	clients := maps.Clone(d.clients)
	d.mu.Unlock()
	for _, c := range clients {
		c.Kill()
	}
	if d.project == nil {
		return nil
	}
	var cut error
	if d.found {
		cut = d.reconnect(context.WithoutCancel(ctx))
	}
	if d.unwatch != nil {
		d.unwatch()
		d.watching.Wait()
	}
	return errors.Join(ctx.Err(), cut, d.blind, d.cfg.End(context.WithoutCancel(ctx)))
}

// reconnect ends the cuts of a project that was up before: the networks from which a
// container is cut off are known here only. Containers that have been removed have none.
func (d *Cluster) reconnect(ctx context.Context) error {
	d.doing.Lock()
	defer d.doing.Unlock()
	if len(d.cables) == 0 {
		return nil
	}
	all, err := d.project.Find(ctx)
	if errors.Is(err, compose.ErrNoContainer) {
		return nil
	}
	errs := []error{err}
	for cut, m := range d.cables {
		if slices.ContainsFunc(all, func(c compose.Container) bool { return c.Service == cut.service }) {
			errs = append(errs, d.project.Join(ctx, m))
		}
	}
	clear(d.cables)
	return errors.Join(errs...)
}
