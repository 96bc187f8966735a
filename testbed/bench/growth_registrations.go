package bench

import (
	"context"
	"time"
)

var registrationsCurve = Curve{
	Name: "registrations",
	What: "new registrations of 100 bytes, until data has stored all; RATIO is to the smallest number with as many connections",
	Columns: []Column{columnConnections, columnRegistrations, columnRate, columnRatio, columnP50, columnP99,
		columnLost, columnGone, columnElections, columnEvictions, columnMetaMiB, columnSessionMiB, columnDataMiB},
	Plots: []Plot{
		{What: "registrations stored per second", X: columnRegistrations.Name, Y: columnRate.Name, By: columnConnections.Name},
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
	began := time.Now()
	_, latency, err := l.publish(ctx, "reg", p.of(columnRegistrations))
	if err == nil {
		p.set(columnRate, float64(p.of(columnRegistrations))/time.Since(began).Seconds())
	}
	p.setDist(latency, columnP50, columnP99)
	return p.conclude(ctx, err)
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
