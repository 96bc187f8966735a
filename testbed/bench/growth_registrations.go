package bench

import (
	"context"
	"time"
)

var (
	columnClusterEach = Column{Name: "clusterUs", What: "CPU OF THE CLUSTER", Unit: "us each"}
	columnLoadEach    = Column{Name: "loadUs", What: "CPU OF THE LOAD", Unit: "us each"}
)

var registrationsCurve = Curve{
	Name: "registrations",
	What: "new registrations of 100 bytes, until data has stored all; RATIO is to the smallest number with as many connections",
	Columns: []Column{columnConnections, columnRegistrations, columnRate, columnRatio, columnClusterEach, columnLoadEach, columnP50, columnP99,
		columnLost, columnGone, columnElections, columnEvictions, columnMetaMiB, columnSessionMiB, columnDataMiB},
	Plots: []Plot{
		{What: "registrations stored per second", X: columnRegistrations.Name, Y: columnRate.Name, By: columnConnections.Name},
		{What: "processor time of the cluster for a registration, us", X: columnRegistrations.Name, Y: columnClusterEach.Name, By: columnConnections.Name},
		{What: "p99 of publish to stored, ms", X: columnRegistrations.Name, Y: columnP99.Name, By: columnConnections.Name},
		{What: "memory of the data nodes, MiB", X: columnRegistrations.Name, Y: columnDataMiB.Name, By: columnConnections.Name},
	},
}

// leastRegistrations is the smallest number of registrations that a bound allows:
// each of the 200 connections has some.
const leastRegistrations = 1000

func registrationSizes(cfg GrowthConfig) (out []size) {
	for _, connections := range []int{1, 20, 200} {
		for _, n := range bounded([]int{10_000, 100_000, 1_000_000}, cfg.MaxRegistrations) {
			out = append(out, size{columnConnections.Name: float64(connections), columnRegistrations.Name: float64(n)})
		}
	}
	return out
}

// registrations measures how fast registrations are stored.
func (p *point) registrations(ctx context.Context) error {
	l, err := p.connect(ctx, p.of(columnConnections))
	if err != nil {
		return err
	}
	defer l.close()
	n := p.of(columnRegistrations)
	before, began := p.processorTimes(ctx), time.Now()
	_, latency, err := l.publish(ctx, "reg", n)
	if err == nil {
		p.set(columnRate, float64(n)/time.Since(began).Seconds())
		p.processorTimes(ctx).setEach(p, before, n)
	}
	p.setDist(latency, columnP50, columnP99)
	return p.conclude(ctx, err)
}

// processorTimes are how long processes have had a processor. 0: not known.
type processorTimes struct{ cluster, load time.Duration }

func (p *point) processorTimes(ctx context.Context) (out processorTimes) {
	out.load = processorTime()
	if p.watch != nil {
		if all, err := p.watch.processorTime(ctx); err == nil { // the point's figures count without it
			out.cluster = all
		}
	}
	return out
}

// setEach sets the times for each of n registrations. They are what the work costs
// on a machine that others use too, where the rate is what they leave.
func (t processorTimes) setEach(p *point, before processorTimes, n int) {
	for c, used := range map[Column]time.Duration{columnClusterEach: t.cluster - before.cluster, columnLoadEach: t.load - before.load} {
		if used > 0 {
			p.set(c, float64(used.Microseconds())/float64(n))
		}
	}
}

// ratios sets each point's ratio of its rate to the first point's of the same
// target that has as many connections.
func ratios(points []Point) {
	type line struct {
		target      string
		connections float64
	}
	first := map[line]float64{}
	for _, p := range points {
		rate, ok := p.Values[columnRate.Name]
		if !ok || rate <= 0 {
			continue
		}
		of := line{p.Target, p.Values[columnConnections.Name]}
		if first[of] == 0 {
			first[of] = rate
		}
		p.Values[columnRatio.Name] = rate / first[of]
	}
}
