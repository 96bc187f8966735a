package containers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"conclave/client"
	"conclave/internal/join"
	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/outside"
)

// Attach returns a cluster of the containers of a project that is up. Its size is that
// of the project. Close ends the cuts that were made here, which no other process
// knows, and leaves the project as it is otherwise.
func Attach(ctx context.Context, p *Project, access outside.Access) (*Cluster, error) {
	d := New(Config{End: func(context.Context) error { return nil }})
	d.project, d.Access, d.found = p, access, true
	all, err := p.Find(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if _, isNode := ports[testbed.RoleOf(c.Service)]; isNode {
			d.nodes = append(d.nodes, c.Service)
		}
	}
	if len(d.nodes) == 0 {
		return nil, fmt.Errorf("%w: project %s has no nodes", ErrNoContainer, p.Name())
	}
	d.observe()
	return d, d.watch(ctx)
}

// size returns the scenario's cluster with the size that is possible: that of a
// project that was up before, or the nearest one for which there are services.
func (d *Cluster) size(c testbed.Size) testbed.Size {
	if !d.found {
		return size(c)
	}
	c.Metas, c.Sessions, c.Datas = 0, 0, 0
	for _, n := range d.nodes {
		c.Add(testbed.RoleOf(n))
	}
	return c
}

// States returns the container of each node and of the database, by name, as the engine
// has reported it: its state, process and exit code. The error is not nil if it does not
// report any more.
func (d *Cluster) States() (map[string]Container, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]Container{}
	for _, n := range slices.Concat(d.nodes, []string{testbed.Database}) {
		if s, known := d.states[n]; known {
			out[n] = s
		}
	}
	return out, d.blind
}

// Config describes how the project is started and ended.
type Config struct {
	// Start starts these nodes of the project, with the named compose file
	// added to the project's own. It returns when every node answers.
	Start func(ctx context.Context, c testbed.Size, nodes []string, file string) (*Project, outside.Access, error)
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
	project *Project
	outside.Access
	view *outside.View

	nodes  []string // services
	traces string   // folder of the trace files; "": none is known
	found  bool     // the project was up before: others may start its containers again

	doing    sync.Mutex     // held by Do: one action at a time, apart from an operator's commands
	logged   time.Time      // until when LogFiles has read the logs; only LogFiles uses it
	stopping map[string]int // pids of services that were asked to stop; only with doing held

	watching sync.WaitGroup
	unwatch  context.CancelFunc

	clients outside.Clients

	mu     sync.Mutex           // guards the rest
	states map[string]Container // by service
	killed map[string]time.Time // when each was killed last
	blind  error                // why no more events of the engine arrive
}

var _ testbed.RealCluster = (*Cluster)(nil)

// New returns a cluster for one run.
func New(c Config) *Cluster {
	d := &Cluster{cfg: c, states: map[string]Container{}, killed: map[string]time.Time{}, stopping: map[string]int{}}
	d.clients.Config = d.ClientConfig
	return d
}

// Open starts the project.
func (d *Cluster) Open(ctx context.Context, c testbed.Size, _ *trace.Gate) error {
	if has := size(c); c.Metas != has.Metas || c.Sessions != has.Sessions || c.Datas != has.Datas {
		return fmt.Errorf("a cluster of %d metas, %d sessions and %d data nodes: %w", c.Metas, c.Sessions, c.Datas, testbed.ErrUnsupported)
	}
	d.nodes = c.Nodes()
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
	if d.project, d.Access, err = d.cfg.Start(ctx, c, d.nodes, file); err != nil {
		return err
	}
	d.observe()
	return d.watch(ctx)
}

