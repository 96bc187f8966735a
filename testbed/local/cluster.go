package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"conclave/client"
	"conclave/internal/faultnet"
	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/local/supervisor"
	"conclave/testbed/outside"
	"conclave/wire"
)

// Config describes where the programs and the files are.
type Config struct {
	Bin string // the folder with the programs meta, session, data and devdb
	Dir string // the cluster's folder, created if it is missing; the logs stay in it
	// NoEvents turns off the nodes' trace files, which grow without limit in a
	// long run.
	NoEvents bool
	// Direct leaves the proxies out, so that the processes run as users run
	// them, and Dir is the folder that the supervisor uses. The network cannot
	// be broken then.
	Direct bool
	// OwnTokens makes the cluster have tokens of its own.
	OwnTokens bool
	// TLS makes it use TLS.
	TLS bool
	// Settings, if set, changes the supervisor's configuration before it is used.
	Settings func(*supervisor.Config)
}

// Cluster is a testbed.Cluster of processes of this machine.
type Cluster struct {
	cfg     Config
	net     *faultnet.Net // nil if the cluster was running already, or Direct
	view    *outside.View
	cluster *supervisor.Cluster
	nodes   *supervisor.Handle
	ended   chan error
	outside.Access

	doing    sync.Mutex                      // held by Do: one action at a time, apart from an operator's commands
	stopping map[string]supervisor.ProcessID // nodes that were asked to stop; only Do uses it
	stopped  bool                            // the cluster was stopped; only Stop and Close use it

	clients outside.Clients

	mu         sync.Mutex        // guards the rest
	advertised map[string]string // each host's address, by name
	twins      []*exec.Cmd       // second processes with a node's name: each is expected to exit soon; Close kills it otherwise
}

var _ testbed.RealCluster = (*Cluster)(nil)

// New returns a cluster for one run.
func New(c Config) *Cluster {
	d := &Cluster{cfg: c, advertised: map[string]string{}, ended: make(chan error, 1), stopping: map[string]supervisor.ProcessID{}}
	d.clients.Config = d.ClientConfig
	if !c.Direct {
		d.net = faultnet.New()
		d.clients.Closed = d.net.Leave
	}
	return d
}

// Attach returns a cluster that is running already. It starts and
// stops only what the scenario says, and cannot break the network, because
// there are no proxies between the processes.
func Attach(nodes *supervisor.Handle, dir string) (*Cluster, error) {
	if !nodes.Running() {
		return nil, fmt.Errorf("%w: in %s", supervisor.ErrNone, nodes.Dir())
	}
	d := New(Config{Dir: dir, Direct: true})
	if folder := nodes.TLSDir(); folder != "" {
		var err error
		if d.TLS, err = client.TLSFolder(folder, nil); err != nil {
			return nil, err
		}
	}
	d.nodes, d.advertised = nodes, listening(nodes)
	return d, nil
}

// size returns the scenario's cluster with the size of the running one.
func (d *Cluster) size(c testbed.Size) testbed.Size {
	c.Metas, c.Sessions, c.Datas = 0, 0, 0
	for name := range d.advertised {
		c.Add(testbed.RoleOf(name))
	}
	return c
}

// Open starts the processes, unless they are running already.
func (d *Cluster) Open(_ context.Context, c testbed.Size, _ *trace.Gate) error {
	d.view = &outside.View{Nodes: d.Addresses, HTTP: d.HTTP(nil), Token: d.Token}
	if d.nodes != nil {
		d.Operator = d.nodes.Token()
		return nil
	}
	cfg := supervisor.DefaultConfig()
	cfg.Dir, cfg.Bin, cfg.AnyPorts = d.cfg.Dir, d.cfg.Bin, true
	cfg.OwnTokens, cfg.TLS = d.cfg.OwnTokens, d.cfg.TLS
	cfg.Slots, cfg.Replicas, cfg.Takeover, cfg.Lease, cfg.NodeLease = c.Slots, c.Replicas, c.Takeover, c.Lease, c.Lease
	cfg.Metas, cfg.Sessions, cfg.Datas = cmp.Or(c.Metas, cfg.Metas), cmp.Or(c.Sessions, cfg.Sessions), cmp.Or(c.Datas, cfg.Datas)
	if !d.cfg.Direct {
		cfg.Dir, cfg.Detour = filepath.Join(d.cfg.Dir, "cluster"), d.detour
	}
	if !d.cfg.NoEvents {
		cfg.Trace = d.cfg.Dir
	}
	if d.cfg.Settings != nil {
		d.cfg.Settings(&cfg)
	}
	var err error
	if d.cluster, err = supervisor.New(cfg); err != nil {
		return err
	}
	d.nodes = d.cluster.Handle()
	d.Operator = d.nodes.Token()
	if d.cfg.TLS { // issued by New
		if d.TLS, err = client.TLSFolder(d.nodes.TLSDir(), nil); err != nil {
			return err
		}
	}
	go func() { d.ended <- d.cluster.Run(context.Background()) }() //nolint:gosec // Close ends it
	<-d.cluster.Started()
	if d.cfg.Direct {
		d.advertised = listening(d.nodes)
	}
	return nil
}

