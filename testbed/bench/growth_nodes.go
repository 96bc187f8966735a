package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"conclave/testbed"
)

var (
	columnDrained = Column{Name: "drainedMs", What: "DRAINED AND STOPPED", Unit: "ms"}
	columnGapP50  = Column{Name: "gapP50Ms", What: "SLOT UNSERVED P50", Unit: "ms"}
	columnGapP99  = Column{Name: "gapP99Ms", What: "SLOT UNSERVED P99", Unit: "ms"}
)

var nodesCurve = Curve{
	Name: "nodes",
	What: "registrations over 20 connections, then one data node is drained and stopped",
	Columns: []Column{columnDatas, columnRegistrations, columnRate, columnP50, columnP99, columnDrained, columnGapP50, columnGapP99,
		columnLost, columnGone, columnElections, columnEvictions, columnMetaMiB, columnSessionMiB, columnDataMiB},
	Plots: []Plot{
		{What: "registrations stored per second", X: columnDatas.Name, Y: columnRate.Name},
		{What: "a data node drained and stopped, ms", X: columnDatas.Name, Y: columnDrained.Name},
		{What: "a slot served by no node meanwhile, p99, ms", X: columnDatas.Name, Y: columnGapP99.Name},
	},
}

func nodeSizes(GrowthConfig) (out []size) {
	for _, n := range []int{3, 5, 9} {
		out = append(out, size{columnDatas.Name: float64(n)})
	}
	return out
}

// nodes measures the rate and a hand-over in clusters of different sizes.
func (p *point) nodes(ctx context.Context) error {
	l, err := p.connect(ctx, 20)
	if err != nil {
		return err
	}
	defer l.close()
	n := bounded([]int{100_000}, p.MaxRegistrations)[0]
	p.set(columnRegistrations, float64(n))
	began := time.Now()
	_, latency, err := l.publish(ctx, "nodes", n)
	p.setDist(latency, columnP50, columnP99)
	if err == nil {
		p.set(columnRate, float64(n)/time.Since(began).Seconds())
		if p.Cluster != nil {
			err = p.drain(ctx)
		}
	}
	return p.conclude(ctx, err)
}

// drain stops a data node and waits until it has handed over its slots and ended.
func (p *point) drain(ctx context.Context) error {
	r := &run{Config: Config{Cluster: p.Cluster}, admin: p.watch.admin}
	if err := r.settled(ctx); err != nil {
		return err
	}
	data, err := r.addresses(ctx, "data")
	if err != nil {
		return err
	}
	gaps := NewGaps(p.watch.admin.HTTP, r.Cluster.Token())
	gaps.Since(ctx, data) // skips those of the start
	const name = "data-1"
	start := time.Now()
	if err := r.do(ctx, testbed.Stop, name); err != nil {
		return err
	}
	err = await(ctx, 2*time.Millisecond, name+" to end", func() bool {
		ps, err := p.Cluster.Processes(ctx)
		return err == nil && slices.ContainsFunc(ps, func(x testbed.Process) bool { return x.Name == name && x.PID == 0 })
	})
	if err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	p.set(columnDrained, float64(time.Since(start).Microseconds())/1000)
	unserved := NewDist()
	for _, ms := range gaps.Since(ctx, data) {
		unserved.AddMs(ms)
	}
	p.setDist(unserved, columnGapP50, columnGapP99)
	return nil
}
