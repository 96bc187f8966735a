package supervisor

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"conclave/internal/certs"
	"conclave/internal/join"
	"conclave/testbed"
	"conclave/testbed/outside"
)

// Process is the state of one process: a row of ps.
type Process = testbed.Status

// probeClient returns the client for the processes of a cluster, which keeps the last
// certificates that were valid while new ones are being written.
func probeClient(cfg Config) *http.Client {
	dir := cfg.tlsDir(roleClient)
	if c, ok := probeClients.Load(dir); ok {
		return c.(*http.Client)
	}
	var settings func() *tls.Config
	if dir != "" {
		set, err := certs.Load(dir, "", func(error) {})
		if err != nil {
			return outside.HTTP(nil, nil) // nodes that use TLS say so in their answer
		}
		settings = set.Client
	}
	kept, _ := probeClients.LoadOrStore(dir, outside.HTTP(nil, settings))
	return kept.(*http.Client)
}

// probeClients has the probe clients by the folder of their certificates.
var probeClients sync.Map

const probeWait = 500 * time.Millisecond

// look asks all processes for their state at the same time.
func look(ctx context.Context, records []record, cfg Config) []Process {
	via := probeClient(cfg)
	out := join.Map(records, func(r record) Process { return lookAt(ctx, r, via) })
	slices.SortFunc(out, func(a, b Process) int { return compareNames(a.Name, b.Name) })
	return out
}

// row returns the row of a record, without asking the process.
func (r record) row() Process {
	p := Process{Name: r.Name, Role: r.Role, State: r.State, Code: r.Code, Signal: r.Signal, Advertised: r.advertised()}
	if r.Role == roleDB {
		p.SQL = r.Address
	} else {
		p.HTTP = r.Address
	}
	return p
}

func lookAt(ctx context.Context, r record, via *http.Client) Process {
	p := r.row()
	switch {
	case r.State != stateRunning:
		return p
	case !r.alive(): // and the supervisor has not recorded it yet, or there is none
		p.State, p.Why = stateExited, "how is not recorded"
		return p
	}
	p.PID = r.PID
	if r.suspended() {
		p.State = "suspended"
		return p
	}
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	ready := false
	switch r.Role {
	case roleClient:
		ready = true
	case roleDB:
		ready = answersMySQL(ctx, r.Address)
	default:
		c, err := outside.Probe(ctx, via, r.Address)
		ready, p.Incarnation, p.Why = err == nil && c.Ready, c.Incarnation, c.Why
	}
	switch {
	case strings.Contains(p.Why, "draining"):
		p.State = "draining"
	case ready:
		p.State = "ready"
	default:
		p.State = "starting"
	}
	return p
}

// answersMySQL reports whether a server sends a greeting at the address; in the
// MySQL protocol the server sends first.
func answersMySQL(ctx context.Context, address string) bool {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if conn.SetReadDeadline(deadline) != nil {
		return false
	}
	n, _ := conn.Read(make([]byte, 5))
	return n > 0
}

// compareNames sorts data-10 after data-9.
func compareNames(a, b string) int {
	if x, y := strings.TrimRight(a, "0123456789"), strings.TrimRight(b, "0123456789"); x == y && len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
