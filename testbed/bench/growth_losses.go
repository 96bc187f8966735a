package bench

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"conclave/testbed"
)

var (
	columnDataKilled = Column{Name: "dataKilledMs", What: "DATA KILLED, ALL SLOTS SERVED", Unit: "ms"}
	columnMoved      = Column{Name: "moved", What: "REGISTRATIONS OF THE SESSION"}
	columnReplayed   = Column{Name: "replayedMs", What: "SESSION KILLED, ALL STORED BY THE OTHER", Unit: "ms"}
	columnMissing    = Column{Name: "missing", What: "PUSHES WITHOUT THE VALUE"}
)

var lossesCurve = Curve{
	Name: "losses",
	What: "registrations over 20 connections; then a data node is killed, and then the session of half of them",
	Columns: []Column{columnRegistrations, columnRate, columnDataKilled, columnMoved, columnReplayed, columnMissing,
		columnLost, columnGone, columnElections, columnEvictions, columnMetaMiB, columnSessionMiB, columnDataMiB},
	Plots: []Plot{
		{What: "registrations stored per second", X: columnRegistrations.Name, Y: columnRate.Name},
		{What: "data node killed: until all its slots are served, ms", X: columnRegistrations.Name, Y: columnDataKilled.Name},
		{What: "session killed: until the other one has stored all, ms", X: columnRegistrations.Name, Y: columnReplayed.Name},
	},
}

func lossSizes(cfg GrowthConfig) (out []size) {
	for _, n := range bounded([]int{10_000, 100_000, 1_000_000}, cfg.MaxRegistrations) {
		out = append(out, size{columnRegistrations.Name: float64(n)})
	}
	return out
}

// watched is how many registrations of a load are watched while nodes are killed.
const watched = 1000

// losses measures what it takes to make good the loss of a data node and of a
// session, and counts pushes of lists that lack a value that was registered.
func (p *point) losses(ctx context.Context) error {
	n := p.of(columnRegistrations)
	l, err := p.connect(ctx, 20)
	if err != nil {
		return err
	}
	defer l.close()
	began := time.Now()
	if _, _, err = l.publish(ctx, "loss", n); err != nil {
		return p.conclude(ctx, err)
	}
	p.set(columnRate, float64(n)/time.Since(began).Seconds())
	if p.Cluster == nil {
		return p.conclude(ctx, nil)
	}
	missing, err := p.watchSome(ctx, n)
	if err == nil {
		err = p.killOneOfEach(ctx)
	}
	p.set(columnMissing, float64(missing()))
	return p.conclude(ctx, err)
}

// watchSome subscribes to some of the registrations at each session, on connections
// of its own, and returns when all were pushed. missing returns how many pushes after
// the first one had no value.
func (p *point) watchSome(ctx context.Context, n int) (missing func() int64, err error) {
	var without atomic.Int64
	missing = without.Load
	first := make(chan struct{}, 2*watched)
	subscriptions := 0
	for range 2 { // the connections of the load are an even number
		l, err := p.Driver.Connect("watcher")
		if err != nil {
			return missing, err
		}
		for i := range min(n, watched) {
			var seen bool // callbacks of one subscription are sequential
			err := l.Subscribe(DataID("loss", i*(n/min(n, watched))), func(values []string) {
				switch {
				case len(values) == 0 && seen:
					without.Add(1)
				case len(values) > 0 && !seen:
					seen = true
					first <- struct{}{}
				}
			})
			if err != nil {
				return missing, err
			}
			subscriptions++
		}
	}
	for range subscriptions {
		select {
		case <-first:
		case <-ctx.Done():
			return missing, fmt.Errorf("subscribe: %w", ctx.Err())
		}
	}
	return missing, nil
}

// killOneOfEach kills a data node, and, when that is made good, the first session.
func (p *point) killOneOfEach(ctx context.Context) error {
	r := &run{Config: Config{Cluster: p.Cluster}, admin: p.watch.admin}
	if err := r.settled(ctx); err != nil {
		return err
	}
	took, err := r.killData(ctx, "data-1")
	if err != nil {
		return err
	}
	p.set(columnDataKilled, float64(took.Microseconds())/1000)
	err = await(ctx, 10*time.Millisecond, "stable slots", func() bool {
		s, err := r.admin.Slots(ctx)
		return err == nil && s.Stable
	})
	if err != nil {
		return err
	}

	all, err := p.watch.sum(ctx, p.watch.sessions, "conclave_session_publishers")
	if err != nil {
		return err
	}
	at := p.Cluster.Addresses()
	victim, others := at["session-1"], slices.DeleteFunc(slices.Clone(p.watch.sessions), func(a string) bool { return a == at["session-1"] })
	of, err := p.watch.sum(ctx, []string{victim}, "conclave_session_publishers")
	if err != nil {
		return err
	}
	p.set(columnMoved, of)
	start := time.Now()
	if err := r.do(ctx, testbed.Kill, "session-1"); err != nil {
		return err
	}
	p.watch.sessions = others // of which the figures of the point are
	err = await(ctx, 20*time.Millisecond, "the other session to have stored all", func() bool {
		has, err := p.watch.sum(ctx, others, "conclave_session_publishers")
		if err != nil || has < all {
			return false
		}
		unsent, err := p.watch.sum(ctx, others, "conclave_session_unsent_bytes")
		return err == nil && unsent == 0
	})
	if err == nil {
		p.set(columnReplayed, float64(time.Since(start).Microseconds())/1000)
	}
	return err
}
