package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"conclave/internal/sleep"
)

var (
	columnFactor    = Column{Name: "factor", What: "LOAD", Unit: "x"}
	columnCapacity  = Column{Name: "capacity", What: "CAPACITY", Unit: "per s"}
	columnOffered   = Column{Name: "offered", What: "OFFERED", Unit: "per s"}
	columnGoodput   = Column{Name: "goodput", What: "GOODPUT", Unit: "per s"}
	columnShare     = Column{Name: "goodputRatio", What: "OF CAPACITY"}
	columnMissed    = Column{Name: "notSent", What: "NOT SENT", Unit: "%"}
	columnMerged    = Column{Name: "merged", What: "MERGED", Unit: "%"}
	columnRefused   = Column{Name: "refused", What: "REFUSED"}
	columnUnstored  = Column{Name: "unstored", What: "UNSTORED"}
	columnLoadCPU   = Column{Name: "loadCPU", What: "CPU OF THE LOAD", Unit: "%"}
	columnBefore    = Column{Name: "before", What: "BEFORE", Unit: "per s"}
	columnRecovered = Column{Name: "recoveredMs", What: "RECOVERED", Unit: "ms"}
)

var overloadCurve = Curve{
	Name: "overload",
	What: "updates of 100 bytes offered at a multiple of the capacity, in an open loop; latencies count from when an update was due",
	Columns: []Column{columnFactor, columnCapacity, columnOffered, columnGoodput, columnShare, columnP50, columnP99, columnMissed, columnMerged, columnLoadCPU,
		columnRefused, columnUnstored, columnLost, columnGone, columnElections, columnEvictions, columnBefore, columnRecovered,
		columnMetaMiB, columnSessionMiB, columnDataMiB},
	Plots: []Plot{
		{What: "goodput, as a part of the capacity", X: columnFactor.Name, Y: columnShare.Name},
		{What: "p99 from due to stored, ms", X: columnFactor.Name, Y: columnP99.Name},
		{What: "until the rate is within 10 % of before, ms", X: columnFactor.Name, Y: columnRecovered.Name},
	},
}

func overloadSizes(GrowthConfig) (out []size) {
	for _, f := range []float64{1, 2, 10} {
		out = append(out, size{columnFactor.Name: f})
	}
	return out
}

const (
	overloadConnections   = 20
	overloadRegistrations = 100_000 // that are updated in turn
	closedLoops           = 20_000  // updates without an answer while the capacity is measured

	baseLoad      = 0.5 // of the capacity, before and after the overload
	baseFor       = 5 * time.Second
	recoveryHold  = 4   // windows in succession
	recoveryShare = 0.9 // of the rate before
	recoveryLimit = 2 * time.Minute
)

