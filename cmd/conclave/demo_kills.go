package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"conclave"
	"conclave/meta/metaclient"
)

// playKills kills the leader repeatedly on an idle cluster and prints the
// distributions of the figures.
func (d *demo) playKills(ctx context.Context, set scenery, o demoOptions) error {
	if err := d.start(ctx, set); err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { d.terms.run(watching); close(done) }()
	defer func() { stop(); <-done }()

	d.story.scene(fmt.Sprintf("KILL -9 THE LEADER, %d TIMES", o.kills), "each time: the next leader, all nodes following it, the dead one back, everything at rest")
	var history, outside, followed sample
	for i := range o.kills {
		if err := d.settle(ctx); err != nil {
			return fmt.Errorf("before kill %d: %w", i+1, err)
		}
		old, err := d.leader(ctx)
		if err != nil {
			return err
		}
		k, err := d.kill(ctx, old.Leader, old.Term)
		if err != nil {
			return fmt.Errorf("kill %d: %w", i+1, err)
		}
		history, outside, followed = append(history, k.leaderless), append(outside, k.outside), append(followed, k.followed)
		d.story.progress("%3d  %s: %s -> %s, leaderless %.0f ms by the history, %.0f ms from outside, all follow after %.0f ms (dead after %.0f ms)",
			i+1, k.next.Cause, k.old, k.next.Leader, k.leaderless, k.outside, k.followed, k.asked)
		if err := d.stage.Start(ctx, k.old); err != nil {
			return err
		}
	}
	if err := d.settle(ctx); err != nil {
		return err
	}
	d.story.figure("leaderless, by the history", "", history.String())
	d.story.figure("next leader, seen from outside", "", outside.String())
	d.story.figure("every session and data node follows", "", followed.String())
	wanted, reached := "by the history p50 <= 100 ms", history.at(0.5) <= 100
	if o.on == "compose" && o.compose.takeover == "lease" {
		limit := composeLease + 200*time.Millisecond
		wanted, reached = fmt.Sprintf("from outside at most the lease and 200 ms: %v", limit), outside.at(1) <= float64(limit.Milliseconds())
	}
	d.story.figure("wanted", either(reached, "reached", "MISSED"), wanted)
	d.lookAt("election list")
	if err := d.terms.history(ctx, d.admin); err != nil {
		return err
	}
	return d.stop(ctx)
}

// killed is one round of the loop; times in milliseconds.
type killed struct {
	old        string
	next       metaclient.LeaderInfo
	leaderless float64 // from the election history
	outside    float64 // from the kill call until the next leader was observed,
	followed   float64 // and until every node had its stream to it
	asked      float64 // from that call until the process ended, as the engine reports; 0 for processes
}

func (d *demo) kill(ctx context.Context, name string, term uint64) (killed, error) {
	k := killed{old: name}
	began := time.Now()
	killing := d.killBeside(ctx, name)
	next, err := d.awaitTerm(ctx, term)
	seen := time.Now()
	if err != nil {
		return k, errors.Join(err, <-killing)
	}
	k.next = next
	at, err := address(d.stage, "meta", next.Leader)
	if err != nil {
		return k, errors.Join(err, <-killing)
	}
	waiting, cancel := context.WithTimeout(ctx, sceneWait)
	defer cancel()
	err = poll(waiting, func() (bool, error) { // the leader itself, because others may forward the query to the dead one
		nodes, err := d.adminAt([]string{at}).Nodes(waiting, "")
		return err == nil && allUp(nodes), err
	})
	followed := time.Now()
	if died := <-killing; died != nil {
		return k, died
	}
	if err != nil {
		return k, fmt.Errorf("not every node follows term %d: %w", k.next.Term, err)
	}
	died, err := d.stage.Died(ctx, name, began)
	if err != nil {
		return k, err
	}
	row, err := d.awaitElection(ctx, k.next.Term)
	k.leaderless = float64(row.LeaderlessMs)
	k.outside, k.followed, k.asked = msBetween(began, seen), msBetween(began, followed), msBetween(began, died)
	return k, err
}

func msBetween(a, b time.Time) float64 { return max(0, float64(b.Sub(a).Microseconds())/1000) }

// allUp reports whether every session and data node has its stream to the
// leader.
func allUp(nodes []metaclient.NodeInfo) bool {
	return !slices.ContainsFunc(nodes, func(n metaclient.NodeInfo) bool {
		return n.Role != conclave.RoleMeta && n.State != metaclient.NodeUp
	})
}

// sample is a distribution of milliseconds.
type sample []float64

// at returns the q-quantile: at(1) is the maximum.
func (s sample) at(q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	i := int(q*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

func (s sample) String() string {
	return fmt.Sprintf("min %.0f, p50 %.0f, p90 %.0f, p99 %.0f, max %.0f ms (n = %d)", s.at(0), s.at(0.5), s.at(0.9), s.at(0.99), s.at(1), len(s))
}
