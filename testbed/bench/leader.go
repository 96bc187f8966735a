package bench

import (
	"context"
	"errors"
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
	took := leaderTimes{load.NewDist(), load.NewDist(), load.NewDist(), load.NewDist()}
	err := r.repeat(ctx, func(ctx context.Context, _ int) (string, error) { return r.oneLeaderGone(ctx, verb, took) })
	if err != nil {
		return err
	}
	r.report(Figure{Name: name + "-leaderless", What: what + ": leaderless, by the history"}, took.leaderless.Values(), limit)
	r.report(Figure{Name: name + "-recorded", What: what + ": next leader to its record in the history, from outside"}, took.recorded.Values(), Limit{P99: 250})
	r.report(Figure{Name: name + "-next-leader", What: what + ": signal to next leader, from outside"}, took.next.Values(), limit)
	r.report(Figure{Name: name + "-all-follow", What: what + ": signal to all sessions and data following"}, took.followed.Values(), limit)
	return nil
}

// leaderTimes are the times of leaderGone.
type leaderTimes struct{ leaderless, next, followed, recorded *load.Dist }

// lookEvery is the interval of queries for the leader. On a machine with two
// cores more frequent queries would affect the result.
const lookEvery = 4 * time.Millisecond

// oneLeaderGone ends the leader, whose name it returns, and adds what it has measured.
func (r *run) oneLeaderGone(ctx context.Context, verb testbed.Verb, took leaderTimes) (leader string, err error) {
	old, err := r.admin.Leader(ctx)
	if err != nil {
		return "", err
	}
	admin := r.adminOf(slices.DeleteFunc(slices.Clone(r.admin.Metas), func(m string) bool { return m == old.Address }))
	defer admin.HTTP.CloseIdleConnections()
	if len(admin.Metas) == 0 {
		return old.Leader, errors.New("it is the only meta: no other can become leader")
	}
	nodes, err := admin.Nodes(ctx, "") // also opens the connections before the measurement
	if err != nil {
		return old.Leader, err
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
		return old.Leader, err
	}
	seen := time.Now()
	took.next.Add(seen.Sub(start))
	if err := await(ctx, lookEvery, fmt.Sprintf("all nodes to follow term %d", term), func() bool {
		nodes, err := admin.Nodes(ctx, "")
		return err == nil && up(nodes) >= members
	}); err != nil {
		return old.Leader, err
	}
	took.followed.Add(time.Since(start))
	var elections []metaclient.Election
	if err := await(ctx, lookEvery, fmt.Sprintf("the record of term %d", term), func() bool {
		elections, err = admin.Elections(ctx)
		return err == nil && slices.ContainsFunc(elections, func(e metaclient.Election) bool { return e.Term == term })
	}); err != nil {
		return old.Leader, err
	}
	took.recorded.Add(time.Since(seen)) // or a little less: the nodes were waited for first
	for _, e := range elections {
		if e.Term > old.Term {
			took.leaderless.AddMs(float64(e.LeaderlessMs))
		}
	}
	killing.Wait()
	return old.Leader, killed
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