// overload measures the capacity, offers a multiple of it, and then waits until
// the base load is served as before.
func (p *point) overload(ctx context.Context) error {
	l, err := p.connect(ctx, overloadConnections)
	if err != nil {
		return err
	}
	defer l.close()
	ctx, cancel := context.WithCancel(ctx)
	var answers sync.WaitGroup
	defer answers.Wait()
	defer cancel()
	n := bounded([]int{overloadRegistrations}, p.MaxRegistrations)[0]
	made, _, err := l.publish(ctx, "overload", n)
	if err != nil {
		return p.conclude(ctx, err)
	}
	lanes := make([]*lane, n)
	for i, r := range made {
		lanes[i] = &lane{registration: r}
	}
	capacity, err := closedLoop(ctx, made, min(p.For, 10*time.Second))
	if err != nil {
		return p.conclude(ctx, fmt.Errorf("capacity: %w", err))
	}
	p.set(columnCapacity, capacity)
	if err := sleep.For(ctx, time.Second); err != nil { // what was in progress ends
		return err
	}
	offer := func(rate float64, lasts time.Duration, of *offered) (missed int) {
		return openLoop(ctx, rate, lasts, overloadConnections, func(i int, due time.Time) {
			lanes[i%n].fire(ctx, of, due, value(i), &answers)
		})
	}
	before := newOffered()
	offer(baseLoad*capacity, baseFor, before)
	rate := middle(before.stored.rates())
	p.set(columnBefore, rate)
	if p.watch != nil {
		p.watch.events(ctx) // skips those before the overload
	}

	load, used := newOffered(), processorTime()
	missed := offer(p.size[columnFactor.Name]*capacity, p.For, load)
	took := time.Since(load.stored.start).Seconds()
	sent, answered := load.sent.Load(), load.answers.Load()
	goodput := float64(answered) / took
	p.set(columnOffered, float64(sent)/took)
	p.set(columnGoodput, goodput)
	p.set(columnShare, goodput/capacity)
	if used > 0 {
		p.set(columnLoadCPU, 100*(processorTime()-used).Seconds()/(took*float64(runtime.NumCPU())))
	}
	p.set(columnMissed, percent(int64(missed), sent+int64(missed)))
	p.set(columnRefused, float64(load.refused.Load()))

	back, err := recovery(ctx, rate, func(ctx context.Context, after *offered) {
		openLoop(ctx, baseLoad*capacity, recoveryLimit, overloadConnections, func(i int, due time.Time) {
			lanes[i%n].fire(ctx, after, due, value(i), &answers)
		})
	})
	if err == nil {
		p.set(columnRecovered, float64(back.Milliseconds()))
	}
	stored := sent - load.open.Load()
	p.set(columnUnstored, float64(load.open.Load()))
	p.set(columnMerged, percent(stored-load.answers.Load(), stored))
	p.setDist(load.latency, columnP50, columnP99)
	return p.conclude(ctx, err)
}

func percent(part, of int64) float64 {
	if of == 0 {
		return 0
	}
	return 100 * float64(part) / float64(of)
}

// middle returns the mean of the rates without the first and the last window, in
// which the load starts and ends.
func middle(rates []float64) float64 {
	if len(rates) > 2 {
		rates = rates[1 : len(rates)-1]
	}
	sum := 0.0
	for _, r := range rates {
		sum += r
	}
	return sum / float64(max(1, len(rates)))
}

// closedLoop updates registrations, each when its last update is stored, and
// returns how many updates were stored per second.
func closedLoop(ctx context.Context, made []Registration, lasts time.Duration) (float64, error) {
	limited, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	var stored atomic.Int64
	var failed error
	var once sync.Once
	var updating sync.WaitGroup
	start := time.Now()
	loops := min(closedLoops, len(made))
	for l := range loops {
		updating.Go(func() {
			for i := l; ; i += loops {
				r := made[i%len(made)]
				err := r.Update(value(i))
				if err == nil {
					err = r.Stored(limited)
				}
				if err != nil {
					if limited.Err() == nil {
						once.Do(func() { failed = err; cancel() })
					}
					return
				}
				stored.Add(1)
			}
		})
	}
	updating.Wait()
	if failed == nil {
		failed = ctx.Err()
	}
	if failed == nil && stored.Load() == 0 {
		failed = fmt.Errorf("no update was stored in %s", lasts)
	}
	return float64(stored.Load()) / time.Since(start).Seconds(), failed
}

var errNotRecovered = errors.New("not recovered")

// recovery offers the base load again, and returns how long it takes until the
// rate is within 10 % of before.
func recovery(ctx context.Context, before float64, offer func(context.Context, *offered)) (time.Duration, error) {
	load := newOffered()
	loading, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { offer(loading, load) })
	for time.Since(load.stored.start) < recoveryLimit {
		if at, ok := recoveredAt(load.stored.rates(), recoveryShare*before, recoveryHold); ok {
			return time.Duration(at) * recoveryWindow, nil
		}
		if err := sleep.For(ctx, recoveryWindow/5); err != nil {
			return 0, fmt.Errorf("%w within %s: %w", errNotRecovered, time.Since(load.stored.start).Round(time.Second), err)
		}
	}
	return 0, fmt.Errorf("%w within %s", errNotRecovered, recoveryLimit)
}
