package main

import (
	"context"
	"fmt"
	"time"

	"conclave/meta/metaclient"
	"conclave/testbed/bench"
)

// The scenes in which processes are killed and drained, for every stage.

func (d *demo) killLeader(ctx context.Context) error {
	leader, err := d.leader(ctx)
	if err != nil {
		return err
	}
	d.story.scene("KILL -9 THE LEADER", fmt.Sprintf("%s, which leads term %d", leader.Leader, leader.Term))
	d.ledger.Phase()
	k, err := d.kill(ctx, leader.Leader, leader.Term)
	if err != nil {
		return err
	}
	d.story.figure("the next leader is", k.next.Leader, fmt.Sprintf("term %d, cause %q", k.next.Term, k.next.Cause))
	d.story.figure("leaderless for", ms(int64(k.leaderless)), fmt.Sprintf("observed from outside after %s; SOFARegistry: 21 s", ms(int64(k.outside))))
	return d.after(ctx, leader.Leader, "election list")
}

func (d *demo) drainData(ctx context.Context) error {
	const name = "data-1"
	d.story.scene("DRAIN A DATA NODE", name+" hands over its slots under reads and writes")
	data, err := d.stage.Addresses("data")
	if err != nil {
		return err
	}
	d.ledger.Phase()
	d.gaps.Since(ctx, data)
	waiting, cancel := context.WithTimeout(ctx, sceneWait)
	defer cancel()
	done, err := drain(waiting, d.admin, name, &manner{}, func(string) {})
	if err != nil {
		return err
	}
	gaps := bench.NewDist()
	for _, g := range d.gaps.Since(ctx, data) {
		gaps.AddMs(g)
	}
	d.story.figure("slots moved", fmt.Sprint(done.MovedSlots), "in "+ms(done.TookMs))
	if v := gaps.Values(); v.N > 0 {
		d.story.figure("a slot was unreadable for", fmt.Sprintf("%.1f ms", v.P50), fmt.Sprintf("at most %.1f ms; requests waited, none was refused", v.Max))
	}
	if err := d.judge(ctx); err != nil {
		return err
	}
	d.lookAt("slots", "blacklist list")
	if err := d.admin.Allow(ctx, name); err != nil {
		return err
	}
	return d.settle(ctx)
}

func (d *demo) killData(ctx context.Context) error {
	const name = "data-2"
	before, err := d.admin.Slots(ctx)
	if err != nil {
		return err
	}
	d.story.scene("KILL -9 A DATA NODE", fmt.Sprintf("%s, which leads %s", name, plural(ledBy(before, name), "slot")))
	d.ledger.Phase()
	began := time.Now()
	killing := d.killBeside(ctx, name)
	waiting, cancel := context.WithTimeout(ctx, sceneWait)
	defer cancel()
	err = poll(waiting, func() (bool, error) {
		s, err := d.admin.Slots(waiting)
		return err == nil && holdsNothing(s, name) && allServed(s), err
	})
	served := time.Now()
	if died := <-killing; died != nil {
		return died
	}
	if err != nil {
		return fmt.Errorf("slots of %s are not served again: %w", name, err)
	}
	d.story.figure("unreadable for, at most", ms(served.Sub(began).Milliseconds()), "until all its slots were served by others; SOFARegistry: 22-24 s")
	return d.after(ctx, name, "slots")
}

// allServed reports whether every slot is served.
func allServed(s metaclient.SlotsInfo) bool {
	for _, x := range s.Slots {
		if x.State == "crash" || x.State == "switching" {
			return false
		}
	}
	return true
}

func (d *demo) killSession(ctx context.Context) error {
	const name = "session-1"
	behind := d.behind(name)
	d.story.scene("KILL -9 A SESSION", fmt.Sprintf("%s, which serves %d publishers and %d subscribers", name, demoPublishers/2, demoSubscribers))
	d.ledger.Phase()
	began := time.Now()
	killing := d.killBeside(ctx, name)
	waiting, cancel := context.WithTimeout(ctx, sceneWait)
	defer cancel()
	err := poll(waiting, func() (bool, error) {
		for _, p := range behind {
			if at := p.Connected(); len(at) == 0 || at[0].Name == name {
				return false, nil
			}
		}
		return true, nil
	})
	found := time.Now()
	if died := <-killing; died != nil {
		return died
	}
	if err != nil {
		return fmt.Errorf("clients of %s found no other session: %w", name, err)
	}
	d.story.figure("its clients reconnected in", ms(found.Sub(began).Milliseconds()), "")
	return d.after(ctx, name, "nodes --role session")
}

// killBeside kills in the background, because the engine's call returns long
// after the process has ended. The channel receives its result.
func (d *demo) killBeside(ctx context.Context, name string) <-chan error {
	killing := make(chan error, 1)
	go func() { killing <- d.stage.Kill(ctx, name) }()
	return killing
}

// behind returns the clients of a session.
func (d *demo) behind(session string) []*bench.Peer {
	var out []*bench.Peer
	for _, p := range d.peers {
		for _, n := range p.Connected() {
			if n.Name == session {
				out = append(out, p)
			}
		}
	}
	return out
}
