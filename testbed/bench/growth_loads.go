package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"conclave"
	"conclave/internal/sleep"
	"conclave/testbed"
	"conclave/testbed/load"
)

// register measures how fast registrations are stored.
func (p *point) register(ctx context.Context) error {
	if err := p.clients.Connect(ctx, p.Clients, p.of("connections")); err != nil {
		return err
	}
	n := p.of("registrations")
	cluster, here, began := p.processorTime(ctx), processorTime(), time.Now()
	_, latency, err := p.clients.Publish(ctx, n, load.DataIDs(registered), load.Value)
	p.setDist(latency, "p50Ms", "p99Ms")
	if err != nil {
		return err
	}
	p.set("rate", float64(n)/time.Since(began).Seconds())
	p.setEach("clusterUs", p.processorTime(ctx)-cluster, n)
	p.setEach("loadUs", processorTime()-here, n)
	return nil
}

// registered is the prefix of the dataIds of register.
const registered = "reg"

// processorTime returns how long the cluster's processes have had a processor; 0: not
// known.
func (p *point) processorTime(ctx context.Context) time.Duration {
	if p.on == nil {
		return 0
	}
	used, err := p.on.processorTime(ctx)
	if err != nil { // the point's figures count without it
		return 0
	}
	return used
}

// setEach sets the processor time used for each of n registrations. It is what the
// work costs on a machine that others use too, where the rate is what they leave.
func (p *point) setEach(column string, used time.Duration, n int) {
	if used > 0 {
		p.set(column, float64(used.Microseconds())/float64(n))
	}
}

// connect measures how long a number of new connections take until each is served,
// and what an idle one costs.
func (p *point) connect(ctx context.Context) (err error) {
	n := p.of("connections")
	before := 0.0
	if p.on != nil {
		if before, err = p.on.memory(ctx, "session"); err != nil {
			return err
		}
	}
	served := load.NewDist()
	start := time.Now()
	atOnce := n
	if n > usualConnections {
		atOnce = hugeAtOnce
	}
	if err = p.clients.ServeAll(ctx, p.Clients, "conn", n, atOnce, served.Add); err != nil && n > usualConnections {
		err = fmt.Errorf("%d of %d connections had their push%s: %w", served.Values().N, n, machineLoad(), err)
	}
	if err == nil {
		p.setMs("allMs", time.Since(start))
		err = sleep.For(ctx, p.Settle)
	}
	p.setDist(served, "p50Ms", "p99Ms")
	if err == nil && p.on != nil {
		if after, err := p.on.memory(ctx, "session"); err == nil { // the point's figures count without it
			p.set("idleKiB", (after-before)*1024/float64(n))
		}
	}
	return err
}

// killSession kills the session of half of the connections, and measures until all
// connections are served again: all at once, which hugeConnections cannot be.
func (p *point) killSession(ctx context.Context) error {
	if p.of("connections") > usualConnections {
		return nil
	}
	start := time.Now()
	if err := p.on.do(ctx, testbed.Kill, "session-1"); err != nil {
		return err
	}
	if err := p.clients.ServeAgain(ctx, "again"); err != nil {
		return fmt.Errorf("session-1 was killed: %w", err)
	}
	p.setMs("killedMs", time.Since(start))
	return nil
}

// changes is how often a provider changes.
const changes = 20

