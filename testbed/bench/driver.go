package bench

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"sync"
	"sync/atomic"

	"conclave"
	"conclave/client"
	"conclave/testbed"
	"conclave/wire"
)

// Driver opens connections to a registry under test, so that the same load can
// measure several registries. Its methods may be called from several goroutines.
type Driver interface {
	// Connect opens a connection. It may return before the registry has
	// answered; Link.Subscribe and Registration.Stored wait for that.
	Connect(name string) (Link, error)
	// Received returns the number of bytes that all connections have received.
	Received() int64
	// Lost returns how often a connection has lost its server.
	Lost() int64
}

// Link is one connection of an application to a registry.
type Link interface {
	// Publish adds a registration of one value. It does not wait.
	Publish(ctx context.Context, dataID, value string) (Registration, error)
	// Subscribe calls pushed with each list of values, one call at a time.
	Subscribe(dataID string, pushed func(values []string)) error
	// Close breaks the connection off, as if the application had died. It
	// withdraws nothing.
	Close()
}

// Registration is what a Link has published.
type Registration interface {
	// Update replaces the value. It does not wait.
	Update(value string) error
	// Stored waits until the registry has stored the newest value of the time
	// of the call.
	Stored(ctx context.Context) error
}

// Target is a registry that can be measured.
type Target struct {
	Name string
	// Start starts a new registry, and returns when it is ready.
	Start func(ctx context.Context, size testbed.Size) (Running, error)
}

// Running is a registry that was started for one point of a curve.
type Running struct {
	Driver Driver
	// Cluster is nil for a registry other than Conclave: what only its processes
	// can report is then not measured.
	Cluster testbed.RealCluster
	// Clients returns the command of a process that runs ServeClients with n
	// connections; part numbers the processes. Nil: there are none.
	Clients func(ctx context.Context, part, n int) *exec.Cmd
	// Stop ends the registry at once.
	Stop func() error
}

// SDK is the Driver for Conclave, by its client package. The n-th connection is
// to the n-th session of a cluster, and starts again with the first after the last.
type SDK struct {
	config   client.Config // with all sessions
	from     net.IP        // what the connections dial from; nil: any
	made     atomic.Int64
	received atomic.Int64

	mu      sync.Mutex // guards clients
	clients []*client.Client
}

var _ Driver = (*SDK)(nil)

// NewSDK returns a driver for the sessions of a client's configuration, with its token
// and TLS, whose connections come from the given address (nil: any). An address of
// the loopback network has its own 28,000 ports for each session.
func NewSDK(from net.IP, c client.Config) *SDK { return &SDK{config: c, from: from} }

// Connect starts a client.
func (d *SDK) Connect(name string) (Link, error) {
	if len(d.config.Sessions) == 0 {
		return nil, fmt.Errorf("connect %s: the cluster has no session", name)
	}
	i := int(d.made.Add(1) - 1)
	network := &wire.TCP{} // as that of applications
	if d.from != nil {
		network.LocalAddr = &net.TCPAddr{IP: d.from}
	}
	p, err := runClient(client.Config{
		Name: name, Sessions: []string{d.config.Sessions[i%len(d.config.Sessions)]},
		Network: counted{network, &d.received}, Token: d.config.Token, TLSFrom: d.config.TLSFrom,
	})
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clients = append(d.clients, p.Client)
	return sdkLink{p}, nil
}

// Received returns the number of bytes that all clients have received.
func (d *SDK) Received() int64 { return d.received.Load() }

// Lost returns how often a client has lost its session.
func (d *SDK) Lost() (n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.clients {
		n += c.Lost()
	}
	return n
}

type sdkLink struct{ peer *Peer }

func (l sdkLink) Publish(ctx context.Context, dataID, value string) (Registration, error) {
	p, err := l.peer.Publish(ctx, dataID, []string{value})
	if err != nil {
		return nil, err
	}
	return sdkRegistration{p}, nil
}

func (l sdkLink) Subscribe(dataID string, pushed func([]string)) error {
	_, err := l.peer.Subscribe(dataID, client.OnPush(func(d conclave.Datum) { pushed(d.Values) }))
	return err
}

func (l sdkLink) Close() {
	l.peer.stop()
	l.peer.done.Wait()
}

type sdkRegistration struct{ *client.Publication }

func (r sdkRegistration) Update(value string) error { return r.Publication.Update([]string{value}) }

// counted is a network that counts the bytes received.
type counted struct {
	*wire.TCP
	received *atomic.Int64
}

func (n counted) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := n.TCP.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return countedConn{c, n.received}, nil
}

type countedConn struct {
	net.Conn
	received *atomic.Int64
}

func (c countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received.Add(int64(n))
	return n, err
}
