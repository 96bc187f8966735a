package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"conclave/client"
	"conclave/internal/sleep"
	"conclave/meta/metaclient"
	"conclave/testbed/bench"
)

// The first and last scenes of every demo, and what scenes share.

func (d *demo) start(ctx context.Context, set scenery) error {
	d.story.scene("START", "3 metas, 3 data nodes, 2 sessions and a MySQL server, each "+set.each)
	began := time.Now()
	var err error
	if d.stage, err = set.open(ctx); err != nil {
		return err
	}
	ready := since(began)
	metas, err := d.stage.Addresses("meta")
	if err != nil {
		return err
	}
	d.http, d.token = webClient(d.stage.Network()), d.stage.Token()
	d.admin, d.gaps, d.terms = d.adminAt(metas), bench.NewGaps(d.http), newTermWatch(metas, d.http)
	leader, err := d.leader(ctx)
	if err != nil {
		return err
	}
	slots, err := d.admin.Slots(ctx)
	if err != nil {
		return err
	}
	d.story.figure("all processes ready after", ms(ready), "")
	if database := d.stage.Database(); database != "" {
		d.story.figure("the database", "", database)
	}
	d.story.figure("the metas elected", leader.Leader, fmt.Sprintf("term %d", leader.Term))
	d.story.figure("slots", fmt.Sprint(len(slots.Slots)), spread(slots))
	d.story.look("the whole time, in another terminal: " + d.stage.Tool() + " events -f")
	return nil
}

// spread formats how many slots each data node leads.
func spread(s metaclient.SlotsInfo) string {
	count := make(map[string]int)
	for _, x := range s.Slots {
		count[x.Leader]++
	}
	var parts []string
	for _, name := range sortedKeys(count) {
		parts = append(parts, fmt.Sprintf("%s leads %d", name, count[name]))
	}
	return strings.Join(parts, ", ")
}

// connect starts a client of the stage.
func (d *demo) connect(name string, sessions ...string) (*bench.Peer, error) {
	p, err := bench.ConnectAs(client.Config{Sessions: sessions, Name: name, Network: d.stage.Network(), Token: d.token})
	if err == nil {
		d.peers = append(d.peers, p)
	}
	return p, err
}

func (d *demo) publish(ctx context.Context) error {
	d.story.scene("PUBLISH", fmt.Sprintf("%d publishers and %d subscribers, half of them at each session", demoPublishers, 2*demoSubscribers))
	sessions, err := d.stage.Addresses("session")
	if err != nil {
		return err
	}
	dataIDs := bench.DataIDs("shop", demoPublishers/demoPerDataID/2)
	dataIDs = append(dataIDs, bench.DataIDs("bank", demoPublishers/demoPerDataID/2)...)
	for i := range 2 * demoSubscribers {
		p, err := d.connect(fmt.Sprint(subscriberPrefix, i+1), sessions[i%len(sessions)])
		if err != nil {
			return err
		}
		if err := p.Watch(d.ledger, p.Name(), dataIDs...); err != nil {
			return err
		}
	}
	began := time.Now()
	for i, prefix := range []string{"shop", "bank"} {
		p, err := d.connect(prefix, sessions[i%len(sessions)])
		if err != nil {
			return err
		}
		t, err := bench.PublishAll(ctx, p.Client, d.ledger, prefix, demoPublishers/2, demoPerDataID)
		if err != nil {
			return err
		}
		d.traffic = append(d.traffic, t)
	}
	if err := d.ledger.AwaitSeen(ctx); err != nil {
		return err
	}
	d.story.figure("all subscribers received them after", ms(since(began)), "")
	d.ledger.Phase()
	return d.calm(ctx)
}

// calm measures the traffic without faults, for comparison.
func (d *demo) calm(ctx context.Context) error {
	quiet, stop := context.WithTimeout(ctx, 2*demoPause)
	defer stop()
	var traffic sync.WaitGroup
	errs := make([]error, len(d.traffic))
	for i, t := range d.traffic {
		traffic.Go(func() { errs[i] = t.Run(quiet, demoTick) })
	}
	traffic.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := d.ledger.AwaitSeen(ctx); err != nil {
		return err
	}
	v := d.ledger.Phase().Values()
	d.story.figure("an update reaches a subscriber in", fmt.Sprintf("%.1f ms", v.P50), fmt.Sprintf("p99 %.1f ms, %d measured", v.P99, v.N))
	d.story.look("from here on every publisher updates its value, " + fmt.Sprint(2*int(time.Second/demoTick)) + " times a second in all")
	return nil
}

// sceneWait is the timeout of each wait in a scene, long enough for busy
// machines.
const sceneWait = time.Minute

// lookEvery is the interval of queries for the leader. More frequent queries
// would affect the figures.
const lookEvery = 4 * time.Millisecond