// detour puts a proxy in front of a process. It returns the address to
// advertise and the address from which the process is to dial.
func (d *Cluster) detour(name, listens string) (advertised, from string, err error) {
	ip, err := d.net.Join(name)
	if err != nil {
		return "", "", err
	}
	advertised, err = d.net.Listen(name, listens, name != testbed.Database) // except for the database, which counts failed handshakes
	d.mu.Lock()
	defer d.mu.Unlock()
	d.advertised[name] = advertised
	return advertised, ip.String(), err
}

// listening returns the nodes' own addresses. What is observed from outside
// must not depend on the network that is being broken.
func listening(nodes *supervisor.Handle) map[string]string {
	out := map[string]string{}
	rows, err := nodes.Rows()
	for _, r := range rows {
		if err == nil && r.HTTP != "" {
			out[r.Name] = r.HTTP
		}
	}
	return out
}

// Observe observes the nodes from outside.
func (d *Cluster) Observe(ctx context.Context) testbed.Snapshot {
	s := d.view.Observe(ctx)
	rows, err := d.nodes.Rows()
	for _, r := range rows {
		if err == nil && r.PID > 0 && r.Name != testbed.Database {
			s.Up = append(s.Up, r.Name)
		}
	}
	slices.Sort(s.Up)
	return s
}

// Client starts a client whose connections go through the proxies.
func (d *Cluster) Client(name string) (testbed.Client, error) { return d.clients.Start(name, 0) }

// ClientConfig returns the configuration of a client on the named host. The
// client knows every session, and its connections go through the proxies.
func (d *Cluster) ClientConfig(host string) (client.Config, error) {
	network := wire.NewTCP()
	if d.net != nil {
		ip, err := d.net.Join(host)
		if err != nil {
			return client.Config{}, err
		}
		network.LocalAddr = &net.TCPAddr{IP: ip}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var sessions []string
	for name, address := range d.advertised {
		if strings.HasPrefix(name, "session-") {
			sessions = append(sessions, address)
		}
	}
	slices.Sort(sessions)
	return client.Config{Name: host, Sessions: sessions, Network: network, Token: d.Token(), TLSFrom: d.TLS}, nil
}

// Events reads the nodes' trace files. The times can be compared because all
// processes use this machine's clock.
func (d *Cluster) Events(report func(at time.Time, c trace.Claim)) (had bool, err error) {
	if d.cluster == nil {
		return false, nil
	}
	return outside.Events(d.cfg.Dir, report)
}

// Close ends clients, processes and proxies. It may follow Stop.
func (d *Cluster) Close(ctx context.Context) error {
	d.mu.Lock()
	twins := d.twins
	d.mu.Unlock()
	d.clients.Kill(d.clients.Names()...)
	for _, t := range twins {
		_ = t.Process.Kill() // it may have ended already
		_ = t.Wait()         // its log has the reason
	}
	err := d.end(ctx, true)
	if d.net != nil {
		d.net.Close()
	}
	return err
}

// end stops the cluster that this Cluster has started, once. now: without
// waiting for the nodes' graceful stop.
func (d *Cluster) end(ctx context.Context, now bool) error {
	if d.cluster == nil || d.stopped {
		return nil
	}
	d.stopped = true
	d.cluster.Stop(now)
	select {
	case err := <-d.ended:
		return err
	case <-ctx.Done():
		d.cluster.Stop(true)
		return errors.Join(ctx.Err(), <-d.ended)
	}
}

// Addresses returns the nodes' own HTTP addresses by name. Faults of the
// network do not affect them.
func (d *Cluster) Addresses() map[string]string { return listening(d.nodes) }

// Dial connects to one of Addresses.
func (d *Cluster) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// AwaitReady waits until every process is ready.
func (d *Cluster) AwaitReady(ctx context.Context) error { return d.nodes.AwaitReady(ctx) }

// Supervisor returns the handle of the processes.
func (d *Cluster) Supervisor() *supervisor.Handle { return d.nodes }

// Processes returns what the supervisor has recorded.
func (d *Cluster) Processes(context.Context) ([]testbed.Process, error) {
	rows, err := d.nodes.Rows()
	var out []testbed.Process
	for _, p := range rows {
		out = append(out, testbed.Process{Name: p.Name, PID: p.PID, Running: p.PID > 0, Code: p.Code, Signal: p.Signal, RSS: outside.Resident(p.PID), CPU: outside.ProcessorTime(p.PID)})
	}
	return out, err
}

// LogFiles returns the paths of the processes' logs.
func (d *Cluster) LogFiles(context.Context) (map[string]string, error) {
	rows, err := d.nodes.Rows()
	files := map[string]string{}
	for _, p := range rows {
		files[p.Name] = supervisor.LogPath(d.nodes.Dir(), p.Name)
	}
	return files, err
}

// Stop ends the cluster gracefully. Close must still follow.
func (d *Cluster) Stop(ctx context.Context) error { return d.end(ctx, false) }
