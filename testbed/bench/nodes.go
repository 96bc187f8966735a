package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"conclave/internal/sleep"
	"conclave/testbed"
	"conclave/testbed/load"
)

// updateEvery is the interval of updates during faults, short enough to detect
// gaps of some milliseconds.
const updateEvery = 4 * time.Millisecond

// dataKilled kills data nodes in turn. It measures the time until all their
// slots are served again, and the slowest update meanwhile.
func (r *run) dataKilled(ctx context.Context) error {
	served := load.NewDist()
	worst, err := r.eachData(ctx, "killed", func(ctx context.Context, name string) error {
		took, err := r.killData(ctx, name)
		if err == nil {
			served.Add(took)
		}
		return err
	})
	if err != nil {
		return err
	}
	r.report(Figure{Name: "data-killed-served", What: "data node killed: until all its slots are served"}, served.Values(), Limit{P99: 1000})
	r.report(Figure{Name: "data-killed-worst", What: "data node killed: the slowest update to its push"}, worst.Values(), Limit{P99: 1000})
	return nil
}

// dataDrained stops data nodes with SIGTERM in turn. It measures the time until
// the process has handed over and ended, how long each slot was served by no
// node (as the data nodes report), and the slowest update meanwhile, which
// shows the same from outside.
func (r *run) dataDrained(ctx context.Context) error {
	took, slots := load.NewDist(), load.NewDist()
	worst, err := r.eachData(ctx, "drained", func(ctx context.Context, name string) error {
		r.gaps(ctx) // skips those of before
		start := time.Now()
		if err := r.do(ctx, testbed.Stop, name); err != nil {
			return err
		}
		if err := r.ended(ctx, name); err != nil {
			return err
		}
		took.Add(time.Since(start))
		for _, ms := range r.gaps(ctx) {
			slots.AddMs(ms)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if slots.Values().N == 0 {
		return errors.New("no data node has reported a slot that it began to serve")
	}
	r.report(Figure{Name: "data-drained-gap", What: "data node drained: time that a slot is served by no node"}, slots.Values(), Limit{P99: 5})
	r.report(Figure{Name: "data-drained-took", What: "data node drained and stopped"}, took.Values(), Limit{})
	r.report(Figure{Name: "data-drained-worst", What: "data node drained: the slowest update to its push"}, worst.Values(), Limit{})
	return nil
}

// eachData calls do for the data nodes in turn, N times in all, under traffic of
// which it returns the slowest update each time. No list of values may shrink
// meanwhile.
func (r *run) eachData(ctx context.Context, prefix string, do func(context.Context, string) error) (worst *load.Dist, err error) {
	if err := r.settled(ctx); err != nil {
		return nil, err
	}
	sessions, names := r.addresses("session"), r.names("data")
	t, err := r.traffic(ctx, prefix, 200, 2, sessions[0], sessions[len(sessions)-1])
	if err != nil {
		return nil, err
	}
	defer t.leave()
	worst = load.NewDist()
	err = r.repeat(ctx, func(ctx context.Context, i int) (string, error) {
		name := names[i%len(names)]
		err := t.During(ctx, updateEvery, func() error { return do(ctx, name) })
		worst.AddMs(t.Phase().Values().Max)
		return name, err
	})
	return worst, cmp.Or(err, t.broken())
}

// sessionKilled kills the session of 1,000 publishers. It measures the slowest
// update to a subscriber at another session, and counts pushes without a live
// publisher.
func (r *run) sessionKilled(ctx context.Context) error {
	return r.sessionGone(ctx, "session-killed", "session killed", func(context.Context, int) error { return nil })
}

// sessionKilledMoving does the same while slots move: in turn a data node is put
// on the blacklist and removed from it.
func (r *run) sessionKilledMoving(ctx context.Context) error {
	data := r.names("data")
	err := r.sessionGone(ctx, "session-killed-moving", "session killed while slots move", func(ctx context.Context, i int) error {
		name := data[i/2%len(data)]
		if i%2 == 0 {
			return r.admin.Forbid(ctx, name, "bench", "bench")
		}
		return r.admin.Allow(ctx, name)
	})
	if r.N%2 == 0 || err != nil {
		return err
	}
	return r.admin.Allow(ctx, data[(r.N-1)/2%len(data)])
}

// sessionGone kills sessions, N times, each time after prepare was called with the
// number of the repetition.
func (r *run) sessionGone(ctx context.Context, name, what string, prepare func(ctx context.Context, i int) error) error {
	worst := load.NewDist()
	missing := 0
	err := r.repeat(ctx, func(ctx context.Context, i int) (string, error) {
		sessions, at := r.names("session"), r.Addresses()
		victim, other := sessions[i%len(sessions)], sessions[(i+1)%len(sessions)]
		t, err := r.traffic(ctx, fmt.Sprint(name, i), 1000, 10, at[victim], at[other])
		if err != nil {
			return victim, err
		}
		defer t.leave()
		err = t.During(ctx, updateEvery, func() error {
			if err := prepare(ctx, i); err != nil {
				return err
			}
			if err := r.do(ctx, testbed.Kill, victim); err != nil {
				return err
			}
			return sleep.For(ctx, time.Second)
		})
		worst.AddMs(t.Phase().Values().Max)
		missing += len(t.Broken())
		return victim, err
	})
	if err != nil {
		return err
	}
	r.report(Figure{Name: name + "-worst", What: what + ": the slowest update to its push"}, worst.Values(), Limit{P99: 1000})
	r.report(Figure{
		Name: name + "-missing", What: what + ": violations, of which a checker reports 20 at most", Unit: "violations", Target: "0",
	}, load.One(float64(missing)), Limit{Max: 0.5})
	return nil
}

// starts measures the time from the start of a cluster to its first push.
func (r *run) starts(ctx context.Context) error {
	took := load.NewDist()
	for i := range max(r.N/3, 1) {
		if err := r.start(ctx, i, took); err != nil {
			return err
		}
	}
	r.report(Figure{Name: "start-to-first-push", What: "start of the cluster to the first push"}, took.Values(), Limit{P99: 3000})
	return nil
}

func (r *run) start(ctx context.Context, i int, took *load.Dist) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	start := time.Now()
	return r.onAnother(ctx, false, func(c *cluster) error {
		sessions := c.addresses("session")
		t, err := c.traffic(ctx, fmt.Sprint("start", i), 1, 1, sessions[0], sessions[len(sessions)-1])
		if err == nil {
			took.Add(time.Since(start))
			t.leave()
		}
		return err
	})
}

// onAnother calls do with a cluster that was started for it, and stops that.
func (r *run) onAnother(ctx context.Context, secured bool, do func(*cluster) error) error {
	another, err := r.Another(ctx, secured)
	if err != nil {
		return err
	}
	c := newCluster(another)
	defer c.close()
	err = do(c)
	return cmp.Or(err, another.Stop(context.WithoutCancel(ctx)))
}
