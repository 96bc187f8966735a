package soak

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/check/blackbox"
	"conclave/testbed/outside"
	"conclave/testbed/scenario"
)

// traffic has registrations in about half of 256 slots, so that work for each slot in
// use (comparisons, hand-overs) takes long enough to coincide with faults, and changes
// each registration about every six seconds.
var traffic = scenario.Load{Clients: 6, Names: 160, Each: 3, Every: 80 * time.Millisecond, Guests: 250 * time.Millisecond, Readers: 2 * time.Second, Patient: true}

// loaded calls do while clients publish and subscribe, once the registrations of those
// that stay are stored.
func (r *runner) loaded(ctx context.Context, do func(context.Context) error) error {
	working, end := context.WithCancel(ctx)
	r.clients = scenario.NewTraffic(traffic, observed{r.cluster, r.oracle}, unrecorded{}, r.cfg.Seed)
	defer r.oracle.KillAll()
	defer r.clients.Wait()
	defer end()
	if err := r.clients.Begin(working); err != nil {
		return err
	}
	staying := traffic.Names * traffic.Each
	missing := r.await(ctx, servedBound, func(context.Context) string {
		if _, acks := r.oracle.Totals(); acks < staying {
			return fmt.Sprintf("%d of %d changes of the load are stored", acks, staying)
		}
		return ""
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if missing != "" {
		return errors.New(missing)
	}
	r.say("ready: %d registrations on %d dataIds, %d subscribers", staying, traffic.Names, traffic.Clients)
	return do(ctx)
}

// observed is a cluster whose clients the oracle observes.
type observed struct {
	testbed.RealCluster
	oracle *blackbox.Oracle
}

// Client implements testbed.Cluster. Guests share a host, and so do readers: there are
// more of them in a run than a cluster has addresses.
func (c observed) Client(name string) (testbed.Client, error) {
	host := name
	if kind, _, _ := strings.Cut(name, "-"); kind == "guest" || kind == check.Reader {
		host = kind
	}
	cfg, err := c.ClientConfig(host)
	if err != nil {
		return nil, err
	}
	cfg.Name = name
	one, err := outside.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	return c.oracle.Observe(name, one), nil
}

// unrecorded drops what the clients do: the oracle has observed it.
type unrecorded struct{}

func (unrecorded) Op(check.Op) {}
