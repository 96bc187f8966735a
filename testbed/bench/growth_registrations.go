package bench

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Columns that several curves have.
var (
	columnConnections   = Column{Name: "connections", What: "CONNECTIONS"}
	columnRegistrations = Column{Name: "registrations", What: "REGISTRATIONS"}
	columnDatas         = Column{Name: "datas", What: "DATA NODES"}
	columnSessions      = Column{Name: "sessions", What: "SESSIONS"}
	columnRate          = Column{Name: "rate", What: "RATE", Unit: "per s"}
	columnRatio         = Column{Name: "ratio", What: "RATIO"}
	columnP50           = Column{Name: "p50Ms", What: "P50", Unit: "ms"}
	columnP99           = Column{Name: "p99Ms", What: "P99", Unit: "ms"}
	columnLost          = Column{Name: "lost", What: "BOUNCED"}
	columnGone          = Column{Name: "clientsGone", What: "GONE"}
	columnElections     = Column{Name: "elections", What: "ELECTIONS"}
	columnEvictions     = Column{Name: "evictions", What: "EVICTIONS"}
	columnMetaMiB       = Column{Name: "metaMiB", What: "METAS", Unit: "MiB"}
	columnSessionMiB    = Column{Name: "sessionMiB", What: "SESSIONS", Unit: "MiB"}
	columnDataMiB       = Column{Name: "dataMiB", What: "DATA", Unit: "MiB"}
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

// bounded returns the sizes up to a bound, or the bound alone if all are larger.
// 0 is no bound.
func bounded(sizes []int, bound int) (out []int) {
	for _, n := range sizes {
		if bound == 0 || n <= bound {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		out = []int{bound}
	}
	return out
}

// value returns a value of 100 bytes.
func value(i int) string {
	v := fmt.Sprintf("10.0.0.1:8080?i=%d&", i)
	return v + strings.Repeat("x", max(0, 100-len(v)))
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

// conclude sets what was counted since the start of the point, and the memory of
// each role. It returns err.
func (p *point) conclude(ctx context.Context, err error) error {
	p.set(columnLost, float64(p.Driver.Lost()))
	if p.watch == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second) // also after the limit of the point
	defer cancel()
	p.setEvents(p.watch.events(ctx))
	for role, c := range map[string]Column{"meta": columnMetaMiB, "session": columnSessionMiB, "data": columnDataMiB} {
		if mib, err := p.watch.memory(ctx, role); err == nil { // the point's figures count without it
			p.set(c, mib)
		}
	}
	return err
}

// setEvents sets the columns of what was counted at the cluster. What could not be
// read has no value.
func (p *point) setEvents(n counts) {
	for c, v := range map[Column]int{columnGone: n.gone, columnElections: n.elections, columnEvictions: n.evictions} {
		if v >= 0 {
			p.set(c, float64(v))
		}
	}
}

// links are the connections of a load.
type links []Link

// connect opens n connections, and waits until each has registered something.
func (p *point) connect(ctx context.Context, n int) (links, error) {
	var out links
	var warm []Registration
	for i := range n {
		l, err := p.Driver.Connect(fmt.Sprint("growth-", i))
		if err != nil {
			out.close()
			return nil, err
		}
		out = append(out, l)
		r, err := l.Publish(ctx, DataID("warm", i), value(0))
		if err != nil {
			out.close()
			return nil, err
		}
		warm = append(warm, r)
	}
	for _, r := range warm {
		if err := r.Stored(ctx); err != nil {
			out.close()
			return nil, fmt.Errorf("connect: %w", err)
		}
	}
	return out, nil
}

// close breaks all connections off.
func (l links) close() {
	var closing sync.WaitGroup
	for _, one := range l {
		closing.Go(one.Close)
	}
	closing.Wait()
}

// sampled is how many registrations of a load are timed at most.
const sampled = 2000

// publish publishes n values, each under its own dataId, all connections at once,
// and waits until all are stored. The i-th registration is of the connection
// i%len(l). The distribution is that of publish to stored, of a sample.
func (l links) publish(ctx context.Context, prefix string, n int) ([]Registration, *Dist, error) {
	latency := NewDist()
	made := make([]Registration, n)
	errs := make([]error, len(l))
	every := max(1, n/sampled)
	var publishing, samples sync.WaitGroup
	for c := range l {
		publishing.Go(func() {
			for i := c; i < n && errs[c] == nil; i += len(l) {
				at := time.Now()
				var r Registration
				if r, errs[c] = l[c].Publish(ctx, DataID(prefix, i), value(i)); errs[c] != nil {
					return
				}
				made[i] = r
				if i/len(l)%every == 0 {
					samples.Go(func() {
						if r.Stored(ctx) == nil { // the loop below reports the error
							latency.Add(time.Since(at))
						}
					})
				}
			}
			for i := c; i < n; i += len(l) {
				if err := made[i].Stored(ctx); err != nil {
					errs[c] = fmt.Errorf("connection %d, registration %d of %d: %w", c+1, i+1, n, err)
					return
				}
			}
		})
	}
	publishing.Wait()
	samples.Wait()
	for _, err := range errs {
		if err != nil {
			return made, latency, err
		}
	}
	return made, latency, nil
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
