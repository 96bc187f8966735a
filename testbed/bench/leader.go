package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"conclave"
	"conclave/meta/metaclient"
	"conclave/testbed"
	"conclave/testbed/load"
)

func (r *run) leaderKilled(ctx context.Context) error {
	return r.leaderGone(ctx, testbed.Kill, "leader-killed", "leader killed", Limit{P50: 50, P99: 300})
}

func (r *run) leaderStopped(ctx context.Context) error {
	return r.leaderGone(ctx, testbed.Stop, "leader-stopped", "leader stopped (SIGTERM)", Limit{P50: 20, P99: 200})
}

// leaderGone ends the leader N times and measures the leaderless time, by the
// election history and by queries to the other metas, the time until the
// history has the election, and the time until every session and data node has
// its stream to the new leader.
func (r *run) leaderGone(ctx context.Context, verb testbed.Verb, name, what string, limit Limit) error {
	inHistory, outside, recorded, followed := load.NewDist(), load.NewDist(), load.NewDist(), load.NewDist()
	for range r.N {
		if err := r.settled(ctx); err != nil {
			return err
		}
		old, err := r.admin.Leader(ctx)
		if err != nil {
			return err
		}
		if err := r.oneLeaderGone(ctx, old, verb, outside, recorded, followed); err != nil {
			return err
		}
		elections, err := r.admin.Elections(ctx)
		if err != nil {
			return err
		}
		for _, e := range elections {
			if e.Term > old.Term {
				inHistory.AddMs(float64(e.LeaderlessMs))
			}
		}
		if err := r.restart(ctx, old.Leader); err != nil {
			return err
		}
	}
	r.report(Figure{Name: name + "-leaderless", What: what + ": leaderless, by the history"}, inHistory.Values(), limit)
	r.report(Figure{Name: name + "-recorded", What: what + ": next leader to its record in the history, from outside"}, recorded.Values(), Limit{P99: 250})
	r.report(Figure{Name: name + "-next-leader", What: what + ": signal to next leader, from outside"}, outside.Values(), limit)
	r.report(Figure{Name: name + "-all-follow", What: what + ": signal to all sessions and data following"}, followed.Values(), limit)
	return nil
}

// lookEvery is the interval of queries for the leader. On a machine with two
// cores more frequent queries would affect the result.
const lookEvery = 4 * time.Millisecond

func (r *run) oneLeaderGone(ctx context.Context, old metaclient.LeaderInfo, verb testbed.Verb, outside, recorded, followed *load.Dist) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var others []string
	for _, m := range r.admin.Metas {
		if m != old.Address {
			others = append(others, m)
		}
	}
	if len(others) == 0 {
		return fmt.Errorf("%s is the only meta: no other can become leader", old.Leader)
	}
	admin := r.adminOf(others)
	defer admin.HTTP.CloseIdleConnections()
	if _, err := admin.Leader(ctx); err != nil { // opens the connections before the measurement
		return err
	}
	nodes, err := admin.Nodes(ctx, "")
	if err != nil {
		return err
	}
	members := up(nodes)
	var killing sync.WaitGroup
	var killed error
	start := time.Now()
	killing.Go(func() { killed = r.do(ctx, verb, old.Leader) })
	defer killing.Wait()

	var term uint64
	if err := await(ctx, lookEvery, "the next leader", func() bool {
		now, err := admin.Leader(ctx)
		term = now.Term
		return err == nil && now.Term > old.Term
	}); err != nil {
		return err
	}
	seen := time.Now()
	outside.Add(seen.Sub(start))
	if err := await(ctx, lookEvery, fmt.Sprintf("all nodes to follow term %d", term), func() bool {
		nodes, err := admin.Nodes(ctx, "")
		return err == nil && up(nodes) >= members
	}); err != nil {
		return err
	}
	followed.Add(time.Since(start))
	if err := await(ctx, lookEvery, fmt.Sprintf("the record of term %d", term), func() bool {
		elections, err := admin.Elections(ctx)
		return err == nil && slices.ContainsFunc(elections, func(e metaclient.Election) bool { return e.Term == term })
	}); err != nil {
		return err
	}
	recorded.Add(time.Since(seen)) // or a little less: the nodes were waited for first
	killing.Wait()
	return killed
}

// up returns how many sessions and data nodes have their stream to the leader.
func up(nodes []metaclient.NodeInfo) int {
	count := 0
	for _, n := range nodes {
		if n.Role != conclave.RoleMeta && n.State == metaclient.NodeUp {
			count++
		}
	}
	return count
}