// observe prepares Observe. The project is up.
func (d *Cluster) observe() {
	d.view = &outside.View{
		Nodes: d.published,
		HTTP:  d.HTTP(d.Dial),
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
		d.states[c.Service] = c
	}
	ctx, d.unwatch = context.WithCancel(context.WithoutCancel(ctx))
	d.watching.Go(func() {
		err := d.project.Watch(ctx, from, func(e Event) {
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
func (d *Cluster) started(ctx context.Context, e Event) (pid int) {
	if e.Action != "start" || !d.found {
		return 0
	}
	all, _ := d.project.Find(ctx) // without it, the node is unreachable
	if i := slices.IndexFunc(all, func(c Container) bool { return c.Service == e.Service }); i >= 0 {
		return all[i].PID
	}
	return 0
}

// happened updates the status with an event of the engine.
func (d *Cluster) happened(e Event, pid int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.states[e.Service]
	switch e.Action {
	case "start":
		c.State, c.PID = "running", pid
	case "pause":
		c.State = "paused"
	case "unpause":
		c.State = "running"
	case "die":
		c.State, c.PID, c.ExitCode = "exited", 0, e.Code
	case "kill":
		if e.Signal == syscall.SIGKILL {
			d.killed[e.Service] = e.At
		}
	}
	d.states[e.Service] = c
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
		if d.states[n].Up() && d.blind == nil {
			seen.Up = append(seen.Up, n)
		}
	}
	slices.Sort(seen.Up)
	return seen
}

// Client starts a client on this machine.
func (d *Cluster) Client(name string) (testbed.Client, error) { return d.clients.Start(name, 0) }

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
	d.clients.Kill(d.clients.Names()...)
	if d.project == nil {
		return nil
	}
	var cut error
	if d.found {
		d.doing.Lock()
		cut = d.project.Reconnect(context.WithoutCancel(ctx))
		d.doing.Unlock()
	}
	if d.unwatch != nil {
		d.unwatch()
		d.watching.Wait()
	}
	return errors.Join(ctx.Err(), cut, d.blind, d.cfg.End(context.WithoutCancel(ctx)))
}

// ports are the roles' HTTP ports inside the containers.
var ports = map[string]string{"meta": "9615", "data": "9622", "session": "9603"}

// Addresses returns the addresses that the nodes advertise, by name. Dial
// reaches them, also after a restart that changed a node's port on this
// machine.
func (d *Cluster) Addresses() map[string]string {
	out := map[string]string{}
	for _, name := range d.nodes {
		out[name] = net.JoinHostPort(name, ports[testbed.RoleOf(name)])
	}
	return out
}

// Dial connects to one of Addresses from this machine.
func (d *Cluster) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return d.project.Outside().DialContext(ctx, network, address)
}

// ClientConfig returns the configuration of a client on this machine that knows
// every session.
func (d *Cluster) ClientConfig(name string) (client.Config, error) {
	c := client.Config{Name: name, Network: d.project.Outside(), Token: d.Operator, TLSFrom: d.TLS}
	addresses := d.Addresses()
	for _, node := range d.nodes {
		if strings.HasPrefix(node, "session-") {
			c.Sessions = append(c.Sessions, addresses[node])
		}
	}
	return c, nil
}

// AwaitReady waits until every node is ready.
func (d *Cluster) AwaitReady(ctx context.Context) error {
	return d.project.AwaitReady(ctx, d.HTTP(nil), d.nodes...)
}

// stopGrace is how long a container may take to stop.
const stopGrace = 20 * time.Second

// Stop announces to every node that the whole cluster is stopping, and stops
// the roles so that each stops before those that it depends on. Processes then
// returns how each has ended.
func (d *Cluster) Stop(ctx context.Context) error {
	d.view.AnnounceStop(ctx, d.Addresses(), 4*stopGrace, "testbed")
	var err error
	for _, role := range []string{"session", "data", "meta", testbed.Database} {
		services := slices.DeleteFunc(append([]string{testbed.Database}, d.nodes...), func(n string) bool { return !strings.HasPrefix(n, role) })
		errs := join.Map(services, func(n string) error { return d.project.Stop(ctx, n, stopGrace) })
		err = errors.Join(append(errs, err)...)
	}
	return err
}

// preparations are the services that prepare what the others need before they start,
// and end then.
var preparations = []string{"secrets", "migrate"}

// Processes returns what the engine reports. Memory is only known if the
// engine's processes run on this machine.
func (d *Cluster) Processes(ctx context.Context) ([]testbed.Process, error) {
	all, err := d.project.Containers(ctx)
	var out []testbed.Process
	for _, c := range all {
		if slices.Contains(preparations, c.Service) {
			continue
		}
		p := testbed.Process{Name: c.Service, PID: c.PID, Running: c.Up(), Code: c.ExitCode, RSS: outside.Resident(c.PID), CPU: outside.ProcessorTime(c.PID)}
		if c.Killed() {
			p.Code, p.Signal = 0, syscall.Signal(c.ExitCode-128).String()
		}
		out = append(out, p)
	}
	return out, err
}

// LogFiles copies what the containers have written since the last call.
func (d *Cluster) LogFiles(ctx context.Context) (map[string]string, error) {
	from := d.logged
	d.logged = time.Now()
	files := map[string]string{}
	for name := range d.Addresses() {
		text, err := d.project.Logs(ctx, name, from)
		if err != nil {
			return nil, err
		}
		files[name] = filepath.Join(d.cfg.Logs, name+".soak.log")
		f, err := os.OpenFile(files[name], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, err
		}
		_, err = f.WriteString(text)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
	return files, nil
}