// awaitTerm waits for a leader of a higher term. It asks each meta whether it
// leads itself, because a follower would forward the query, perhaps to a node
// that is dead or suspended.
func (d *demo) awaitTerm(ctx context.Context, term uint64) (metaclient.LeaderInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, sceneWait)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	found := make(chan metaclient.LeaderInfo, len(d.admin.Metas))
	for _, at := range d.admin.Metas {
		asking.Go(func() {
			for ctx.Err() == nil {
				if now, leads, _ := d.leads(ctx, at); leads && now > term { // a meta that does not answer is asked again
					if leader, err := d.adminAt([]string{at}).Leader(ctx); err == nil && leader.Term > term {
						found <- leader
						return
					}
				}
				_ = sleep.For(ctx, lookEvery)
			}
		})
	}
	select {
	case leader := <-found:
		return leader, nil
	case <-ctx.Done():
		return metaclient.LeaderInfo{}, fmt.Errorf("no meta leads a term above %d: %w", term, ctx.Err())
	}
}

// leader returns the present leader; it waits if there is none for a moment.
func (d *demo) leader(ctx context.Context) (metaclient.LeaderInfo, error) { return d.awaitTerm(ctx, 0) }

// leads asks one meta whether it leads with a valid lease, and which term. It
// returns an error if the meta does not answer.
func (d *demo) leads(ctx context.Context, at string) (term uint64, leads bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+"/leaderz", nil)
	if err != nil {
		return 0, false, err
	}
	res, err := d.http.Do(req)
	if err != nil {
		return 0, false, err
	}
	defer res.Body.Close()
	var body struct{ Term uint64 }
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<16)).Decode(&body); err != nil {
		return 0, false, err
	}
	return body.Term, res.StatusCode == http.StatusOK, nil
}

// awaitElection waits for the history's row of a term. It is written right
// after the win, or a beat later if the database was busy.
func (d *demo) awaitElection(ctx context.Context, term uint64) (metaclient.Election, error) {
	var row metaclient.Election
	waiting, cancel := context.WithTimeout(ctx, sceneWait)
	defer cancel()
	err := poll(waiting, func() (bool, error) {
		elections, err := d.admin.Elections(waiting)
		for _, e := range elections {
			if e.Term == term {
				row = e
				return true, nil
			}
		}
		return false, err
	})
	if err != nil {
		return row, fmt.Errorf("the history lacks term %d: %w", term, err)
	}
	return row, nil
}

// lookAt prints commands with which the user sees the same.
func (d *demo) lookAt(commands ...string) {
	for i, c := range commands {
		commands[i] = d.stage.Tool() + " " + c
	}
	d.story.look(strings.Join(commands, ", "))
}

// after ends a scene with a kill: it prints what the subscribers received and
// starts the process again.
func (d *demo) after(ctx context.Context, name, look string) error {
	if err := sleep.For(ctx, time.Second); err != nil { // let the pushes arrive
		return err
	}
	if err := d.judge(ctx); err != nil {
		return err
	}
	d.lookAt(look)
	if err := d.stage.Start(ctx, name); err != nil {
		return err
	}
	return d.settle(ctx)
}

// judge prints what the subscribers received in this scene.
func (d *demo) judge(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, sceneWait)
	defer cancel()
	if err := d.ledger.AwaitMark(waiting, d.ledger.Mark()); err != nil {
		return err
	}
	v := d.ledger.Phase().Values()
	d.story.figure("the slowest update took", fmt.Sprintf("%.0f ms", v.Max), fmt.Sprintf("of %d; p50 %.1f ms", v.N, v.P50))
	missing := d.ledger.Invariants()[0]
	d.story.figure("publishers missing at subscribers", fmt.Sprint(missing.Broken), fmt.Sprintf("%d looked for so far", missing.Checks))
	return nil
}

// settle waits until every process is ready and no slot is being handed over.
func (d *demo) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sceneWait)
	defer cancel()
	if err := d.stage.AwaitReady(ctx); err != nil {
		return err
	}
	err := poll(ctx, func() (bool, error) {
		s, err := d.admin.Slots(ctx)
		return err == nil && s.Stable && s.Even, err
	})
	if err != nil {
		return fmt.Errorf("slots did not become stable: %w", err)
	}
	return nil
}

// leave closes all clients: first the subscribers, which would otherwise
// receive the withdrawals, then all others at the same time, because closing
// takes long if the cluster has failed.
func (d *demo) leave() {
	watches := func(p *bench.Peer) bool { return strings.HasPrefix(p.Name(), subscriberPrefix) }
	for _, watching := range []bool{true, false} {
		var leaving sync.WaitGroup
		for _, p := range d.peers {
			if watches(p) == watching {
				leaving.Go(p.Leave)
			}
		}
		leaving.Wait()
	}
	d.peers = nil
}

// subscriberPrefix is the prefix of the names of clients that only subscribe.
const subscriberPrefix = "subscriber-"

func (d *demo) stop(ctx context.Context) error {
	d.story.scene("STOP", "the clients disconnect, then the cluster stops: sessions, data nodes, metas, database")
	if err := d.terms.history(ctx, d.admin); err != nil {
		return err
	}
	d.leave()
	began := time.Now()
	if err := d.stage.Stop(ctx); err != nil {
		return err
	}
	d.story.figure("all nine processes ended in", ms(since(began)), "each with exit code 0")
	return nil
}
