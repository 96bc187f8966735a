package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"conclave/testbed"
	"conclave/testbed/console"
	"conclave/testbed/console/live"
	"conclave/testbed/containers"
	"conclave/testbed/containers/compose"
	"conclave/testbed/local/supervisor"
	"conclave/wire/rights"
)

// composeProject is a project that is up.
type composeProject struct{ name, dir string }

// bind adds the flags that name it.
func (p *composeProject) bind(f *pflag.FlagSet) {
	f.StringVar(&p.name, "project", cmp.Or(os.Getenv("COMPOSE_PROJECT_NAME"), "conclave"), "with --on compose: name of the project, which is up")
	f.StringVar(&p.dir, "compose-dir", ".", "with --on compose: folder of docker-compose.yml, whose secrets are used")
}

// containersSource returns the source for a project of containers, and what ends it.
func (a *app) containersSource(ctx context.Context, of composeProject, act bool) (_ console.Source, end func() error, err error) {
	cluster, settings, err := of.attach(ctx)
	if err != nil {
		return nil, nil, err
	}
	own := slices.Collect(maps.Values(cluster.Addresses()))
	web := &http.Client{Transport: cluster.Secure(&http.Transport{DialContext: cluster.Dial, ResponseHeaderTimeout: 10 * time.Second})}
	cfg := live.Config{
		Title: "the containers of " + of.name, Settings: settings, HTTP: web,
		TokenFor:  func(address string) string { return rights.TokenFor(cluster.Token(), address, own) },
		Processes: live.Known(func() []supervisor.Process { return containerRows(cluster) }, web),
	}
	if act {
		cfg.Cluster = cluster
	}
	return live.New(cfg), func() error {
		web.CloseIdleConnections()
		return cluster.Close(context.WithoutCancel(ctx))
	}, nil
}

// attach returns the cluster, and the settings with which its metas were started.
func (p composeProject) attach(ctx context.Context) (_ *containers.Cluster, s live.Settings, err error) {
	project, err := compose.New(compose.Config{Name: p.name, Dir: p.dir})
	if err != nil {
		return nil, s, usageError{fmt.Errorf("--project: %w", err)}
	}
	if err := compose.Available(ctx); err != nil {
		return nil, s, err
	}
	meta, err := project.Container(ctx, "meta-1")
	if errors.Is(err, compose.ErrNoContainer) {
		return nil, s, fmt.Errorf("%w: start one with `make compose-up`, or choose another --project", err)
	}
	if err != nil {
		return nil, s, err
	}
	s.Takeover = meta.Env["CONCLAVE_META_TAKEOVER"]
	s.Lease, _ = time.ParseDuration(meta.Env["CONCLAVE_META_LEASE"]) // "": the default
	s.NodeLease, _ = time.ParseDuration(meta.Env["CONCLAVE_META_NODE_LEASE"])
	access, err := composeAccess(p.dir, meta.Env["CONCLAVE_META_TLS_DIR"] != "")
	if err != nil {
		return nil, s, err
	}
	cluster, err := containers.Attach(ctx, project, access)
	return cluster, s, err
}

// containerRows returns the rows of the nodes and of the database. Those that run have
// no state yet.
func containerRows(cluster *containers.Cluster) []supervisor.Process {
	states, unknown := cluster.States()
	addresses := cluster.Addresses()
	out := make([]supervisor.Process, 0, len(states))
	for _, name := range slices.Sorted(maps.Keys(states)) {
		p := supervisor.Process{Name: name, Role: testbed.RoleOf(name), PID: states[name].PID, HTTP: addresses[name]}
		switch c := states[name]; {
		case unknown != nil && name != testbed.Database: // what it answers is all that is known
		case c.State == "paused":
			p.State = "suspended"
		case !c.Up():
			p.State = either(c.Killed(), "killed", "exited")
		case name == testbed.Database:
			p.State = "ready"
		}
		out = append(out, p)
	}
	return out
}