// provide measures the time from the change of one provider to the push at each
// subscriber.
func (p *point) provide(ctx context.Context) error {
	n, subscribers := p.of("providers"), p.of("subscribers")
	if err := p.clients.Connect(ctx, p.Clients, min(20, n)); err != nil {
		return err
	}
	const dataID = "providers"
	made, _, err := p.clients.Publish(ctx, n, func(int) string { return dataID }, func(i int) string { return provider(i, 0) })
	if err != nil {
		return fmt.Errorf("publish %d providers: %w", n, err)
	}
	var now atomic.Pointer[wanted]
	want := func(what string, holds func(values []string) bool) *wanted {
		w := &wanted{load.NewArrivals(subscribers), "subscribers have not received " + what, time.Now(), holds, load.NewDist()}
		now.Store(w)
		return w
	}
	full := want("the whole list", func(values []string) bool { return len(values) == n })
	if err := p.subscribe(dataID, subscribers, &now); err != nil {
		return err
	}
	if err := full.Await(ctx, full.missing); err != nil {
		return err
	}
	each, last := load.NewDist(), load.NewDist()
	before := p.Clients.Received()
	for round := 1; round <= changes && err == nil; round++ {
		i := round * 7919 % n // spread over all providers
		v := provider(i, round)
		w := want(fmt.Sprintf("change %d of %d", round, changes), func(values []string) bool { return slices.Contains(values, v) })
		if err = made[i].Update([]string{v}); err == nil {
			err = w.Await(ctx, w.missing)
		}
		if err == nil {
			each.Merge(w.took)
			last.AddMs(w.took.Values().Max)
		}
	}
	if err == nil {
		p.set("bytesPerPush", float64(p.Clients.Received()-before)/float64(changes*subscribers))
	}
	p.setDist(each, "p50Ms", "p99Ms")
	p.setDist(last, "allP50Ms", "allP99Ms")
	return err
}

// provider returns the value of a provider in a round. All have 100 bytes.
func provider(i, round int) string { return fmt.Sprintf("%0100s", fmt.Sprintf("p%d.%d", i, round)) }

// wanted is a list of values that all subscribers wait for.
type wanted struct {
	*load.Arrivals
	missing string
	since   time.Time
	holds   func(values []string) bool
	took    *load.Dist
}

