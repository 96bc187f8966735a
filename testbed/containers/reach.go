package containers

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"conclave/client"
	"conclave/meta/metaclient"
	"conclave/testbed"
	"conclave/testbed/outside"
	"conclave/wire"
)

// ports are the roles' HTTP ports inside the containers.
var ports = map[string]string{"meta": "9615", "data": "9622", "session": "9603"}

// Addresses returns the addresses that the nodes advertise, by name. Dial
// reaches them, also after a restart that changed a node's port on this
// machine.
func (d *Cluster) Addresses() map[string]string {
	out := map[string]string{}
	for _, name := range d.nodes {
		role, _, _ := strings.Cut(name, "-")
		out[name] = net.JoinHostPort(name, ports[role])
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
	c := client.Config{Name: name, Network: d.project.Outside(), Token: d.access.Token, TLSFrom: d.access.TLS}
	for _, node := range d.nodes {
		if address, isSession := d.Addresses()[node], strings.HasPrefix(node, "session-"); isSession {
			c.Sessions = append(c.Sessions, address)
		}
	}
	return c, nil
}

// AwaitReady waits until every node is ready.
func (d *Cluster) AwaitReady(ctx context.Context) error {
	return d.project.AwaitReady(ctx, d.access.HTTP(nil), d.nodes...)
}

// Secure returns a transport that uses the cluster's certificates, if it has some. They
// may be known only when the cluster is open.
func (d *Cluster) Secure(t *http.Transport) http.RoundTripper {
	return wire.SecureTransport(t, func() *tls.Config { return d.access.settings() })
}

// Token returns the operator's token.
func (d *Cluster) Token() string { return d.access.Token }

// stopGrace is how long a container may take to stop.
const stopGrace = 20 * time.Second

// Stop announces to every node that the whole cluster is stopping, and stops
// the roles so that each stops before those that it depends on. Processes then
// returns how each has ended.
func (d *Cluster) Stop(ctx context.Context) error {
	var metas, others []string
	for name, address := range d.Addresses() {
		if strings.HasPrefix(name, "meta-") {
			metas = append(metas, address)
		} else {
			others = append(others, address)
		}
	}
	admin := metaclient.NewAdmin(metaclient.AdminConfig{Metas: metas, HTTP: d.view.HTTP, TokenFor: func(string) string { return d.access.Token }})
	admin.AnnounceStop(ctx, others, 4*stopGrace, "testbed") // a node that it does not reach stops as if it stopped alone
	var err error
	for _, role := range []string{"session", "data", "meta", testbed.Database} {
		services := slices.DeleteFunc(append([]string{testbed.Database}, d.nodes...), func(n string) bool { return !strings.HasPrefix(n, role) })
		errs := make([]error, len(services))
		var stopping sync.WaitGroup
		for i, n := range services {
			stopping.Go(func() { errs[i] = d.project.Stop(ctx, n, stopGrace) })
		}
		stopping.Wait()
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
		p := testbed.Process{Name: c.Service, PID: c.PID, Running: c.State == "running" || c.State == "paused", Code: c.ExitCode, RSS: outside.Resident(c.PID), CPU: outside.ProcessorTime(c.PID)}
		if killed := c.ExitCode - 128; !p.Running && killed > 0 { // 128 + the signal that ended it
			p.Code, p.Signal = 0, syscall.Signal(killed).String()
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
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}
