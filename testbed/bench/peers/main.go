package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"conclave"
	"conclave/client"
	"conclave/internal/sleep"
	"conclave/meta/metaclient"
	"conclave/testbed/bench"
	"conclave/testbed/load"
	"conclave/testbed/outside"
)

// kind is how a registry differs from the others.
type kind struct {
	durability string // of a registration that is stored
	start      func(client.Config) (load.Client, error)
	// about returns the servers' version and the leader's address. It fails if one of the
	// servers does not answer.
	about func(context.Context, bench.Registry) (version, leader string, err error)
}

var kinds = map[string]kind{
	"conclave":  {"in memory, decisions in its database", startConclave, aboutConclave},
	"etcd":      {"on disk", startEtcd, aboutEtcd},
	"zookeeper": {"on disk", startZooKeeper, aboutZooKeeper},
	"nacos":     {"in memory", startNacos, aboutNacos},
}

// sdk is a client of Conclave whose callbacks have the change, as a watch of etcd has.
type sdk struct{ *outside.Client }

func startConclave(c client.Config) (load.Client, error) {
	started, err := outside.NewClient(c)
	return sdk{started}, err
}

func (c sdk) Subscribe(dataID string, changed func(conclave.Datum)) error {
	_, err := c.Client.Client.Subscribe(dataID, client.OnChange(func(c client.Change) {
		changed(conclave.Datum{Data: c.Data, Version: c.Version, Values: c.Added})
	}))
	return err
}

func aboutConclave(ctx context.Context, r bench.Registry) (version, leader string, err error) {
	token := func(string) string { return r.Token }
	found, err := metaclient.NewAdmin(metaclient.AdminConfig{Metas: r.Metas, TokenFor: token}).Leader(ctx)
	return "", found.Address, err
}

func main() {
	var c bench.Comparison
	var answer bench.Compared
	err := json.NewDecoder(os.Stdin).Decode(&c)
	if err == nil {
		answer.Figures, err = compare(context.Background(), c)
	}
	if err != nil {
		answer.Error = err.Error()
	}
	_ = json.NewEncoder(os.Stdout).Encode(answer) // bench reports an answer that is missing
}

// peer is a registry that is measured.
type peer struct {
	bench.Registry
	kind
}

// compare takes a measurement of all registries in turns, so that other work on the
// machine disturbs all of them. A registry that has failed is left out of the rest.
func compare(ctx context.Context, c bench.Comparison) (figures []bench.Figure, err error) {
	take, there := rows(c)[c.Name]
	if !there {
		return nil, fmt.Errorf("peers has no measurement %s: build it again", c.Name)
	}
	var peers []peer
	for _, r := range c.Registries {
		p := peer{r, kinds[r.Name]}
		version, _, e := p.settled(ctx)
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		p.durability = fmt.Sprintf("%s (%s)", strings.TrimSpace(p.Name+" "+version), p.durability)
		peers = append(peers, p)
	}
	if len(peers) < 2 {
		return nil, cmp.Or(err, errors.New("there is nothing to compare with"))
	}
	took, mu := map[bench.Figure]*load.Dist{}, sync.Mutex{} // by the figure without values
	failed := map[string]bool{}
	add := func(name, what, unit string, v float64) {
		mu.Lock()
		defer mu.Unlock()
		f := bench.Figure{Name: c.Name + "-" + name, What: c.What + ": " + what, Unit: unit}
		if strings.Contains(unit, " of ") {
			f.Name, f.What = f.Name+"-processor", c.What+", processor time: "+what
		}
		if took[f] == nil {
			took[f] = load.NewDist()
		}
		took[f].AddMs(v)
	}
	for round := range c.N {
		for i := range peers {
			p := peers[(i+round)%len(peers)]
			if failed[p.Name] {
				continue
			}
			turn, cancel := context.WithTimeout(ctx, 5*time.Minute)
			if e := take(turn, p, func(unit string, v float64) { add(p.Name, p.durability, unit, v) }); e != nil {
				failed[p.Name] = true
				err = errors.Join(err, fmt.Errorf("%s: %w", p.Name, e))
			}
			cancel()
			_ = sleep.For(ctx, time.Second) // until what was withdrawn is gone
		}
		add("load", "load average of the machine", "", loadAverage())
	}
	return values(took), err
}

// settled returns the servers' version and the leader's address, when all of them answer
// and know the same leader, which takes a time after another one.
func (p peer) settled(ctx context.Context) (version, leader string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var failed error
	err = outside.Until(ctx, 100*time.Millisecond, func() (bool, error) {
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		version, leader, failed = p.about(try, p.Registry)
		return failed == nil, nil
	})
	if err != nil {
		return "", "", fmt.Errorf("%s does not answer: %w", p.Name, cmp.Or(failed, err))
	}
	return version, leader, nil
}

// values returns the figures with what was measured, sorted.
func values(took map[bench.Figure]*load.Dist) (figures []bench.Figure) {
	for of, d := range took {
		of.Values = d.Values()
		figures = append(figures, of)
	}
	slices.SortFunc(figures, func(a, b bench.Figure) int { return cmp.Compare(a.Unit+a.Name, b.Unit+b.Name) })
	return figures
}
