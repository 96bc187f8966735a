package bench

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

var (
	columnProviders   = Column{Name: "providers", What: "PROVIDERS"}
	columnSubscribers = Column{Name: "subscribers", What: "SUBSCRIBERS"}
	columnAllP50      = Column{Name: "allP50Ms", What: "ALL P50", Unit: "ms"}
	columnAllP99      = Column{Name: "allP99Ms", What: "ALL P99", Unit: "ms"}
	columnBytes       = Column{Name: "bytesPerPush", What: "RECEIVED PER SUBSCRIBER", Unit: "bytes"}
)

var providersCurve = Curve{
	Name: "providers",
	What: "one of the providers of a dataId changes its value of 100 bytes; P50 and P99 of each subscriber, and of the last of each change",
	Columns: []Column{columnProviders, columnSubscribers, columnP50, columnP99, columnAllP50, columnAllP99, columnBytes,
		columnLost, columnGone, columnElections, columnEvictions, columnMetaMiB, columnSessionMiB, columnDataMiB},
	Plots: []Plot{
		{What: "change to push, p50, ms", X: columnProviders.Name, Y: columnP50.Name, By: columnSubscribers.Name},
		{What: "change to push, p99, ms", X: columnProviders.Name, Y: columnP99.Name, By: columnSubscribers.Name},
		{What: "bytes received by a subscriber for a change", X: columnProviders.Name, Y: columnBytes.Name, By: columnSubscribers.Name},
	},
}

func providerSizes(cfg GrowthConfig) (out []size) {
	for _, subscribers := range bounded([]int{10, 100, 1_000}, cfg.MaxConnections) {
		for _, providers := range bounded([]int{10, 100, 1_000, 10_000}, cfg.MaxRegistrations) {
			out = append(out, size{columnSubscribers.Name: float64(subscribers), columnProviders.Name: float64(providers)})
		}
	}
	return out
}

// changes is how often a provider changes.
const changes = 20

// providers measures the time from the change of one provider to the push at each
// subscriber.
func (p *point) providers(ctx context.Context) error {
	n := p.of(columnProviders)
	publishers, err := p.connect(ctx, min(20, n))
	if err != nil {
		return err
	}
	defer publishers.close()
	const dataID = "providers"
	var made []Registration
	for i := range n {
		r, err := publishers[i%len(publishers)].Publish(ctx, dataID, provider(i, 0))
		if err != nil {
			return err
		}
		made = append(made, r)
	}
	for _, r := range made {
		if err := r.Stored(ctx); err != nil {
			return fmt.Errorf("publish %d providers: %w", n, err)
		}
	}
	var now atomic.Pointer[wanted]
	full := newWanted(p.of(columnSubscribers), func(values []string) bool { return len(values) == n })
	now.Store(full)
	subscribers, err := subscribeAll(p.Driver, dataID, p.of(columnSubscribers), &now)
	defer subscribers.close()
	if err == nil {
		err = full.await(ctx, "the whole list")
	}
	if err != nil {
		return p.conclude(ctx, err)
	}
	each, last := NewDist(), NewDist()
	before := p.Driver.Received()
	for round := 1; round <= changes; round++ {
		i := round * 7919 % n // spread over all providers
		v := provider(i, round)
		w := newWanted(len(subscribers), func(values []string) bool { return slices.Contains(values, v) })
		now.Store(w)
		if err = made[i].Update(v); err == nil {
			err = w.await(ctx, fmt.Sprintf("change %d of %d", round, changes))
		}
		if err != nil {
			break
		}
		each.Merge(w.took)
		last.AddMs(w.took.Values().Max)
	}
	if err == nil {
		p.set(columnBytes, float64(p.Driver.Received()-before)/float64(changes*len(subscribers)))
	}
	p.setDist(each, columnP50, columnP99)
	p.setDist(last, columnAllP50, columnAllP99)
	return p.conclude(ctx, err)
}

// provider returns the value of a provider in a round. All have 100 bytes.
func provider(i, round int) string { return fmt.Sprintf("%0100s", fmt.Sprintf("p%d.%d", i, round)) }

// wanted is a list of values that all subscribers wait for.
type wanted struct {
	since time.Time
	holds func(values []string) bool
	took  *Dist
	left  atomic.Int64  // subscribers without it
	all   chan struct{} // closed when every subscriber has it
}

func newWanted(subscribers int, holds func([]string) bool) *wanted {
	w := &wanted{since: time.Now(), holds: holds, took: NewDist(), all: make(chan struct{})}
	w.left.Store(int64(subscribers))
	return w
}

// await waits until every subscriber has it.
func (w *wanted) await(ctx context.Context, what string) error {
	select {
	case <-w.all:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d subscribers have not received %s: %w", w.left.Load(), what, ctx.Err())
	}
}

// subscribeAll opens n connections that subscribe to a dataId and wait for the
// list that is wanted now.
func subscribeAll(d Driver, dataID string, n int, now *atomic.Pointer[wanted]) (links, error) {
	var out links
	for i := range n {
		l, err := d.Connect(fmt.Sprint("subscriber-", i))
		if err != nil {
			return out, err
		}
		out = append(out, l)
		var last *wanted // that this subscriber has received
		err = l.Subscribe(dataID, func(values []string) {
			if w := now.Load(); w != last && w.holds(values) {
				last = w
				w.took.Add(time.Since(w.since))
				if w.left.Add(-1) == 0 {
					close(w.all)
				}
			}
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}