// subscribe starts n clients that subscribe to a dataId and wait for the list that is
// wanted now.
func (p *point) subscribe(dataID string, n int, now *atomic.Pointer[wanted]) error {
	for i := range n {
		c, err := p.Clients.Connect(fmt.Sprint("subscriber-", i))
		if err != nil {
			return err
		}
		p.clients = append(p.clients, c)
		var last *wanted // that this subscriber has received
		err = c.Subscribe(dataID, func(d conclave.Datum) {
			if w := now.Load(); w != last && w.holds(d.Values) {
				last = w
				w.took.Add(time.Since(w.since))
				w.One()
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// The base load, a part of the capacity, is offered before and after the overload.
const (
	baseLoad = 0.5
	baseFor  = 5 * time.Second
)

// overload measures the capacity, offers a multiple of it, and then waits until
// the base load is served as before.
func (p *point) overload(ctx context.Context) error {
	if err := p.clients.Connect(ctx, p.Clients, p.of("connections")); err != nil {
		return err
	}
	made, _, err := p.clients.Publish(ctx, p.of("registrations"), load.DataIDs("overload"), load.Value)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	lanes := load.NewLanes(made)
	defer lanes.Wait()
	defer cancel()
	capacity, err := lanes.Capacity(ctx, min(p.For, 10*time.Second))
	if err != nil {
		return fmt.Errorf("capacity: %w", err)
	}
	p.set("capacity", capacity)
	if err := sleep.For(ctx, time.Second); err != nil { // what was in progress ends
		return err
	}
	base, _ := lanes.Offer(ctx, baseLoad*capacity, baseFor)
	before := base.Rate()
	p.set("before", before)
	if p.on != nil {
		p.before = p.on.counts(ctx)
	}

	used := processorTime()
	over, missed := lanes.Offer(ctx, p.size["factor"]*capacity, p.For)
	took := over.Lasts().Seconds()
	sent, goodput := over.Sent.Load(), float64(over.Answers.Load())/took
	p.set("offered", float64(sent)/took)
	p.set("goodput", goodput)
	p.set("goodputRatio", goodput/capacity)
	if used > 0 {
		p.set("loadCPU", 100*(processorTime()-used).Seconds()/(took*float64(runtime.NumCPU())))
	}
	p.set("notSent", percent(int64(missed), sent+int64(missed)))
	p.set("refused", float64(over.Refused.Load()))

	back, err := lanes.Recovery(ctx, baseLoad*capacity, before)
	if err == nil {
		p.set("recoveredMs", float64(back.Milliseconds()))
	}
	stored := sent - over.Open.Load()
	p.set("unstored", float64(over.Open.Load()))
	p.set("merged", percent(stored-over.Answers.Load(), stored))
	p.setDist(over.Latency, "p50Ms", "p99Ms")
	return err
}

func percent(part, of int64) float64 {
	if of == 0 {
		return 0
	}
	return 100 * float64(part) / float64(of)
}

// drain stops a data node and waits until it has handed over its slots and ended.
func (p *point) drain(ctx context.Context) error {
	if err := p.on.settled(ctx); err != nil {
		return err
	}
	took, gaps, err := p.on.drainData(ctx, "data-1")
	if err != nil {
		return err
	}
	p.setMs("drainedMs", took)
	unserved := load.NewDist()
	for _, ms := range gaps {
		unserved.AddMs(ms)
	}
	p.setDist(unserved, "gapP50Ms", "gapP99Ms")
	return nil
}

// lose measures what it takes to make good the loss of a data node and of a session,
// and counts pushes of lists that lack a value that was registered.
func (p *point) lose(ctx context.Context) error {
	var missing atomic.Int64
	err := p.watchSome(ctx, &missing)
	if err == nil {
		err = p.killOneOfEach(ctx)
	}
	p.set("missing", float64(missing.Load()))
	return err
}

// watched is how many registrations of a load are watched while nodes are killed.
const watched = 1000

// watchSome subscribes to some of the registrations at each session, with clients of
// its own, and returns when all were pushed. missing counts the pushes after the first
// one that have no value.
func (p *point) watchSome(ctx context.Context, missing *atomic.Int64) error {
	n := p.of("registrations")
	some := min(n, watched)
	first := load.NewArrivals(2 * some)
	for range 2 { // the clients of the load are an even number
		c, err := p.Clients.Connect("watcher")
		if err != nil {
			return err
		}
		p.clients = append(p.clients, c)
		for i := range some {
			var seen bool // callbacks of one subscription are sequential
			err := c.Subscribe(load.DataID(registered, i*(n/some)), func(d conclave.Datum) {
				switch {
				case len(d.Values) == 0 && seen:
					missing.Add(1)
				case len(d.Values) > 0 && !seen:
					seen = true
					first.One()
				}
			})
			if err != nil {
				return err
			}
		}
	}
	return first.Await(ctx, "subscriptions had no push")
}

// killOneOfEach kills a data node, and, when that is made good, the first session.
func (p *point) killOneOfEach(ctx context.Context) error {
	if err := p.on.settled(ctx); err != nil {
		return err
	}
	took, err := p.on.killData(ctx, "data-1")
	if err != nil {
		return err
	}
	p.setMs("dataKilledMs", took)
	if err := p.on.stable(ctx); err != nil {
		return err
	}
	const victim, publishers = "session-1", "conclave_session_publishers"
	at := p.on.Addresses()[victim]
	others := slices.DeleteFunc(p.on.addresses("session"), func(a string) bool { return a == at })
	moved, err := p.on.metric(ctx, publishers, at)
	if err != nil {
		return err
	}
	all, err := p.on.metric(ctx, publishers, others...)
	if err != nil {
		return err
	}
	all += moved
	p.set("moved", moved)
	start := time.Now()
	if err := p.on.do(ctx, testbed.Kill, victim); err != nil {
		return err
	}
	err = await(ctx, 20*time.Millisecond, "the other session to have stored all", func() bool {
		has, err := p.on.metric(ctx, publishers, others...)
		if err != nil || has < all {
			return false
		}
		unsent, err := p.on.metric(ctx, "conclave_session_unsent_bytes", others...)
		return err == nil && unsent == 0
	})
	if err == nil {
		p.setMs("replayedMs", time.Since(start))
	}
	return err
}
