package processes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave/chaos"
	"conclave/chaos/outside"
	"conclave/internal/faultnet"
	"conclave/internal/supervisor"
	"conclave/internal/trace"
)

// Config says where the programs are.
type Config struct {
	Bin    string // the folder of meta, session, data and devdb
	Dir    string // the cluster's folder, made when it is missing; logs stay in it
	Logger hclog.Logger
	// NoClaims leaves out what the nodes write about themselves: in a long run these
	// files grow without end.
	NoClaims bool
}

// Driver is a chaos.Driver over processes of this machine.
type Driver struct {
	cfg     Config
	net     *faultnet.Net // nil on a cluster that runs already
	view    *outside.View
	cluster *supervisor.Cluster
	nodes   *supervisor.Handle
	ended   chan error

	wrong    map[string]*twin // processes that were started at a wrong address; Do's and Close's alone
	stopping map[string]int   // pids of lives that were told to stop; Do's alone
	stopped  bool             // the cluster was ended; that of Stop and Close alone

	mu      sync.Mutex        // guards the rest
	told    map[string]string // where each host is found, by name
	clients map[string]*outside.Client
	twins   []*twin
}

var _ chaos.Driver = (*Driver)(nil)

// New makes a driver for one run.
func New(c Config) *Driver {
	return &Driver{cfg: c, net: faultnet.New(), told: map[string]string{}, clients: map[string]*outside.Client{}, ended: make(chan error, 1), stopping: map[string]int{}, wrong: map[string]*twin{}}
}

// Attach makes a driver for a cluster that runs already. It starts and ends none
// but what the scenario says, and cannot break the network: there is none of ours
// between the processes.
func Attach(nodes *supervisor.Handle, dir string) (*Driver, error) {
	if !nodes.Running() {
		return nil, fmt.Errorf("%w: in %s", supervisor.ErrNone, nodes.Dir())
	}
	d := New(Config{Dir: dir})
	d.net, d.nodes = nil, nodes
	rows, err := nodes.Rows()
	for _, r := range rows {
		if r.HTTP != "" {
			d.told[r.Name] = r.HTTP
		}
	}
	return d, err
}

// Size is the scenario's cluster with the size of the one that runs.
func (d *Driver) Size(c chaos.Cluster) chaos.Cluster {
	c.Metas, c.Sessions, c.Datas = 0, 0, 0
	for name := range d.told {
		switch role, _, _ := strings.Cut(name, "-"); role {
		case "meta":
			c.Metas++
		case "session":
			c.Sessions++
		case "data":
			c.Datas++
		}
	}
	return c
}

// Open starts the processes, unless they run already.
func (d *Driver) Open(_ context.Context, c chaos.Cluster, _ *trace.Gate) error {
	d.view = &outside.View{Nodes: d.listening, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	if d.nodes != nil {
		d.view.Token = d.nodes.Token()
		return nil
	}
	cfg := supervisor.DefaultConfig()
	cfg.Dir, cfg.Bin, cfg.AnyPorts, cfg.Logger = filepath.Join(d.cfg.Dir, "cluster"), d.cfg.Bin, true, d.cfg.Logger
	cfg.Slots, cfg.Replicas, cfg.Takeover, cfg.Lease, cfg.NodeLease = c.Slots, c.Replicas, c.Takeover, c.Lease, c.Lease
	for _, n := range []struct {
		want int
		have *int
	}{{c.Metas, &cfg.Metas}, {c.Sessions, &cfg.Sessions}, {c.Datas, &cfg.Datas}} {
		if n.want > 0 {
			*n.have = n.want
		}
	}
	if cfg.Detour = d.detour; !d.cfg.NoClaims {
		cfg.Trace = d.cfg.Dir
	}
	var err error
	if d.cluster, err = supervisor.New(cfg); err != nil {
		return err
	}
	d.nodes = d.cluster.Handle()
	go func() { d.ended <- d.cluster.Run(context.Background()) }() // it ends by Close
	<-d.cluster.Started()
	return nil
}

// detour puts a proxy before every process.
func (d *Driver) detour(name, listens string) (told, from string, err error) {
	ip, err := d.net.Join(name)
	if err != nil {
		return "", "", err
	}
	told, err = d.net.Listen(name, listens, name != chaos.Database) // a database counts handshakes that come to nothing
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told[name] = told
	return told, ip.String(), err
}

// listening are the nodes' own addresses: who looks from outside must not depend
// on the network that is being broken.
func (d *Driver) listening() map[string]string {
	out := map[string]string{}
	rows, err := d.nodes.Rows()
	for _, r := range rows {
		if err == nil && r.HTTP != "" {
			out[r.Name] = r.HTTP
		}
	}
	return out
}

// Partial asks the data nodes for slots that are served without a session.
func (d *Driver) Partial(ctx context.Context) int { return d.view.Partial(ctx) }

// Look asks the nodes.
func (d *Driver) Look(ctx context.Context) chaos.Sight {
	s := d.view.Look(ctx)
	rows, err := d.nodes.Rows()
	for _, r := range rows {
		if err == nil && r.PID > 0 && r.Name != chaos.Database {
			s.Up = append(s.Up, r.Name)
		}
	}
	slices.Sort(s.Up)
	return s
}

// Client starts a client whose connections go through the proxies.
func (d *Driver) Client(name string) (chaos.Client, error) {
	cfg, err := d.ClientConfig(name)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.clients[name] != nil {
		return nil, fmt.Errorf("there is a client %s already", name)
	}
	c, err := outside.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	d.clients[name] = c
	return c, nil
}

// Claims is false: nodes are other processes, and cannot be held at what they say.
func (d *Driver) Claims() bool { return false }

// Told reads what the processes have written down. One machine, one clock: the
// moments can be compared.
func (d *Driver) Told(told func(at time.Time, c trace.Claim)) (had bool, err error) {
	if d.cluster == nil {
		return false, nil
	}
	return outside.Claims(d.cfg.Dir, told)
}

// Close ends clients, processes and proxies. After Stop it ends what is left.
func (d *Driver) Close(ctx context.Context) error {
	d.mu.Lock()
	clients, twins := d.clients, d.twins
	d.mu.Unlock()
	for _, c := range clients {
		c.Kill()
	}
	for _, t := range twins {
		t.kill()
	}
	for _, t := range d.wrong {
		t.kill()
	}
	err := d.end(ctx, true)
	if d.net != nil {
		d.net.Close()
	}
	return err
}

// end stops the cluster that this driver has started, once.
func (d *Driver) end(ctx context.Context, now bool) error {
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
