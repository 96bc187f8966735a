package conclavetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/client"
	"conclave/internal/inprocess"
	"conclave/testbed"
	"conclave/testbed/outside"
)

// limit is how long a step may take before the test fails: far longer than any does.
const limit = 30 * time.Second

// Option changes the cluster that Start makes.
type Option func(*options)

type options struct {
	config inprocess.Config
	log    hclog.Logger // nil discards the lines
}

// Size sets how many nodes of each role the cluster has, 1 to 99. The default is two
// metas, one data node and two sessions: another meta can lead, and clients have another
// session.
func Size(metas, datas, sessions int) Option {
	return func(o *options) { o.config.Metas, o.config.Datas, o.config.Sessions = metas, datas, sessions }
}

// Logged writes the log lines of the nodes to the output of the test.
func Logged(t testing.TB) Option {
	return func(o *options) {
		o.log = hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: t.Output(), TimeFormat: "05.000"})
	}
}

// Cluster is a registry. Its methods are called from the goroutine of the test, because
// they end it if they fail; they do when the test that has started the cluster has ended.
type Cluster struct {
	nodes *inprocess.Cluster
	log   hclog.Logger
	owner string // the test with which it ends
}

// Start returns a cluster that is ready. It ends with the cleanup of the test.
func Start(t testing.TB, how ...Option) *Cluster {
	t.Helper()
	o := options{config: inprocess.Config{Metas: 2, Datas: 1, Sessions: 2}}
	for _, change := range how {
		change(&o)
	}
	nodes, err := inprocess.New(o.config)
	if err != nil {
		t.Fatalf("conclavetest: %v", err)
	}
	t.Cleanup(nodes.Close)
	c := &Cluster{nodes: nodes, log: o.log, owner: t.Name()}
	c.Restart(t)
	return c
}

// Addresses returns the addresses of the sessions, for client.Config.Sessions.
func (c *Cluster) Addresses() []string { return c.nodes.Addresses(conclave.RoleSession) }

// Client returns a client that runs. With the cleanup of the test it withdraws what it has
// published. set, if given, changes its configuration.
func (c *Cluster) Client(t testing.TB, set ...func(*client.Config)) *client.Client {
	t.Helper()
	c.mustRun(t)
	config := client.Config{Sessions: c.Addresses(), Name: t.Name()}
	for _, f := range set {
		f(&config)
	}
	out, err := client.New(config)
	if err != nil {
		t.Fatalf("conclavetest: %v", err)
	}
	out.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if len(c.running(conclave.RoleSession)) == 0 {
			cancel() // there is nothing that it could say good-bye to
		}
		_ = out.Close(ctx) // an error is of the faults
	})
	return out
}

// Publish publishes values in the name of another program, and returns when the data
// nodes have them. withdraw withdraws them, and returns when the data nodes have that.
func (c *Cluster) Publish(t testing.TB, dataID string, values ...string) (withdraw func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	p, err := c.Client(t).Publish(ctx, dataID, values)
	stored := func(verb string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err == nil {
			err = p.Stored(ctx)
		}
		if err != nil {
			t.Fatalf("conclavetest: %s %s: %v", verb, dataID, err)
		}
	}
	stored("publish")
	return func() {
		t.Helper()
		err = p.Withdraw()
		stored("withdraw")
	}
}

// SessionOf returns the address of the session at which a client is registered.
func (c *Cluster) SessionOf(t testing.TB, of *client.Client) (address string) {
	t.Helper()
	c.await(t, fmt.Sprintf("the client %s has no session", of.Name()), func() bool {
		for _, s := range of.Connected() {
			address = c.nodes.Address(s.Name)
		}
		return address != ""
	})
	return address
}

// KillLeader kills the meta that leads, as kill -9 does, and returns when another one
// leads. It is down until Restart. If there is no other meta that runs, there is no leader
// until then, and the next one waits for the lease of the dead one, 3 s.
func (c *Cluster) KillLeader(t testing.TB) {
	t.Helper()
	c.mustRun(t)
	var name string
	var term uint64
	c.await(t, "there is no leader to kill", func() bool {
		name, term = c.nodes.Leader()
		return name != ""
	})
	c.nodes.Process(name).Kill()
	if len(c.running(conclave.RoleMeta)) == 0 {
		return
	}
	c.await(t, "no other meta has become the leader", func() bool {
		_, next := c.nodes.Leader()
		return next > term
	})
}

// KillSession kills the session at one of Addresses, as kill -9 does: its clients go to
// another one. It is down until Restart.
func (c *Cluster) KillSession(t testing.TB, address string) {
	t.Helper()
	c.mustRun(t)
	i := slices.IndexFunc(c.nodes.Names(), func(name string) bool {
		return testbed.RoleOf(name) == "session" && c.nodes.Address(name) == address
	})
	if i < 0 {
		t.Fatalf("conclavetest: no session has the address %q: want one of %v", address, c.Addresses())
	}
	c.nodes.Process(c.nodes.Names()[i]).Kill()
}

// Away calls during while nothing of the registry runs, its database included, and returns
// when all is ready again, at the same addresses. Clients then register again, and for the
// next 15 s subscribers are not pushed that a list is empty, or has lost more than half of
// its values: their publishers may be about to return.
func (c *Cluster) Away(t testing.TB, during func()) {
	t.Helper()
	c.mustRun(t)
	for _, p := range append(c.running(conclave.RoleSession), c.running(conclave.RoleData)...) {
		p.Kill()
	}
	for _, p := range c.running(conclave.RoleMeta) {
		p.Stop(nil) // a leader that resigns leaves no lease to wait for
		<-p.Done()
		p.Kill()
	}
	c.nodes.Process(testbed.Database).Kill()
	during()
	c.Restart(t)
}

// Restart starts every node that is down, and returns when all are ready and one leads.
func (c *Cluster) Restart(t testing.TB) {
	t.Helper()
	c.mustRun(t)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for _, name := range c.nodes.Names() { // the database, metas, data nodes, sessions
		if testbed.RoleOf(name) == string(conclave.RoleData) {
			if err := c.nodes.AwaitLeader(ctx); err != nil {
				t.Fatalf("conclavetest: no meta has become the leader: %v", err)
			}
		}
		if p := c.nodes.Process(name); p != nil && p.Running() {
			continue
		}
		var log hclog.Logger
		if c.log != nil {
			log = c.log.Named(name)
		}
		if _, err := c.nodes.Start(name, log); err != nil {
			t.Fatalf("conclavetest: %v", err)
		}
	}
	if err := c.nodes.AwaitReady(ctx); err != nil {
		t.Fatalf("conclavetest: %v", err)
	}
}

// mustRun fails the test if the cluster has ended, because another test has started it.
func (c *Cluster) mustRun(t testing.TB) {
	t.Helper()
	if c.nodes.Closed() {
		t.Fatalf("conclavetest: the cluster has ended with %s, which has started it", c.owner)
	}
}

// running returns the nodes of a role that run.
func (c *Cluster) running(role conclave.Role) (out []*inprocess.Process) {
	for _, name := range c.nodes.Names() {
		if p := c.nodes.Process(name); testbed.RoleOf(name) == string(role) && p.Running() {
			out = append(out, p)
		}
	}
	return out
}

// await waits until done reports true, and fails the test if it never does.
func (c *Cluster) await(t testing.TB, otherwise string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := outside.Until(ctx, 2*time.Millisecond, func() (bool, error) { return done(), nil }); err != nil {
		t.Fatalf("conclavetest: %s", otherwise)
	}
}
